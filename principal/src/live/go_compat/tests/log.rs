//! Logs from an agent to a reader, without either.

use http_body_util::Collected;
use protocol::wire::logstreamapi::LogStreamData;

use super::super::{log::TimestampStripper, log_stream::Piece};
use super::*;

/// What an agent says of a log.
fn response(data: &'static [u8], error: &str) -> LogStreamData {
    LogStreamData {
        data: Bytes::from_static(data),
        eof: data.is_empty(),
        error: error.to_owned(),
        ..LogStreamData::default()
    }
}

/// The body of a log response when its agent sends this.
async fn logged(query: &str, log: Vec<LogStreamData>) -> (StatusCode, Option<Bytes>) {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let target = format!("/api/v1/namespaces/shop/pods/x/log{query}");
    let opening = async {
        let question = driver.next().await.unwrap();
        assert_eq!(question.target, Target::ContainerLog);
        let other = ClusterName::try_from("b").unwrap();
        let uuid = &question.event_id;
        assert!(
            go_requests.open_log(&other, uuid).is_none(),
            "another cluster's"
        );
        let claimed = go_requests.open_log(&cluster(), uuid).unwrap();
        assert!(go_requests.open_log(&cluster(), uuid).is_none(), "once");
        claimed
            .forward(futures::stream::iter(log.into_iter().map(Ok)))
            .await
            .unwrap();
    };
    let log_body = async {
        let answer = session
            .ask(request(&target), RESPONSE_TIMEOUT)
            .await
            .unwrap();
        let status = answer.status();
        (
            status,
            answer
                .into_body()
                .collect()
                .await
                .ok()
                .map(Collected::to_bytes),
        )
    };
    tokio::join!(log_body, opening).0
}

#[tokio::test]
async fn log_is_forwarded_until_its_end() {
    let whole = || {
        vec![
            response(b"t one\nt t", ""),
            response(b"wo\n", ""),
            response(b"", ""),
        ]
    };
    let read = logged("", whole()).await;
    assert_eq!(
        read,
        (StatusCode::OK, Some(Bytes::from_static(b"one\ntwo\n")))
    );
    let read = logged("?timestamps=true&follow=true", whole()).await;
    let stamped = Bytes::from_static(b"t one\nt two\n");
    assert_eq!(read, (StatusCode::OK, Some(stamped)));
    let (status, _) = logged("", vec![response(b"", "pods \"x\" not found")]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = logged("", vec![response(b"", "container is waiting")]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let broken = logged("", vec![response(b"t half", "")]).await;
    assert_eq!(broken, (StatusCode::OK, None), "what breaks off has no end");
}

#[tokio::test]
async fn log_ends_with_the_session_and_with_its_reader() {
    for is_session in [true, false] {
        let go_requests = GoRequests::default();
        let mut driver = open(&go_requests, &cluster());
        let session = go_requests.session(&cluster()).unwrap();
        let log = "/api/v1/namespaces/shop/pods/x/log?follow=true";
        let opening = async {
            let question = driver.next().await.unwrap();
            go_requests
                .open_log(&cluster(), &question.event_id)
                .unwrap()
        };
        let (answer, claimed) = tokio::join!(session.ask(request(log), RESPONSE_TIMEOUT), async {
            let claimed = opening.await;
            claimed
                .pieces
                .send(Piece::Data(Bytes::from_static(b"t x\n")))
                .await
                .unwrap();
            claimed
        });
        let answer = answer.unwrap();
        let carrying = claimed.forward(futures::stream::pending());
        let ending = async {
            if is_session {
                drop(driver);
                drop(answer.into_body().collect().await.unwrap_err());
            } else {
                drop(answer);
            }
        };
        let (carried, ()) = tokio::join!(carrying, ending);
        assert_eq!(carried.unwrap_err().code(), tonic::Code::Cancelled);
    }
}

#[test]
fn timestamps_are_stripped_across_chunk_boundaries() {
    let log = "2026-11-22T12:00:00Z one two\n2026-11-22T12:00:01Z \n2026-11-22T12:00:02Z three";
    for cut in 0..log.len() {
        let mut stripper = TimestampStripper::default();
        let (one, two) = log.as_bytes().split_at(cut);
        let shown = [stripper.strip(one), stripper.strip(two)].concat();
        assert_eq!(shown, b"one two\n\nthree", "{cut}");
    }
}
