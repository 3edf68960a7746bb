//! Subscriptions of a client to channels of the hub's redis, and of clusters.

use live::resp::{self, Kind, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Client;
use crate::{
    domain::ObjectOwner,
    live::redis_proxy::{
        command::Version,
        error::Ended,
        follow::{Channel, follow},
        remote::Remote,
    },
};

/// Channels of one client.
const MOST: usize = 64;

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Whether it has any subscriptions.
    pub(super) fn has_subscriptions(&self) -> bool {
        self.subscriptions() > 0
    }

    fn subscriptions(&self) -> usize {
        self.follows.len().saturating_add(self.local.len())
    }

    pub(super) async fn subscribe(&mut self, channels: &[&[u8]]) -> Result<(), Ended> {
        for channel in channels {
            if self.subscriptions() >= MOST {
                self.writer.error("ERR too many channels").await?;
                continue;
            }
            let Some((key, ObjectOwner::Cluster(there))) = self.whose(channel) else {
                let command = resp::command(&[b"SUBSCRIBE", channel]);
                // The hub's redis confirms it.
                self.send_upstream(&command).await?;
                self.local.insert(channel.to_vec());
                continue;
            };
            let remote = Remote::new(there, &key);
            let notify = self.notify.clone();
            match follow(&self.shared, remote, channel.to_vec(), notify) {
                None => self.writer.busy().await?,
                Some(guard) => {
                    self.follows.insert(channel.to_vec(), guard);
                    self.confirm("subscribe", Some(channel)).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn unsubscribe(&mut self, channels: &[&[u8]]) -> Result<(), Ended> {
        let all: Vec<Channel> = if channels.is_empty() {
            let all = self.follows.keys().chain(&self.local);
            all.cloned().collect()
        } else {
            channels.iter().map(|channel| channel.to_vec()).collect()
        };
        if all.is_empty() {
            self.confirm("unsubscribe", None).await?;
        }
        for channel in all {
            if self.local.remove(&channel) {
                let command = resp::command(&[b"UNSUBSCRIBE", &channel]);
                self.send_upstream(&command).await?;
            } else {
                self.follows.remove(&channel);
                self.confirm("unsubscribe", Some(&channel)).await?;
            }
        }
        Ok(())
    }

    /// Forwards a change.
    pub(super) async fn changed(&mut self, channel: Channel) -> Result<(), Ended> {
        if self.follows.contains_key(&channel) {
            // Argo CD's messages are empty.
            let message = ["message".into(), channel, vec![]].map(Value::bytes);
            self.writer.push(message.into()).await?;
            self.writer.flush().await?;
        }
        Ok(())
    }

    pub(super) async fn ping(&mut self, text: Option<&[u8]>) -> Result<(), Ended> {
        let value = match (text, self.writer.version) {
            (text, Version::Two) if self.has_subscriptions() => {
                let pong = [&b"pong"[..], text.unwrap_or_default()].map(Value::bytes);
                Value::Group(Kind::Array, pong.into())
            }
            (Some(text), _) => Value::bytes(text),
            (None, _) => Value::simple("PONG"),
        };
        Ok(self.writer.value(&value).await?)
    }

    async fn confirm(&mut self, kind: &str, channel: Option<&[u8]>) -> Result<(), Ended> {
        let count = i64::try_from(self.subscriptions()).unwrap_or(i64::MAX);
        let elements = vec![
            Value::bytes(kind),
            channel.map_or_else(|| self.writer.nothing(), Value::bytes),
            Value::integer(count),
        ];
        Ok(self.writer.push(elements).await?)
    }
}
