//! Registrations with a token of the hub's instead of a certificate.

use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Secret, ServiceAccount},
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, PostParams},
};
use serde_json::Value;

use super::{
    super::Spoke,
    LOOK_AGAIN, LOOK_FOR_NAMESPACE,
    registration::{Registration, account},
    set_condition, write,
};
use crate::{
    client,
    condition::{self, Condition},
    control::Again,
};

/// A year, like OCM's agent.
const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// A token with less than this left is replaced.
const LEAST: SignedDuration = SignedDuration::from_hours(365 * 24 / 5);

/// One step towards a Secret with a good token.
pub(super) async fn ensure(
    spoke: &Spoke,
    add_on: &DynamicObject,
    one: &Registration,
    live: Option<Secret>,
) -> Result<Again> {
    // The hub names the account that it has created in the message of a condition.
    let ready = condition::find(&add_on.data, "TokenInfrastructureReady");
    let ready = ready.filter(|ready| ready["status"] == "True");
    let uid = ready.and_then(|ready| uid(ready["message"].as_str()?));
    let Some(uid) = uid else {
        return Ok(Some(LOOK_AGAIN));
    };
    if live.is_some_and(|secret| is_good(spoke, one, &secret, uid)) {
        return Ok(Some(LOOK_AGAIN));
    }
    let (token, wanted) = match request(spoke, &account(&add_on.name_any())).await {
        Ok(token) => {
            let message = "Addon token refreshed";
            let wanted = Condition::of("TokenRefreshed", true, "AddonTokenRefreshed", message);
            (token, wanted)
        }
        Err(error) => {
            let message = format!("Failed to create token: {}", client::message_of(&error));
            let wanted = Condition::of("TokenRefreshed", false, "TokenCreationFailed", message);
            set_condition(spoke, add_on, &wanted).await?;
            return Err(error);
        }
    };
    let data = [("token".to_owned(), token)];
    if !write(spoke, &one.secrets(spoke), one, data.into()).await? {
        return Ok(Some(LOOK_FOR_NAMESPACE));
    }
    set_condition(spoke, add_on, &wanted).await?;
    Ok(Some(LOOK_AGAIN))
}

/// The UID in `ServiceAccount c/a-agent (UID: …) is ready`.
fn uid(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("(UID: ")?;
    rest.split_once(')').map(|(uid, _)| uid)
}

fn is_good(spoke: &Spoke, one: &Registration, secret: &Secret, uid: &str) -> bool {
    let data = secret.data.clone().unwrap_or_default();
    let text = |key: &str| {
        let bytes = data.get(key).map(|value| value.0.clone());
        String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    };
    let claims = claims(&text("token")).unwrap_or_default();
    let until = claims["exp"]
        .as_i64()
        .and_then(|exp| Timestamp::from_second(exp).ok());
    let lives = until.is_some_and(|until| until.duration_since(Timestamp::now()) > LEAST);
    lives
        && claims["kubernetes.io"]["serviceaccount"]["uid"] == uid
        && text("cluster-name") == spoke.cluster
        && Some(text("kubeconfig")) == one.kubeconfig(spoke)
}

/// The claims of a token.
fn claims(token: &str) -> Option<Value> {
    let body = token.split('.').nth(1)?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(body)
        .ok()?;
    serde_json::from_slice(&bytes).ok()
}

async fn request(spoke: &Spoke, account: &str) -> Result<String> {
    let api: Api<ServiceAccount> = Api::namespaced(spoke.hub.clone(), &spoke.cluster);
    let life = Duration::try_from(LIFE).unwrap_or_default().as_secs();
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: i64::try_from(life).ok(),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let made = api
        .create_token_request(account, &PostParams::default(), &request)
        .await?;
    let token = made.status.and_then(|status| status.token);
    token.ok_or_else(|| anyhow::anyhow!("the token request came back empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_read_from_the_message_of_the_hub() {
        let message = "ServiceAccount c/a-agent (UID: 12-34) is ready";
        assert_eq!(uid(message), Some("12-34"));
        assert_eq!(uid("not ready"), None);
    }
}
