//! Subscriptions of a client to channels of the hub's redis, and of clusters.

use live::resp::{self, Kind, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Client;
use crate::{
    domain::ObjectOwner,
    live::redis_proxy::{
        command::Version,
        error::Ended,
        follow::{Channel, Notice, follow},
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
            if self.follows.contains_key(*channel) {
                self.confirm_first(channel).await?;
                self.confirm("subscribe", Some(channel)).await?;
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
                // Its first notice confirms it.
                Some(followed) => {
                    self.follows.insert(channel.to_vec(), followed);
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
                self.confirm_first(&channel).await?;
                self.follows.remove(&channel);
                self.confirm("unsubscribe", Some(&channel)).await?;
            }
        }
        Ok(())
    }

    /// Forwards a notice. Of a subscription that has ended there may be some left.
    pub(super) async fn notified(&mut self, notice: Notice) -> Result<(), Ended> {
        match notice {
            Notice::Subscribed(channel) => self.confirm_first(&channel).await?,
            Notice::Changed(channel) if self.follows.contains_key(&channel) => {
                // Argo CD's messages are empty.
                let message = ["message".into(), channel, vec![]].map(Value::bytes);
                self.writer.push(message.into()).await?;
            }
            Notice::Changed(_) => {}
        }
        Ok(self.writer.flush().await?)
    }

    /// Confirms a subscription, unless that is done.
    async fn confirm_first(&mut self, channel: &[u8]) -> Result<(), Ended> {
        match self.follows.get_mut(channel) {
            Some(followed) if !followed.is_confirmed => followed.is_confirmed = true,
            _ => return Ok(()),
        }
        self.confirm("subscribe", Some(channel)).await
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
