//! A cluster that joined with OCM's registration driver `awsirsa`, on a hub in EKS. There is no cluster behind it: the test
//! asks as the user and the group that the access entry of such a cluster has.

use anyhow::{Result, ensure};
use lab::{
    product,
    steps::{At, enrol, objects::has_condition},
    wait,
};
use serde_json::{Value, json};

use super::certificates::Request;
use crate::{
    intruders::requests::explained,
    stage::{SOON, Stage},
};

const CLUSTER: &str = "in-eks";
const ARN: &str = "agent.open-cluster-management.io/managed-cluster-arn";
const ROLE_SUFFIX: &str = "agent.open-cluster-management.io/managed-cluster-iam-role-suffix";

/// A valid request, from a user with the cluster's name in this group only.
fn request(name: &'static str, group: &str) -> Request<'static> {
    let mut request = Request::good(name, CLUSTER);
    CLUSTER.clone_into(&mut request.requester);
    request.member_of = vec![group.to_owned()];
    request
}

fn is_issued(request: &Value) -> bool {
    request["status"]["certificate"].is_string()
}

/// The request needs the setting and both annotations, and stays pending, with the next step, until both are there. A user of
/// the cluster's name in another group gets nothing.
pub(crate) async fn awsirsa_cluster_gets_its_certificate_where_it_is_accepted(
    stage: &Stage,
) -> Result<()> {
    let (hub, helm) = (&stage.hub, stage.lab.helm());
    register(stage).await?;
    let own = format!("open-cluster-management:{CLUSTER}");
    let early = request("awsirsa-switched-off", &own);
    stays_pending(stage, &early, "--accept-awsirsa").await?;

    product::upgrade(&helm, &["--set", "acceptAwsirsa=true", "--wait"]).await?;
    let right = request("awsirsa-accepted", &own);
    let at = right.ask(stage).await?;
    explained(hub, right.name, "WrongRequester", ARN).await?;
    ensure!(!is_issued(&hub.read(&at).await?), "without annotations");
    let annotations = json!({
        ARN: "arn:aws:eks:us-west-2:123456789012:cluster/another-name",
        ROLE_SUFFIX: "7f8141296c75f2871e3d030f85c35692",
    });
    let annotated = json!({ "metadata": { "annotations": annotations } });
    hub.merge(&At::cluster(CLUSTER), annotated).await?;
    hub.until(&at, "has a certificate", SOON, is_issued).await?;
    hub.delete(&at).await?;

    let mut other = request("awsirsa-of-another-group", "developers");
    other.member_of.push("system:masters".to_owned());
    stays_pending(stage, &other, "not the registration agent").await?;

    remove(stage).await?;
    product::upgrade(&helm, &["--wait"]).await.map(drop)
}

/// Registers the cluster, with the rights that OCM grants it, and the add-on on it.
async fn register(stage: &Stage) -> Result<()> {
    let hub = &stage.hub;
    let accepted = json!({ "spec": { "hubAcceptsClient": true } });
    hub.apply(&At::cluster(CLUSTER), accepted).await?;
    hub.until_there(&At::namespace(CLUSTER), SOON).await?;
    let rights = At::of(
        "rbac.authorization.k8s.io/v1",
        ("ClusterRoleBinding", "clusterrolebindings"),
        None,
        &format!("open-cluster-management:managedcluster:{CLUSTER}"),
    );
    hub.until_there(&rights, SOON).await?;
    enrol::by_label(hub, CLUSTER).await?;
    let is_registered = |it: &Value| has_condition(it, "RegistrationApplied", "True", "");
    let addon = At::addon(CLUSTER);
    hub.until(&addon, "is registered", SOON, is_registered)
        .await
        .map(drop)
}

/// Makes a request that must not be approved, and waits for the Event that explains it.
async fn stays_pending(stage: &Stage, request: &Request<'_>, part: &str) -> Result<()> {
    let at = request.ask(stage).await?;
    explained(&stage.hub, request.name, "WrongRequester", part).await?;
    let status = stage.hub.read(&at).await?["status"].clone();
    let is_open = status["conditions"].is_null() && status["certificate"].is_null();
    ensure!(is_open, "{}: {status}", request.name);
    stage.hub.delete(&at).await
}

/// Removes the cluster, and waits until its objects are gone.
async fn remove(stage: &Stage) -> Result<()> {
    let (hub, cluster) = (&stage.hub, At::cluster(CLUSTER));
    hub.delete(&cluster).await?;
    hub.until_gone(&cluster, wait::BOUND).await?;
    hub.until_gone(&At::addon(CLUSTER), SOON).await?;
    hub.until_gone(&enrol::cluster_secret(CLUSTER), SOON).await
}
