//! Requests to a Go agent and the matching of its responses, without an agent.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use live::{cache_key::CacheKey, request::Request as Asked};
use protocol::{Event, Target, Verb, event::Method, payload};
use runtime::parts::Parts;
use serde_json::{Value, json};
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    key_format::{KeyFormat, wire_key},
    resource::{Translation, answered, translate},
    session::{MAX_LOGS, MOST},
    *,
};

mod bounds;
mod log;
mod subscriptions;
mod terminal;

const RESPONSE_TIMEOUT: Duration = Duration::from_millis(2500);

fn cluster() -> ClusterName {
    ClusterName::try_from("a").unwrap()
}

fn open(go_requests: &GoRequests, cluster: &ClusterName) -> GoRequestChannel {
    let spawner = Parts::new(CancellationToken::new()).spawner();
    go_requests.open(cluster, Mode::Managed, &spawner)
}

fn request(target: &str) -> Request<Body> {
    let nothing = Full::default().map_err(|never| match never {});
    let mut request = Request::new(UnsyncBoxBody::new(nothing));
    *request.uri_mut() = target.parse().unwrap();
    request
}

fn parse(method: &str, target: &str) -> Asked {
    Asked::parse(method, target).unwrap()
}

fn json_of(event: &Event) -> Value {
    serde_json::from_slice(&event.payload).unwrap()
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// The response of an agent to a redis request.
fn redis_response(question: &Event, body: &Value) -> Event {
    let asked = json_of(question);
    let body =
        json!({ "uuid": asked["uuid"], "connectionUuid": asked["connectionUuid"], "body": body });
    Event {
        event_id: question.event_id.clone(),
        ..Event::control(Target::Redis, Verb::RedisResponse, body.to_string().into())
    }
}

fn resource_response(question: &Event, status: u16, text: &str) -> Event {
    Event::resource_response(&payload::ResourceResponse {
        uuid: question.event_id.clone(),
        status,
        resource: text.to_owned(),
    })
}

#[test]
fn api_requests_are_translated_to_go_events() {
    let pod = "/api/v1/namespaces/shop/pods/x";
    let Translation::Request(Method::Get, asked) = translate(&parse("GET", pod), None, b"") else {
        panic!("a Pod is asked for");
    };
    let asked = (
        asked.version.as_str(),
        asked.resource.as_str(),
        asked.namespace.as_str(),
        asked.name.as_str(),
    );
    assert_eq!(asked, ("v1", "pods", "shop", "x"));
    let deployment = "/apis/apps/v1/namespaces/shop/deployments/front";
    for (kind, is_carried) in [
        (None, true),
        (Some("application/merge-patch+json; charset=utf-8"), true),
        (Some("application/strategic-merge-patch+json"), false),
        (Some("application/apply-patch+yaml"), false),
    ] {
        let patched = translate(&parse("PATCH", deployment), kind, b"{}");
        assert_eq!(
            matches!(patched, Translation::Request(Method::Patch, _)),
            is_carried,
            "{kind:?}"
        );
    }
    let Translation::Request(Method::Delete, asked) =
        translate(&parse("DELETE", deployment), None, b"")
    else {
        panic!("a deletion is asked for");
    };
    assert_eq!(
        asked.body.as_deref(),
        Some(&b"{}"[..]),
        "a Go agent always decodes delete options"
    );
}

#[test]
fn requests_that_go_agents_do_not_support_are_refused() {
    let pod = "/api/v1/namespaces/shop/pods/x";
    let Translation::Log(log) = translate(
        &parse(
            "GET",
            &format!("{pod}/log?container=c&follow=true&tailLines=3"),
        ),
        None,
        b"",
    ) else {
        panic!("a log is asked for");
    };
    assert_eq!(
        (log.follow, log.tail_lines, log.timestamps),
        (true, Some(3), false)
    );
    for (method, target) in [
        ("PUT", pod),
        ("GET", "/api/v1/pods?watch=true"),
        ("DELETE", "/api/v1/namespaces/shop/pods"),
        // What it would make or open without a look at what it is for.
        (
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        ),
        ("POST", "/api/v1/namespaces/shop/pods/x/exec?command=sh"),
        ("GET", "/api/v1/namespaces/shop/pods/x/exec?command=sh"),
        ("GET", "/api/v1/nodes/x/proxy"),
        ("GET", "/api/v1/secrets"),
    ] {
        let refused = translate(&parse(method, target), None, b"");
        assert!(
            matches!(refused, Translation::Unsupported(StatusCode::FORBIDDEN, ..)),
            "{method}"
        );
    }
    assert!(matches!(
        translate(&parse("GET", "/version"), None, b""),
        Translation::Known(_)
    ));
    assert!(matches!(
        translate(&parse("GET", "/openapi/v3"), None, b""),
        Translation::Unsupported(..)
    ));
}

#[tokio::test]
async fn go_responses_are_translated_to_api_responses() {
    let of = |status, resource: &str| payload::ResourceResponse {
        uuid: "u".to_owned(),
        status,
        resource: resource.to_owned(),
    };
    let pod = parse("GET", "/api/v1/namespaces/shop/pods/x");
    let found = answered(&pod, of(200, r#"{"kind":"Pod"}"#));
    assert_eq!(
        (found.status(), text(found).await.as_str()),
        (StatusCode::OK, r#"{"kind":"Pod"}"#)
    );
    let missing = answered(&pod, of(404, ""));
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert!(text(missing).await.contains(r#""reason":"NotFound""#));
    for odd in [0, 101, 302, 999] {
        assert_eq!(
            answered(&pod, of(odd, "")).status(),
            StatusCode::BAD_GATEWAY,
            "{odd}"
        );
    }
    let secret = parse("GET", "/api/v1/namespaces/shop/secrets/x");
    let shown = answered(&secret, of(200, r#"{"kind":"Secret","data":{"k":"dg=="}}"#));
    let shown = text(shown).await;
    assert!(shown.contains("++++") && !shown.contains("dg=="), "{shown}");
    let odd = answered(&secret, of(200, r#"{"kind":"List","items":[]}"#));
    assert_eq!(odd.status(), StatusCode::BAD_GATEWAY);
    let groups = parse("GET", "/apis");
    let listed = answered(
        &groups,
        of(200, r#"{"groups":[{"name":""},{"name":"apps"}]}"#),
    );
    assert_eq!(text(listed).await, r#"{"groups":[{"name":"apps"}]}"#);
}

#[tokio::test]
async fn responses_match_their_agent_and_session_end_fails_requests() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let other = open(&go_requests, &ClusterName::try_from("b").unwrap());
    let session = go_requests.session(&cluster()).unwrap();
    let outgoing = session.ask(request("/api/v1/namespaces/shop/pods/x"), RESPONSE_TIMEOUT);
    let answering = async {
        let question = driver.next().await.unwrap();
        assert_eq!(
            (question.target, question.verb),
            (Target::Resource, Verb::Http(Method::Get))
        );
        assert_eq!(json_of(&question)["uuid"], question.event_id);
        assert!(other.handle_response(&resource_response(&question, 200, "forged")));
        assert!(driver.handle_response(&resource_response(&question, 200, "theirs")));
        assert!(driver.handle_response(&resource_response(&question, 200, "again")));
        assert!(!driver.handle_response(&Event::ping()));
    };
    let (answer, ()) = tokio::join!(outgoing, answering);
    assert_eq!(text(answer.unwrap()).await, "theirs");

    let outgoing = session.ask(request("/api/v1/namespaces/shop/pods/x"), RESPONSE_TIMEOUT);
    let ending = async { drop((driver.next().await, driver)) };
    let (answer, ()) = tokio::join!(outgoing, ending);
    assert!(matches!(answer, Err(NotAnswered::Ended)), "{answer:?}");
    let late = session
        .ask(request("/api/v1/namespaces/shop/pods/x"), RESPONSE_TIMEOUT)
        .await;
    assert!(matches!(late, Err(NotAnswered::Ended)), "{late:?}");
    assert!(go_requests.session(&cluster()).is_none());
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_silent_agent_are_bounded_in_time_and_number() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let outgoing = (0..=MOST)
        .map(|_| session.ask(request("/api/v1/namespaces/shop/pods/x"), RESPONSE_TIMEOUT));
    let all = futures::future::join_all(outgoing).await;
    let busy = all.iter().filter(|it| matches!(it, Err(NotAnswered::Busy)));
    assert_eq!(busy.count(), 1);
    let late = all
        .iter()
        .filter(|it| matches!(it, Err(NotAnswered::TimedOut(_))));
    assert_eq!(late.count(), MOST);
    assert!(session.answers.is_empty(), "nothing is left of them");
    assert!(
        driver.next().now_or_never().is_none(),
        "and none of them is sent"
    );
}

#[test]
fn redis_keys_follow_the_key_format_of_the_agent() {
    let key = |text: &str| CacheKey::parse(text.as_bytes()).unwrap();
    let own = key("app|resources-tree|guestbook|1.8.3.gz");
    let prefixed = wire_key(&cluster(), &own, KeyFormat::Prefixed);
    assert_eq!(
        prefixed.as_deref(),
        Some("app|resources-tree|a_guestbook|1.8.3.gz")
    );
    assert_eq!(
        wire_key(&cluster(), &own, KeyFormat::Bare),
        Some(own.to_string())
    );
    let elsewhere = key("app|resources-tree|team_guestbook|1.8.3.gz");
    assert_eq!(
        wire_key(&cluster(), &elsewhere, KeyFormat::Prefixed),
        Some(elsewhere.to_string())
    );
    let shard = key("app|resources-tree|guestbook|2|1.8.3.gz");
    assert_eq!(wire_key(&cluster(), &shard, KeyFormat::Prefixed), None);
}

#[tokio::test(start_paused = true)]
async fn redis_key_format_is_learned_once() {
    const TREE: &str = "/argocd/cache/resources-tree/-/guestbook/0/1.8.3.gz";
    let miss = json!({ "get": { "bytes": null, "cacheHit": false, "error": "" } });
    let hit = json!({ "get": { "bytes": "dHJlZQ==", "cacheHit": true, "error": "" } });
    for is_mapped_by_namespace in [true, false] {
        let go_requests = GoRequests::default();
        let mut driver = open(&go_requests, &cluster());
        let session = go_requests.session(&cluster()).unwrap();
        let agent = async {
            let mut keys = vec![];
            while let Some(question) = driver.next().await {
                let key = json_of(&question)["body"]["get"]["key"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let is_bare = !key.contains('_');
                keys.push(is_bare);
                if is_bare && is_mapped_by_namespace {
                    continue;
                }
                let found = is_bare && keys.len() > 2;
                driver
                    .handle_response(&redis_response(&question, if found { &hit } else { &miss }));
                if keys.len() >= 3 {
                    break;
                }
            }
            keys
        };
        let outgoing = async {
            let first = session.ask(request(TREE), RESPONSE_TIMEOUT).await.unwrap();
            (
                first.status(),
                session.ask(request(TREE), RESPONSE_TIMEOUT).await.unwrap(),
            )
        };
        let ((first, second), keys) = tokio::join!(outgoing, agent);
        assert_eq!(first, StatusCode::NOT_FOUND);
        if is_mapped_by_namespace {
            assert_eq!(keys, [false, true, false]);
            assert_eq!(second.status(), StatusCode::NOT_FOUND);
        } else {
            assert_eq!(keys, [false, true, true]);
            assert_eq!(text(second).await, "tree");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subscription_forwards_messages_and_ends_without_pong() {
    let go_requests = GoRequests::default();
    let mut driver = open(&go_requests, &cluster());
    let session = go_requests.session(&cluster()).unwrap();
    let target = "/argocd/cache/managed-resources/team/guestbook/0/1.8.3?watch=true";
    let subscribing = async {
        let question = driver.next().await.unwrap();
        let channel = json_of(&question)["body"]["subscribe"]["channel"].clone();
        assert_eq!(channel, "app|managed-resources|team_guestbook|1.8.3");
        let done = json!({ "subscribeResponse": { "error": "" } });
        driver.handle_response(&redis_response(&question, &done));
        question
    };
    let (answer, question) =
        tokio::join!(session.ask(request(target), RESPONSE_TIMEOUT), subscribing);
    let mut body = answer.unwrap().into_body();
    driver.handle_response(&redis_response(
        &question,
        &json!({ "pushFromSubscribe": { "channelName": "c" } }),
    ));
    assert!(body.frame().await.unwrap().is_ok());
    let ponging = async {
        let ping = driver.next().await.unwrap();
        assert_eq!(json_of(&ping)["body"], json!({ "ping": {} }));
        assert_eq!(
            json_of(&ping)["connectionUuid"],
            json_of(&question)["connectionUuid"]
        );
        driver.handle_response(&redis_response(&ping, &json!({ "pong": {} })));
        // The next one is not answered.
        driver.next().await.unwrap();
        advance(Duration::from_secs(31)).await;
    };
    let (end, ()) = tokio::join!(body.frame(), ponging);
    assert!(end.unwrap().is_err());
    drop(body);
    assert!(session.pushes.is_empty());
}
