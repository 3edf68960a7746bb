//! Bounds of the redis proxy against a hostile cluster and against other Pods of the hub.

use bytes::Bytes;

use super::{AgentTunnel, Client, PASSWORD, TREE, Value, found, lonely};
use crate::half_open::from_elsewhere;

/// The connections without a password that the proxy keeps.
const UNAUTHENTICATED: usize = 128;

#[tokio::test]
async fn redis_value_beyond_its_announced_length_is_cut() {
    const ANNOUNCED: usize = 1 << 20;
    let world = lonely().await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut client = Client::three(&world).await;
    client.send(&[b"get", TREE]).await;
    let piece = Bytes::from(vec![b'x'; ANNOUNCED / 4]);
    let endless = std::iter::repeat_with(|| Ok(piece.clone())).take(64);
    found(tunnel.next().await, ANNOUNCED, endless.collect());
    // Only a whole value would be a response.
    assert_eq!(client.response().await, None);
    let header = format!("${ANNOUNCED}\r\n").len();
    let read = client.buffer.len();
    assert!(read <= header + ANNOUNCED, "{read} bytes");
    let mut next = Client::three(&world).await;
    assert_eq!(next.ask(&["ping"]).await, Value::simple("PONG"));
}

#[tokio::test]
async fn idle_redis_connections_evict_their_own_address() {
    let world = lonely().await;
    // The oldest of all, without a password like the others.
    let mut early = Client::stranger(&world).await;
    assert!(early.error(&["ping"]).await.starts_with("NOAUTH"));
    let proxy = world.handle.redis_proxy.unwrap();
    let mut idle = Vec::new();
    for _ in 0..2 * UNAUTHENTICATED {
        idle.push(from_elsewhere(proxy).await);
    }
    let outcome = "argocd_principal_redis_requests_total{outcome=\"too_many_connections\"}";
    let evicted = idle.len() + 1 - UNAUTHENTICATED;
    world.counted(&format!("{outcome} {evicted}")).await;
    assert_eq!(early.ask(&["AUTH", PASSWORD]).await, Value::ok());
    let mut newcomer = Client::of(&world).await;
    assert_eq!(newcomer.ask(&["ping"]).await, Value::simple("PONG"));
}

#[tokio::test]
async fn unauthenticated_redis_clients_leave_room_for_others() {
    let world = lonely().await;
    let mut known = Client::of(&world).await;
    let mut strangers = vec![];
    for _ in 0..UNAUTHENTICATED {
        let mut stranger = Client::stranger(&world).await;
        assert!(stranger.error(&["ping"]).await.starts_with("NOAUTH"));
        strangers.push(stranger);
    }
    strangers.push(Client::stranger(&world).await);
    let evicted = strangers[0].response().await;
    assert_eq!(evicted, None, "the oldest made room");
    let counted = "argocd_principal_redis_requests_total{outcome=\"too_many_connections\"} 1";
    world.counted(counted).await;
    assert_eq!(known.ask(&["ping"]).await, Value::simple("PONG"));
    // Authenticated, it takes no slot of others.
    let login = ["AUTH", PASSWORD];
    assert_eq!(strangers[1].ask(&login).await, Value::ok());
    for _ in 0..500 {
        strangers.push(Client::stranger(&world).await);
    }
    let mut newcomer = Client::of(&world).await;
    for client in [&mut known, &mut newcomer, &mut strangers[1]] {
        assert_eq!(client.ask(&["ping"]).await, Value::simple("PONG"));
    }
}
