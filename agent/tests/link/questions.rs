//! Live requests of a Go principal, over the session.

use bytes::Bytes;
use protocol::event::Method;
use protocol::{Event, Target, Verb};
use serde_json::{Value, json};

use super::principal::{Conversation, Manner};
use super::wait::soon;
use super::{APPS, Scene, app, connected, connected_to};

/// Sends a request over the session, and returns the body of its answer.
async fn answered(talk: &mut Conversation, target: Target, verb: Verb, asked: Value) -> Value {
    let event = Event::control(target, verb, Bytes::from(asked.to_string()));
    let id = event.event_id.clone();
    talk.emit(event).await;
    let wanted = if target == Target::Redis {
        Verb::RedisResponse
    } else {
        Verb::Response
    };
    let is_it = |answer: &Event| answer.event_id == id;
    let answer = talk.until_fits(wanted, is_it).await;
    assert_eq!(answer.target, target);
    let body: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(body["uuid"], id);
    body
}

#[tokio::test]
async fn go_principal_live_requests_use_the_session() {
    let (scene, mut talk) = connected(Manner::Go).await;
    scene.api.world.make(APPS, app("one", "5", "main"));
    let get = Verb::Http(Method::Get);
    let list = json!({ "method": "GET", "group": "argoproj.io", "version": "v1alpha1",
        "resource": APPS, "namespace": "argocd", "name": "" });
    let answer = answered(&mut talk, Target::Resource, get, list.clone()).await;
    assert_eq!(answer["status"], 200);
    let listed: Value = serde_json::from_str(answer["resource"].as_str().unwrap()).unwrap();
    assert_eq!(listed["items"][0]["metadata"]["name"], "one");

    let mut secrets = list;
    secrets["group"] = json!("");
    secrets["version"] = json!("v1");
    secrets["resource"] = json!("secrets");
    let answer = answered(&mut talk, Target::Resource, get, secrets).await;
    assert_eq!(answer["status"], 403);
    let garbage = answered(&mut talk, Target::Resource, get, json!([1])).await;
    assert_eq!(garbage["status"], 400);

    let key = json!({ "connectionUuid": "c", "body": { "get": { "key": "k" } } });
    let answer = answered(&mut talk, Target::Redis, Verb::RedisRequest, key).await;
    assert_eq!(answer["connectionUuid"], "c");
    assert_eq!(answer["body"]["get"]["cacheHit"], false);
}

#[tokio::test]
async fn go_principal_log_uses_its_own_stream() {
    let (mut scene, talk) = connected(Manner::Go).await;
    for (pod, wanted) in [("talker", "one\ntwo\n"), ("missing", "")] {
        let asked = json!({ "uuid": pod, "namespace": "shop", "podName": pod });
        let get = Verb::Http(Method::Get);
        let asked = Bytes::from(asked.to_string());
        talk.emit(Event::control(Target::ContainerLog, get, asked))
            .await;
        let mut log = scene.principal.log().await;
        let first = soon("its name", log.message()).await.unwrap().unwrap();
        assert_eq!(
            (first.request_uuid.as_str(), first.data.len(), first.eof),
            (pod, 0, false)
        );
        let mut read = Vec::new();
        let last = loop {
            let piece = soon("more of it", log.message()).await.unwrap().unwrap();
            read.extend_from_slice(&piece.data);
            if piece.eof {
                break piece;
            }
        };
        assert_eq!(String::from_utf8(read).unwrap(), wanted);
        assert_eq!(last.error.is_empty(), pod == "talker", "{}", last.error);
    }
}

/// Requests a log, and reads it.
async fn logged(scene: &mut Scene, talk: &Conversation) -> String {
    let asked = json!({ "uuid": "talker", "namespace": "shop", "podName": "talker" });
    let asked = Bytes::from(asked.to_string());
    let get = Verb::Http(Method::Get);
    talk.emit(Event::control(Target::ContainerLog, get, asked))
        .await;
    let mut log = scene.principal.log().await;
    let mut read = Vec::new();
    loop {
        let piece = soon("more of it", log.message()).await.unwrap().unwrap();
        read.extend_from_slice(&piece.data);
        if piece.eof {
            return String::from_utf8(read).unwrap();
        }
    }
}

/// Claims of tokens that are valid for 20 seconds, and for 5 minutes: `{"iat":1000,"exp":1020}`.
const BRIEF: &str = "eyJpYXQiOjEwMDAsImV4cCI6MTAyMH0";
const USUAL: &str = "eyJpYXQiOjEwMDAsImV4cCI6MTMwMH0";

fn token(name: &str, claims: &str) -> String {
    format!("{name}.{claims}.s")
}

#[tokio::test]
async fn a_token_is_renewed_before_a_stream_that_outlives_it() {
    let (mut scene, mut talk) = connected_to(Manner::Go, &token("first", BRIEF)).await;
    scene.principal.set_access_token(&token("second", USUAL));
    for _ in 0..2 {
        assert_eq!(logged(&mut scene, &talk).await, "one\ntwo\n");
    }
    let (refused, refreshed) = {
        let tokens = scene.principal.tokens.lock().unwrap();
        (tokens.refused, tokens.refreshed)
    };
    assert_eq!((refused, refreshed), (0, 1), "once, before its rejection");
    answers_still(&mut talk).await;
}

#[tokio::test]
async fn rejected_token_is_renewed_with_an_accepted_credential() {
    let (mut scene, mut talk) = connected_to(Manner::Go, &token("first", USUAL)).await;
    scene.principal.set_access_token(&token("second", USUAL));
    assert_eq!(logged(&mut scene, &talk).await, "one\ntwo\n");
    {
        let mut tokens = scene.principal.tokens.lock().unwrap();
        tokens.refresh = "another".to_owned();
        tokens.access = token("third", USUAL);
    }
    assert_eq!(logged(&mut scene, &talk).await, "one\ntwo\n");
    {
        let tokens = scene.principal.tokens.lock().unwrap();
        assert_eq!((tokens.refused, tokens.refreshed), (2, 1));
    }
    let introduced = scene.principal.authenticated.lock().unwrap().len();
    assert_eq!(introduced, 2, "again, on the same connection");
    answers_still(&mut talk).await;
}

/// Checks that the session continues.
async fn answers_still(talk: &mut Conversation) {
    let groups = answered(talk, Target::Resource, Verb::Http(Method::Get), json!([1])).await;
    assert_eq!(groups["status"], 400);
}
