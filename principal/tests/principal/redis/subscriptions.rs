//! Subscriptions to channels of a cluster's redis through the proxy.

use bytes::Bytes;
use futures::StreamExt as _;
use http::Response;
use live::resp::{Kind, Value};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{AgentTunnel, CHANNEL, Client, lonely};
use crate::{resource_proxy::stream, world::bounded};

#[tokio::test]
async fn redis_subscriber_gets_cluster_messages_and_reconnects() {
    let world = lonely().await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let channel = str::from_utf8(CHANNEL).unwrap();
    for (mut client, kind) in [
        (Client::three(&world).await, Kind::Push),
        (Client::of(&world).await, Kind::Array),
    ] {
        client.send(&[b"subscribe", CHANNEL]).await;
        let asked = tunnel.next().await;
        assert_eq!(
            asked.request.uri().path_and_query().unwrap(),
            "/argocd/cache/managed-resources/-/guestbook/0/1.8.3?watch=true"
        );
        let (notifier, changes) = mpsc::channel(1);
        let body = stream(ReceiverStream::new(changes).boxed());
        // Not confirmed yet: a message between the confirmation and the agent's answer would be lost.
        client.send(&[b"ping", b"first"]).await;
        let pong = if kind == Kind::Push {
            Value::bytes("first")
        } else {
            Value::Group(kind, ["pong", "first"].map(Value::bytes).into())
        };
        assert_eq!(client.response().await, Some(pong));
        asked.answer.send(Response::new(body)).unwrap();
        assert_eq!(
            client.response().await,
            Some(confirmation(kind, "subscribe", 1))
        );
        let message = ["message".into(), CHANNEL.to_vec(), vec![]].map(Value::bytes);
        let message = Value::Group(kind, message.into());
        for _ in 0..2 {
            notifier.send(Ok(Bytes::from_static(b"\n"))).await.unwrap();
            assert_eq!(client.response().await.as_ref(), Some(&message));
        }
        // The stream breaks: it is opened again, and messages may be lost meanwhile.
        drop(notifier);
        let asked = tunnel.next().await;
        let (notifier, changes) = mpsc::channel(1);
        let body = stream(ReceiverStream::new(changes).boxed());
        asked.answer.send(Response::new(body)).unwrap();
        assert_eq!(client.response().await.as_ref(), Some(&message));
        let response = client.ask(&["unsubscribe", channel]).await;
        assert_eq!(response.elements()[2], Value::integer(0));
        bounded("the end of the stream", notifier.closed()).await;
    }
}

fn confirmation(kind: Kind, word: &str, subscriptions: i64) -> Value {
    let elements = vec![
        Value::bytes(word),
        Value::bytes(CHANNEL),
        Value::integer(subscriptions),
    ];
    Value::Group(kind, elements)
}

/// The client learns of the first answer, from a cluster that is disconnected when it subscribes.
#[tokio::test]
async fn redis_subscription_to_a_disconnected_cluster_is_confirmed() {
    let world = lonely().await;
    let mut client = Client::three(&world).await;
    let channel = str::from_utf8(CHANNEL).unwrap();
    let subscribed = confirmation(Kind::Push, "subscribe", 1);
    assert_eq!(client.ask(&["subscribe", channel]).await, subscribed);
    assert_eq!(
        client.ask(&["subscribe", channel]).await,
        subscribed,
        "twice"
    );
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let asked = tunnel.next().await;
    let body = stream(futures::stream::pending().boxed());
    asked.answer.send(Response::new(body)).unwrap();
    let message = client.response().await.unwrap();
    assert_eq!(message.elements()[0], Value::bytes("message"));
}

#[tokio::test]
async fn redis_client_unsubscribes_before_the_agent_answers() {
    let world = lonely().await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut client = Client::three(&world).await;
    client.send(&[b"subscribe", CHANNEL]).await;
    let asked = tunnel.next().await;
    client.send(&[b"unsubscribe", CHANNEL]).await;
    for (word, subscriptions) in [("subscribe", 1), ("unsubscribe", 0)] {
        let confirmed = confirmation(Kind::Push, word, subscriptions);
        assert_eq!(client.response().await, Some(confirmed));
    }
    drop(
        asked
            .answer
            .send(Response::new(stream(futures::stream::pending().boxed()))),
    );
    assert_eq!(
        client.ask(&["ping"]).await,
        Value::simple("PONG"),
        "and no second confirmation"
    );
}
