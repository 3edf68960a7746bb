//! Logs between an agent and whoever reads, without either.

use http_body_util::Collected;
use protocol::wire::logstreamapi::LogStreamData;

use super::super::log::{Piece, Unstamped};
use super::*;

/// What an agent says of a log.
fn said(data: &'static [u8], error: &str) -> LogStreamData {
    LogStreamData {
        data: Bytes::from_static(data),
        eof: data.is_empty(),
        error: error.to_owned(),
        ..LogStreamData::default()
    }
}

/// What whoever asks for a log reads when its agent says this.
async fn logged(query: &str, log: Vec<LogStreamData>) -> (StatusCode, Option<Bytes>) {
    let questions = Questions::default();
    let mut ear = open(&questions, &cluster());
    let line = questions.line(&cluster()).unwrap();
    let target = format!("/api/v1/namespaces/shop/pods/x/log{query}");
    let opening = async {
        let question = ear.next().await.unwrap();
        assert_eq!(question.target, Target::ContainerLog);
        let other = ClusterName::try_from("b").unwrap();
        let uuid = &question.event_id;
        assert!(questions.claim(&other, uuid).is_none(), "another cluster's");
        let claimed = questions.claim(&cluster(), uuid).unwrap();
        assert!(questions.claim(&cluster(), uuid).is_none(), "once");
        claimed
            .carry(futures::stream::iter(log.into_iter().map(Ok)))
            .await
            .unwrap();
    };
    let reading = async {
        let answer = line.ask(request(&target), PATIENCE).await.unwrap();
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
    tokio::join!(reading, opening).0
}

#[tokio::test]
async fn a_log_is_carried_to_whoever_asked_until_its_end() {
    let whole = || vec![said(b"t one\nt t", ""), said(b"wo\n", ""), said(b"", "")];
    let read = logged("", whole()).await;
    assert_eq!(
        read,
        (StatusCode::OK, Some(Bytes::from_static(b"one\ntwo\n")))
    );
    let read = logged("?timestamps=true&follow=true", whole()).await;
    let stamped = Bytes::from_static(b"t one\nt two\n");
    assert_eq!(read, (StatusCode::OK, Some(stamped)));
    let (status, _) = logged("", vec![said(b"", "pods \"x\" not found")]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = logged("", vec![said(b"", "container is waiting")]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let broken = logged("", vec![said(b"t half", "")]).await;
    assert_eq!(broken, (StatusCode::OK, None), "what breaks off has no end");
}

#[tokio::test]
async fn a_log_ends_with_the_session_and_with_whoever_reads() {
    for is_session in [true, false] {
        let questions = Questions::default();
        let mut ear = open(&questions, &cluster());
        let line = questions.line(&cluster()).unwrap();
        let log = "/api/v1/namespaces/shop/pods/x/log?follow=true";
        let opening = async {
            let question = ear.next().await.unwrap();
            questions.claim(&cluster(), &question.event_id).unwrap()
        };
        let (answer, claimed) = tokio::join!(line.ask(request(log), PATIENCE), async {
            let claimed = opening.await;
            claimed
                .pieces
                .send(Piece::Data(Bytes::from_static(b"t x\n")))
                .await
                .unwrap();
            claimed
        });
        let answer = answer.unwrap();
        let carrying = claimed.carry(futures::stream::pending());
        let ending = async {
            if is_session {
                drop(ear);
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
fn times_are_taken_away_wherever_a_log_is_cut() {
    let log = "2026-11-22T12:00:00Z one two\n2026-11-22T12:00:01Z \n2026-11-22T12:00:02Z three";
    for cut in 0..log.len() {
        let mut unstamped = Unstamped::default();
        let (one, two) = log.as_bytes().split_at(cut);
        let shown = [unstamped.strip(one), unstamped.strip(two)].concat();
        assert_eq!(shown, b"one two\n\nthree", "{cut}");
    }
}
