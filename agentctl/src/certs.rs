//! `certs list`: every certificate, when it ends, and where a rotation stands. Pure.

use argocd::keys::addon::{
    CA_SECRET, NEXT_CA, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET, ROTATING_SINCE,
};
use diagnosis::{facts::Addon, object::secret_text};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use x509_parser::pem::parse_x509_pem;

use crate::output::{self, Mood, Place, View, draw, left, one_line, or_nothing};

/// The Secrets with certificates that are the hub's own.
pub const SECRETS: [(&str, &str); 3] = [
    (CA_SECRET, "certificate authority"),
    (PRINCIPAL_SECRET, "principal"),
    (RESOURCE_PROXY_SECRET, "resource proxy"),
];

/// All certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Certificates {
    /// Those of the hub first, then one for each cluster.
    pub certificates: Vec<Certificate>,
}

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// What it is for.
    #[serde(rename = "use")]
    pub used: String,
    /// Whose agent it is.
    pub cluster: Option<String>,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// What there is to know of it.
    pub state: String,
    /// Whether it needs attention.
    pub degraded: bool,
}

/// The certificates of the hub, each with its Secret or why it could not be read, and of the agents.
pub fn certificates(
    secrets: &[(&'static str, Result<Option<Value>, String>)],
    addons: &[Addon],
    now: Timestamp,
) -> Certificates {
    let hub = secrets.iter().map(|(name, secret)| {
        let used = SECRETS.iter().find(|(known, _)| known == name);
        let (expires, state, degraded) = of_hub(name, secret, now);
        Certificate {
            used: used.map_or(*name, |(_, used)| used).to_owned(),
            cluster: None,
            expires,
            state,
            degraded,
        }
    });
    let mut agents: Vec<_> = addons.iter().map(|addon| of_agent(addon, now)).collect();
    agents.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Certificates {
        certificates: hub.chain(agents).collect(),
    }
}

/// When a certificate of the hub ends, its state, and whether it needs attention.
fn of_hub(
    name: &str,
    secret: &Result<Option<Value>, String>,
    now: Timestamp,
) -> (Option<Timestamp>, String, bool) {
    let secret = match secret {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            let state = format!("Secret {name} is missing; the hub program creates it");
            return (None, state, true);
        }
        Err(reason) => return (None, format!("unknown: {reason}"), false),
    };
    let Some(expires) = ends(secret) else {
        return (
            None,
            format!("Secret {name} has no readable certificate"),
            true,
        );
    };
    let state = match name {
        CA_SECRET => stage(secret),
        _ => "in use".to_owned(),
    };
    (Some(expires), state, expires <= now)
}

/// Where a rotation stands, by what the hub program keeps in the CA's Secret.
pub(crate) fn stage(secret: &Value) -> String {
    let since = argocd::Meta::of(secret).annotation(ROTATING_SINCE);
    let has_next = secret
        .get("data")
        .is_some_and(|data| data.get(NEXT_CA).is_some());
    match since {
        None => "settled".to_owned(),
        Some(since) if has_next => {
            format!("introduced since {since}: agents learn to trust the next one")
        }
        Some(since) => {
            format!("retiring since {since}: agents get certificates from the new one")
        }
    }
}

/// When the certificate in a Secret ends. Nothing but `tls.crt` is looked at.
fn ends(secret: &Value) -> Option<Timestamp> {
    let pem = secret_text(secret, "tls.crt")?;
    let (_, pem) = parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

fn of_agent(addon: &Addon, now: Timestamp) -> Certificate {
    let expires = addon.certificate_expires();
    let ended = expires.is_some_and(|expires| expires <= now);
    let state = match (&addon.revoked, &addon.rekey) {
        (Some(reason), _) => format!("revoked: {}", one_line(reason)),
        (None, _) if expires.is_none() => {
            "not reported by OCM's registration agent on the cluster".to_owned()
        }
        (None, Some(name)) => format!("in use, key {}", output::name(name)),
        (None, None) => "in use".to_owned(),
    };
    Certificate {
        used: "agent".to_owned(),
        cluster: Some(addon.cluster.clone()),
        expires,
        state,
        degraded: addon.revoked.is_some() || ended,
    }
}

impl View for Certificates {
    fn text(&self, place: Place) -> String {
        let rows = self.certificates.iter().map(|it| {
            let cells = vec![
                it.used.clone(),
                or_nothing(it.cluster.as_ref()),
                or_nothing(it.expires.map(|at| left(at, place.now))),
                or_nothing(it.expires.map(|at| format!("{at:.0}"))),
                it.state.clone(),
            ];
            (if it.degraded { Mood::Bad } else { Mood::Calm }, cells)
        });
        let header = ["USE", "CLUSTER", "LEFT", "ENDS", "STATE"];
        draw(&header, rows, place.colours)
    }
}

#[cfg(test)]
mod tests;
