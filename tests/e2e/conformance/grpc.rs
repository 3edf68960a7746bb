//! A cluster that joined with OCM's registration driver `grpc`: OCM's gRPC server on the hub creates its requests, and names
//! the agent's user in an annotation.

use anyhow::{Result, ensure};
use base64::Engine as _;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use lab::steps::{At, enrol};
use serde_json::{Value, json};

use super::certificates::Request;
use crate::{
    intruders::requests::explained,
    programs::Program,
    stage::{SOON, Stage},
};

/// The namespace of OCM on the hub.
const HUB: &str = "open-cluster-management-hub";
/// The account of its gRPC server.
const SERVER: &str = "grpc-server-sa";
/// Another account in that namespace, with the same rights.
const OTHER: &str = "default";
/// The role of OCM's gRPC server; this has its rights on requests only.
const ROLE: &str = "open-cluster-management:cluster-manager-grpc-server";

fn agent_of(cluster: &str) -> String {
    format!("system:open-cluster-management:{cluster}:agent")
}

/// The server's request for spoke1 is granted if the annotated user is the agent of spoke1: the certificate connects the agent
/// there. A request with the agent of another cluster in the annotation stays pending, and so does one with the right
/// annotation by another requester: an account beside the server's, or the agent of another cluster.
///
/// The test is a stand-in for OCM's gRPC server and its channel to the cluster: it requests with a token of the server's
/// account, as the server does after it has authenticated an agent, and brings the certificate to the cluster.
pub(crate) async fn a_request_of_ocms_grpc_server_counts_for_the_annotated_user(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let server = account(stage, SERVER).await?;
    let annotated = agent_of("spoke1");
    let mut right = Request::good("grpc-of-the-cluster", "spoke1");
    right.annotated = Some(annotated.clone());
    let (at, key) = right.ask_with(stage, server.clone()).await?;
    let is_issued = |it: &Value| it["status"]["certificate"].is_string();
    let issued = stage.hub.until(&at, "has a certificate", SOON, is_issued);
    let issued = issued.await?;
    let requester = &issued["spec"]["username"];
    let expected = format!("system:serviceaccount:{HUB}:{SERVER}");
    ensure!(requester == expected.as_str(), "requested by {requester}");
    connects(stage, &issued["status"]["certificate"], &key).await?;
    stage.hub.delete(&at).await?;

    let mut foreign = Request::good("grpc-of-another-cluster", "spoke1");
    foreign.annotated = Some(agent_of("spoke2"));
    stays_pending(stage, &foreign, server, "spoke2:agent").await?;
    let mut beside = Request::good("grpc-of-another-account", "spoke1");
    beside.annotated = Some(annotated.clone());
    let account = account(stage, OTHER).await?;
    stays_pending(stage, &beside, account, &format!("{HUB}:{OTHER}")).await?;
    let mut forged = Request::good("grpc-forged-by-an-agent", "spoke1");
    forged.annotated = Some(annotated);
    let groups = ["system:open-cluster-management:spoke2", "system:masters"];
    let hub = stage.lab.hub();
    let agent = hub.client_as(&agent_of("spoke2"), &groups).await?;
    stays_pending(stage, &forged, agent, "spoke2:agent").await?;

    enrol::until_available(&stage.hub, "spoke1").await?;
    remove(stage).await
}

/// A client with a token of this account in OCM's namespace, with the server's rights on requests.
async fn account(stage: &Stage, name: &str) -> Result<Client> {
    let hub = &stage.hub;
    hub.apply(&At::namespace(HUB), json!({})).await?;
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["get", "list", "watch", "create"],
    }]);
    let role = At::cluster_role(ROLE);
    hub.apply(&role, json!({ "rules": rules })).await?;
    let subjects =
        [SERVER, OTHER].map(|it| json!({"kind": "ServiceAccount", "namespace": HUB, "name": it}));
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE},
        "subjects": subjects,
    });
    hub.apply(&At::cluster_role_binding(ROLE), binding).await?;
    let cluster = stage.lab.hub();
    let path = cluster.service_account_kubeconfig(HUB, name).await?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?;
    Ok(Client::try_from(config)?)
}

/// The agent of spoke1 starts with this certificate and key, and connects.
async fn connects(stage: &Stage, certificate: &Value, key: &str) -> Result<()> {
    let (spoke, agent) = (stage.spoke(1), Program::Agent(1));
    let secret = At::secret(enrol::AGENT_NAMESPACE, enrol::CERTIFICATE);
    let key = base64::engine::general_purpose::STANDARD.encode(key);
    let pair = json!({"data": {"tls.crt": certificate, "tls.key": key}});
    let before = agent.running(stage).await?;
    spoke.merge(&secret, pair).await?;
    agent.kill(stage).await?;
    let look = || agent.running(stage);
    let what = "the agent runs again";
    lab::wait::until(what, look, |now| *now != before).await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let used = spoke.read(&secret).await?["data"]["tls.crt"].clone();
    ensure!(used == *certificate, "OCM replaced the certificate");
    Ok(())
}

/// Makes a request that must not be approved, and waits for the Event that explains it.
async fn stays_pending(
    stage: &Stage,
    request: &Request<'_>,
    asking: Client,
    part: &str,
) -> Result<()> {
    let (at, _key) = request.ask_with(stage, asking).await?;
    explained(&stage.hub, request.name, "WrongRequester", part).await?;
    let status = stage.hub.read(&at).await?["status"].clone();
    let is_open = status["conditions"].is_null() && status["certificate"].is_null();
    ensure!(is_open, "{}: {status}", request.name);
    stage.hub.delete(&at).await
}

/// Takes the server's account and rights away again.
async fn remove(stage: &Stage) -> Result<()> {
    let hub = &stage.hub;
    hub.delete(&At::cluster_role_binding(ROLE)).await?;
    hub.delete(&At::cluster_role(ROLE)).await?;
    hub.delete(&At::service_account(HUB, SERVER)).await
}
