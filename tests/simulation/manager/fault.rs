//! Promises that the simulation breaks, to check that its oracle notices.

use ::http::Method;
use serde_json::json;

use super::api::Api;
use super::api::http::{Answer, Asked};
use super::api::select::Selector;
use crate::dice::Dice;

const ADD_ONS: &str = "managedclusteraddons.addon.open-cluster-management.io";
const WORKS: &str = "manifestworks.work.open-cluster-management.io";
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
    /// A watch has every event. Here that of `ManagedClusterAddOns` omits some for good.
    LossyWatch,
    /// The API server says which user sent a certificate request. Here it says the agent of the cluster.
    WrongUser,
    /// At rest nothing changes. Here the serving certificate is deleted again and again.
    Restless,
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
            | Self::Restless => None,
        }
    }

    /// Whether a watch omits an event.
    pub(crate) fn omits(self, selector: &Selector, dice: &Dice) -> bool {
        self == Self::LossyWatch && selector.kind == ADD_ONS && dice.probability(0.2)
    }
}

fn gone() -> Answer {
    let done = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
    Answer::Object(200, done)
}
