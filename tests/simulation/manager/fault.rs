//! Promises that the simulation breaks, to check that its oracle notices.

use ::http::Method;
use serde_json::json;

use super::api::Api;
use super::api::http::{Answer, Asked};
use super::api::select::Selector;
use crate::dice::Dice;

const ADD_ONS: &str = "managedclusteraddons.addon.open-cluster-management.io";
const WORKS: &str = "manifestworks.work.open-cluster-management.io";
const CONFIGS: &str = "addondeploymentconfigs.addon.open-cluster-management.io";
const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";

/// A promise that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A replica writes only while its lease lasts. Here nothing checks that.
    NoFence,
    /// Annotations are restored on the version that was read only. Here the writes have no version.
    BlindRestore,
    /// A deleted ManifestWork goes. Here its deletion is answered and not carried out.
    LeftWork,
    /// A deleted cluster Secret goes.
    LeftSecret,
    /// An applied cluster Secret is stored. Here it is answered only.
    LostSecret,
    /// A watch has every event. Here that of `AddOnDeploymentConfigs` omits most for good.
    LossyWatch,
    /// The API server says which user sent a certificate request. Here it says the agent of the cluster.
    WrongUser,
    /// At rest nothing changes. Here the serving certificate is deleted again and again.
    Restless,
    /// The writes of the replicas end. Here the serving certificate is deleted more often than they rest.
    Endless,
    /// These promises are broken at the last moment, in place of the hub program.
    Last(Last),
}

/// A promise that is broken directly before the judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// A cluster that has opted in has the add-on.
    NoAddOn,
    /// A cluster that has opted out does not have it.
    LeftAddOn,
    /// The mode is that of the label.
    Mode,
    /// The add-on names its maker.
    Maker,
    /// A revoked agent stays revoked.
    Restored,
    /// A deletion of an add-on ends.
    StuckAddOn,
    /// An add-on has works.
    NoWork,
    /// A deletion of a work ends.
    StuckWork,
    /// Only agents of clusters that have opted in get certificates.
    Granted,
    /// The Service selects the leader.
    Selection,
}

impl Fault {
    /// The answer in place of carrying a request out; changes the request, too.
    pub(crate) fn instead_of(self, asked: &mut Asked, api: &Api) -> Option<Answer> {
        let (kind, name) = (asked.key.0.clone(), asked.key.2.clone());
        let is = |method: &Method, of: &str| asked.method == *method && kind == of;
        match self {
            Self::BlindRestore if is(&Method::PATCH, ADD_ONS) => {
                if !asked.body["metadata"]["annotations"][REVOKED].is_null() {
                    asked.body["metadata"]["resourceVersion"].take();
                }
                None
            }
            Self::LeftWork if is(&Method::DELETE, WORKS) => Some(gone()),
            Self::LeftSecret if is(&Method::DELETE, "secrets") => Some(gone()),
            Self::LostSecret if is(&Method::PATCH, "secrets") && name.starts_with("cluster-") => {
                let mut object = asked.body.clone();
                object["metadata"]["uid"] = json!("lost");
                object["metadata"]["resourceVersion"] = json!(api.version().to_string());
                Some(Answer::Object(200, object))
            }
            Self::None
            | Self::NoFence
            | Self::BlindRestore
            | Self::LeftWork
            | Self::LeftSecret
            | Self::LostSecret
            | Self::LossyWatch
            | Self::WrongUser
            | Self::Restless
            | Self::Endless
            | Self::Last(_) => None,
        }
    }

    /// Whether a watch omits an event.
    pub(crate) fn omits(self, selector: &Selector, dice: &Dice) -> bool {
        self == Self::LossyWatch && selector.kind == CONFIGS && dice.probability(0.8)
    }
}

fn gone() -> Answer {
    let done = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
    Answer::Object(200, done)
}
