//! Responses of a hostile cluster to the hub's Argo CD, which reads them into memory.

use bytes::Bytes;
use futures::StreamExt as _;
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::{
    resource_proxy::{AgentTunnel, PODS, ProxyClient, stream, whole, world},
    world::bounded,
};

/// The most that Argo CD gets of one response.
const MOST: usize = 256 << 20;
/// What the cluster sends at a time. The bound is a multiple of it.
const PIECE: usize = 1 << 20;

/// Reads a body to its end, and keeps nothing of it.
async fn count(mut body: Incoming) -> (usize, Result<(), hyper::Error>) {
    let mut count = 0;
    while let Some(frame) = bounded("the next piece", body.frame()).await {
        match frame {
            Ok(frame) => count += frame.data_ref().map_or(0, Bytes::len),
            Err(error) => return (count, Err(error)),
        }
    }
    (count, Ok(()))
}

#[tokio::test]
async fn endless_response_ends_at_256_mib() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let endless = async {
        let piece = Bytes::from(vec![b'x'; PIECE]);
        let pieces = futures::stream::repeat_with(move || Ok(piece.clone()));
        tunnel.next().await.answer(stream(pieces.boxed()));
    };
    let (answer, ()) = tokio::join!(proxy_client.get(PODS), endless);
    assert_eq!(answer.status(), StatusCode::OK);
    let (read, end) = count(answer.into_body()).await;
    assert!(end.is_err(), "a response that was cut is no whole response");
    assert!(read <= MOST, "{read} bytes");
    // Less would break honest clusters with large lists: only the frame that crosses the bound is missing.
    assert!(read > MOST - PIECE, "{read} bytes");
    // Neither the tunnel nor the cluster suffers.
    let mut next = ProxyClient::of(&world, "a").await;
    let answering = async { tunnel.next().await.answer(whole(b"{}")) };
    let (answer, ()) = tokio::join!(next.get(PODS), answering);
    assert_eq!(count(answer.into_body()).await.0, 2);
}
