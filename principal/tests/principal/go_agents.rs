//! People at the hub look at clusters of Go agents: the proxies over real TLS, and an agent that speaks Go's words by hand.

use bytes::Bytes;
use http::StatusCode;
use protocol::{
    Event, Target, Verb,
    event::Method,
    payload::{self, ResourceResponse},
    wire::logstreamapi::{LogStreamData, log_stream_service_client::LogStreamServiceClient},
};
use serde_json::json;
use tonic::{Code, Request, Status, transport::Channel};

use crate::{
    agent::{Agent, body},
    resource_proxy::{PODS, ProxyClient, read, world},
    world::bounded,
};

/// What an agent says to a request for its API.
fn answer(question: &Event, status: u16, resource: &str) -> Event {
    Event::resource_response(&ResourceResponse {
        uuid: question.event_id.clone(),
        status,
        resource: resource.to_owned(),
    })
}

/// A message on a log stream.
fn message(uuid: &str, data: &'static [u8], eof: bool) -> LogStreamData {
    LogStreamData {
        request_uuid: uuid.to_owned(),
        data: Bytes::from_static(data),
        eof,
        ..LogStreamData::default()
    }
}

/// Says this of a log, as an agent with this token.
async fn logs(channel: &Channel, token: &str, log: Vec<LogStreamData>) -> Result<i32, Status> {
    let mut request = Request::new(tokio_stream::iter(log));
    let token = token.parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    let mut client = LogStreamServiceClient::new(channel.clone());
    let answered = bounded("the end of a log", client.stream_logs(request)).await?;
    Ok(answered.into_inner().status)
}

#[tokio::test]
async fn go_agent_gets_live_requests_over_its_session() {
    let world = world(&["a", "b"]).await;
    let (mut agent, ..) = Agent::go(&world, "a").await;
    let (other, ..) = Agent::go(&world, "b").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let pod = format!("{PODS}/x");
    let get = Verb::Http(Method::Get);
    let answering = async {
        let question = agent.event(Target::Resource, get).await;
        let asked = body(&question);
        assert_eq!(asked["namespace"], "shop");
        assert_eq!(
            (&asked["resource"], &asked["name"]),
            (&json!("pods"), &json!("x"))
        );
        other.send(answer(&question, 200, "forged")).await;
        agent.send(answer(&question, 200, "{}")).await;
    };
    let (answered, ()) = tokio::join!(proxy_client.get(&pod), answering);
    assert_eq!(answered.status(), StatusCode::OK);
    assert_eq!(read(answered).await.unwrap(), "{}");

    let answering = async {
        let question = agent.event(Target::Resource, get).await;
        agent.send(answer(&question, 403, "")).await;
    };
    let (answered, ()) = tokio::join!(proxy_client.get(&pod), answering);
    assert_eq!(answered.status(), StatusCode::FORBIDDEN);
    drop(read(answered).await);

    let ending = async {
        agent.event(Target::Resource, get).await;
        drop(agent);
    };
    let (answered, ()) = tokio::join!(proxy_client.get(&pod), ending);
    assert_eq!(answered.status(), StatusCode::BAD_GATEWAY, "at once");
}

#[tokio::test]
async fn go_agent_sends_only_requested_logs_each_on_its_own_stream() {
    let world = world(&["a", "b"]).await;
    let (mut agent, channel, token) = Agent::go(&world, "a").await;
    let (_other, others_channel, others_token) = Agent::go(&world, "b").await;
    let unasked = logs(&channel, &token, vec![message("x", b"", false)]).await;
    assert_eq!(unasked.unwrap_err().code(), Code::NotFound);
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let sending = async {
        let question = agent
            .event(Target::ContainerLog, Verb::Http(Method::Get))
            .await;
        let asked: payload::LogRequest = payload::decode("log", &question.payload).unwrap();
        assert_eq!((asked.pod_name.as_str(), asked.tail_lines), ("x", Some(2)));
        let uuid = asked.uuid;
        let log = || {
            vec![
                message(&uuid, b"", false),
                message(&uuid, b"t one\n", false),
                message(&uuid, b"", true),
            ]
        };
        let forged = logs(&others_channel, &others_token, log()).await;
        assert_eq!(forged.unwrap_err().code(), Code::NotFound);
        assert_eq!(logs(&channel, &token, log()).await.unwrap(), 200);
    };
    let reading = async {
        let answered = proxy_client.get(&format!("{PODS}/x/log?tailLines=2")).await;
        assert_eq!(answered.status(), StatusCode::OK);
        read(answered).await.unwrap()
    };
    let (log, ()) = tokio::join!(reading, sending);
    assert_eq!(log, "one\n");
}

#[tokio::test]
async fn log_streams_do_not_consume_the_admission_budget() {
    let world = world(&["a"]).await;
    let (_agent, channel, token) = Agent::go(&world, "a").await;
    for at in 0..40 {
        let unasked = logs(&channel, &token, vec![message("x", b"", false)]).await;
        assert_eq!(unasked.unwrap_err().code(), Code::NotFound, "{at}");
    }
    Agent::go(&world, "a").await;
}

/// Bytes that no compression makes fewer.
pub(crate) fn noise(bytes: usize) -> String {
    let next = |state: &u64| Some(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    let states = std::iter::successors(Some(1_u64), next);
    let letters = states.map(|state| char::from(b' ' + state.to_be_bytes()[0] % 64));
    letters.take(bytes).collect()
}

#[tokio::test]
async fn oversized_response_is_acknowledged_and_session_continues() {
    let world = world(&["a", "b"]).await;
    let (plain, ..) = Agent::go(&world, "a").await;
    let compressing = Agent::compressing(&world, "b").await;
    let mut count = 0;
    for (cluster, mut agent, answers) in [
        ("a", plain, vec!["x".repeat(100 << 10)]),
        (
            "b",
            compressing,
            // Small on its way, large on its way, and one that inflates to a hundred times the limit.
            vec!["x".repeat(100 << 10), noise(200 << 10), "x".repeat(8 << 20)],
        ),
    ] {
        let mut proxy_client = ProxyClient::of(&world, cluster).await;
        let pod = format!("{PODS}/x");
        let get = Verb::Http(Method::Get);
        for large in answers {
            let answering = async {
                let question = agent.event(Target::Resource, get).await;
                agent.send_and_ack(answer(&question, 200, &large)).await;
            };
            let (response, ()) = tokio::join!(
                proxy_client.fetch(crate::resource_proxy::get(&pod)),
                answering
            );
            assert_eq!(response.0, 502);
            assert!(
                response.1.contains("exceeds the message size limit"),
                "{}",
                response.1
            );
            count += 1;
            let counted = "argocd_principal_events_refused_total{reason=\"too_large\"}";
            world.counted(&format!("{counted} {count}")).await;
        }
        let answering = async {
            let question = agent.event(Target::Resource, get).await;
            agent.send(answer(&question, 200, "{}")).await;
        };
        let (answered, ()) = tokio::join!(proxy_client.get(&pod), answering);
        assert_eq!(answered.status(), StatusCode::OK);
    }
}
