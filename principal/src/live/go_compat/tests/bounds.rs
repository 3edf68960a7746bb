//! Bounds of unread, cancelled and oversized responses.

use protocol::wire::logstreamapi::LogStreamData;

use super::*;

const LOG: &str = "/api/v1/namespaces/shop/pods/x/log";

/// A log without an end.
fn endless() -> impl futures::Stream<Item = Result<LogStreamData, tonic::Status>> + Unpin {
    futures::stream::repeat_with(|| {
        Ok(LogStreamData {
            data: Bytes::from_static(b"t x\n"),
            ..LogStreamData::default()
        })
    })
}

/// A log that an agent has opened for this request.
async fn opened(
    go_requests: &GoRequests,
    driver: &mut GoRequestChannel,
    query: &str,
) -> (Response<Body>, LogStream) {
    let session = go_requests.session(&cluster()).unwrap();
    let opening = async {
        let question = driver.next().await.unwrap();
        go_requests
            .open_log(&cluster(), &question.event_id)
            .unwrap()
    };
    let target = format!("{LOG}{query}");
    let (answer, log) = tokio::join!(session.ask(request(&target), RESPONSE_TIMEOUT), opening);
    (answer.unwrap(), log)
}

#[tokio::test(start_paused = true)]
async fn unread_log_is_cancelled_before_it_blocks_its_agent() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    for (query, seconds) in [("", 5), ("?follow=true", 60)] {
        let (_unread, log) = opened(&go_requests, &mut driver, query).await;
        let begun = tokio::time::Instant::now();
        let ended = timeout(Duration::from_hours(1), log.forward(endless())).await;
        let why = ended.expect("it ends").unwrap_err();
        assert_eq!(why.code(), tonic::Code::Cancelled, "which is not retried");
        assert_eq!(begun.elapsed().as_secs(), seconds, "{query:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn log_without_follow_has_a_time_limit() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let (slowly_read, log) = opened(&go_requests, &mut driver, "").await;
    let log_body = async {
        let mut body = slowly_read.into_body();
        while let Some(Ok(_)) = body.frame().await {
            advance(Duration::from_secs(4)).await;
        }
    };
    let begun = tokio::time::Instant::now();
    let ending = async {
        let ended = log.forward(endless()).await;
        (ended.unwrap_err().code(), begun.elapsed())
    };
    let both = async { tokio::join!(ending, log_body) };
    let (ended, ()) = timeout(Duration::from_hours(1), both).await.unwrap();
    assert_eq!(ended.0, tonic::Code::Cancelled);
    let life = Duration::from_mins(3);
    assert!(
        (life..life + RESPONSE_TIMEOUT * 2).contains(&ended.1),
        "{ended:?}"
    );
}

#[tokio::test]
async fn open_logs_leave_room_on_the_connection() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let mut all = vec![];
    for _ in 0..MAX_LOGS {
        all.push(opened(&go_requests, &mut driver, "?follow=true").await);
    }
    let one_more = session.ask(request(LOG), RESPONSE_TIMEOUT).await;
    assert!(matches!(one_more, Err(NotAnswered::Busy)), "{one_more:?}");
    all.pop();
    opened(&go_requests, &mut driver, "").await;
    let (most, limits) = (
        crate::settings::GO_STREAMS,
        crate::settings::Limits::default(),
    );
    assert!(usize::try_from(most).unwrap() >= MAX_LOGS);
    assert!(limits.streams_per_connection > most);
}

#[tokio::test(start_paused = true)]
async fn cancelled_requests_are_not_sent() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let mut given_up = request("/apis/apps/v1/namespaces/shop/deployments/front");
    *given_up.method_mut() = http::Method::DELETE;
    let late = session.ask(given_up, RESPONSE_TIMEOUT).await;
    assert!(matches!(late, Err(NotAnswered::TimedOut(_))), "{late:?}");
    let late = session.ask(request(LOG), RESPONSE_TIMEOUT).await;
    assert!(matches!(late, Err(NotAnswered::TimedOut(_))), "{late:?}");
    let question = driver.next().now_or_never();
    assert!(question.is_none(), "{question:?}");
}

#[tokio::test(start_paused = true)]
async fn unread_responses_stay_within_their_budget() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let large = "x".repeat(7 << 20);
    let mut taken = vec![];
    for at in 0..=4 {
        let answering = async {
            let question = driver.next().await.unwrap();
            driver.handle_response(&resource_response(&question, 200, &large));
        };
        let asked = request("/api/v1/namespaces/shop/pods/x");
        let (answer, ()) = tokio::join!(session.ask(asked, RESPONSE_TIMEOUT), answering);
        assert_eq!(answer.is_ok(), at < 4, "{at}");
        taken.extend(answer.ok());
    }
    // Bytes on their way to the client still use the budget.
    let mut bodies: Vec<_> = taken.into_iter().map(Response::into_body).collect();
    let frame = bodies.pop().unwrap().frame().await.unwrap().unwrap();
    let all: usize = usize::try_from(answer_budget::MAX_BYTES).unwrap();
    assert!(session.budget.left() < all / 4);
    drop((frame, bodies));
    assert_eq!(session.budget.left(), all);
}
