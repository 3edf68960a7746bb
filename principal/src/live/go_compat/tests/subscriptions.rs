//! Subscriptions, and what is learned of how an agent calls its keys.

use super::*;

const TREE: &str = "/argocd/cache/resources-tree/-/guestbook/0/1.8.3.gz";
const DIFF: &str = "/argocd/cache/managed-resources/-/guestbook/0/1.8.3?watch=true";

/// Says this to the next question, which is about this key or channel.
async fn respond(driver: &mut GoRequestChannel, about: &str, body: Value) {
    let question = driver.next().await.unwrap();
    let asked = json_of(&question).to_string();
    assert!(asked.contains(about), "{asked}");
    driver.handle_response(&redis_response(&question, &body));
}

fn value(hit: bool) -> Value {
    let bytes = hit.then_some("dHJlZQ==");
    json!({ "get": { "bytes": bytes, "cacheHit": hit, "error": "" } })
}

#[tokio::test(start_paused = true)]
async fn redis_key_format_is_probed_again_after_a_timeout() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let busy = async {
        respond(&mut driver, "|a_guestbook|", value(false)).await;
        // It has something else to do.
        driver.next().await.unwrap();
    };
    let (first, ()) = tokio::join!(session.ask(request(TREE), RESPONSE_TIMEOUT), busy);
    assert_eq!(first.unwrap().status(), StatusCode::NOT_FOUND);

    // What is followed meanwhile is followed under a name that may be the wrong one.
    let subscribing = async {
        let done = json!({ "subscribeResponse": { "error": "" } });
        respond(&mut driver, "|a_guestbook|", value(false)).await;
        respond(&mut driver, "|a_guestbook|", done).await;
    };
    let (followed, ()) = tokio::join!(session.ask(request(DIFF), RESPONSE_TIMEOUT), subscribing);
    let mut followed = followed.unwrap().into_body();

    advance(Duration::from_secs(16)).await;
    let answering = async {
        respond(&mut driver, "|a_guestbook|", value(false)).await;
        respond(&mut driver, "|guestbook|", value(true)).await;
    };
    let (second, ()) = tokio::join!(session.ask(request(TREE), RESPONSE_TIMEOUT), answering);
    assert_eq!(text(second.unwrap()).await, "tree");
    let ended = followed.frame().await.unwrap();
    assert!(ended.is_err(), "it is resubscribed under the right name");
}

#[tokio::test(start_paused = true)]
async fn subscription_survives_a_ping_without_free_slot() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let target = "/argocd/cache/managed-resources/team/guestbook/0/1.8.3?watch=true";
    let done = json!({ "subscribeResponse": { "error": "" } });
    let subscribing = respond(&mut driver, "team_guestbook", done);
    let (answer, ()) = tokio::join!(session.ask(request(target), RESPONSE_TIMEOUT), subscribing);
    let mut body = answer.unwrap().into_body();
    let response_timeout = Duration::from_secs(90);
    let busy =
        (0..MOST).map(|_| session.ask(request("/api/v1/namespaces/shop/pods/x"), response_timeout));
    let busy = futures::future::join_all(busy);
    let frame = body.frame();
    tokio::pin!(frame);
    tokio::select! {
        received = &mut frame => panic!("the subscription ended: {received:?}"),
        all = busy => assert_eq!(all.len(), MOST),
    }
    let ponging = respond(&mut driver, "ping", json!({ "pong": {} }));
    tokio::select! {
        received = &mut frame => panic!("the subscription ended: {received:?}"),
        () = ponging => {}
    }
}

#[test]
fn large_values_are_not_decoded_as_pushes() {
    let received = |padding: usize| {
        let body = json!({ "connectionUuid": "c", "body": { "pushFromSubscribe": { "channelName": "k" },
            "get": { "bytes": "A".repeat(padding) } } });
        let verb = Verb::RedisResponse;
        redis::push(&Event::control(
            Target::Redis,
            verb,
            body.to_string().into(),
        ))
    };
    assert_eq!(received(0).as_deref(), Some("c"));
    assert_eq!(received(1 << 20), None);
}
