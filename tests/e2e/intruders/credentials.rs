//! A peer whose credentials do not prove the identity that it claims.

use anyhow::{Context as _, Result, ensure};
use lab::{
    raw_client::{Credentials, Forger, agent_name},
    steps::enrol,
};
use rustls::AlertDescription as Alert;
use time::Duration;
use tonic::Code;

use crate::{programs::Program, stage::Stage};

/// The outcome of a connection attempt.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// TLS ends with this alert.
    Alert(Alert),
    /// Authentication is refused with this status.
    Status(Code, String),
}

/// A peer with invalid credentials, or with a wrong claim.
struct Case {
    what: &'static str,
    credentials: Option<Credentials>,
    mode: &'static str,
    fate: Fate,
    /// The series of the principal that counts it.
    counted: String,
}

/// The principal rejects a peer of another CA, of a cluster that is not enrolled, with an expired certificate or with none.
/// The error reveals no more than it may, and the principal counts it.
pub(crate) async fn peer_with_wrong_credentials_is_rejected(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.not_enrolled(2).await?;
    let (door, forger) = stage.door().await?;
    let good = forger.issue(&agent_name("spoke1"), &[], Duration::days(365))?;
    let version = door.version(&good).await?;
    let manager = Program::Manager.running(stage).await?;
    for case in wrong_credentials(&forger)? {
        let Case {
            what,
            credentials,
            mode,
            fate,
            counted,
        } = case;
        let before = manager.metrics().await?.value(&counted);
        let credentials = credentials.as_ref();
        let seen = if let Some(alert) = door.alert(credentials).await? {
            Fate::Alert(alert)
        } else {
            let status = door.authenticate(credentials, mode, &version).await?.err();
            let status = status.with_context(|| format!("{what}: was let in"))?;
            Fate::Status(status.code(), status.message().to_owned())
        };
        ensure!(seen == fate, "{what}: {seen:?}, not {fate:?}");
        manager
            .until_counts(&counted, before + 1.0)
            .await
            .with_context(|| what.to_owned())?;
    }
    manager.still_runs(stage).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

fn wrong_credentials(forger: &Forger) -> Result<Vec<Case>> {
    let mut cases = refused_by_tls(forger)?;
    cases.extend(refused_by_name(forger)?);
    Ok(cases)
}

fn refused_by_tls(forger: &Forger) -> Result<Vec<Case>> {
    let spoke1 = agent_name("spoke1");
    let year = Duration::days(365);
    let foreign = Forger::unknown("other-ca")?.issue(&spoke1, &[], year)?;
    // Here TLS rejects the signature.
    let namesake = Forger::unknown("argocd-agent-ca")?.issue(&spoke1, &[], year)?;
    let old = forger.issue(&spoke1, &[], -Duration::days(1))?;
    let case = |what, credentials, alert, outcome| Case {
        what,
        credentials,
        mode: "managed",
        fate: Fate::Alert(alert),
        counted: format!("argocd_principal_handshakes_total{{outcome=\"{outcome}\"}}"),
    };
    Ok(vec![
        case(
            "no certificate",
            None,
            Alert::CertificateRequired,
            "no_certificate",
        ),
        case(
            "another authority",
            Some(foreign),
            Alert::UnknownCA,
            "untrusted",
        ),
        case(
            "another authority of our name",
            Some(namesake),
            Alert::DecryptError,
            "untrusted",
        ),
        case(
            "an old certificate",
            Some(old),
            Alert::CertificateExpired,
            "expired",
        ),
    ])
}

/// The status, its text, and the reason label of the metric.
type Refusal = (Code, &'static str, &'static str);

const UNKNOWN_PEER: Refusal = (
    Code::Unauthenticated,
    "authentication failed",
    "AuthenticationFailed",
);
const NOT_ENROLLED: Refusal = (
    Code::Unauthenticated,
    "cluster is not enrolled",
    "NotEnrolled",
);
const NO_MODE: Refusal = (Code::Unknown, "unknown agent mode: sideways", "UnknownMode");

fn refused_by_name(forger: &Forger) -> Result<Vec<Case>> {
    let case = |what, name: &str, mode, (code, text, reason): Refusal| {
        anyhow::Ok(Case {
            what,
            credentials: Some(forger.issue(name, &[], Duration::days(365))?),
            mode,
            fate: Fate::Status(code, text.to_owned()),
            counted: format!("argocd_principal_refusals_total{{reason=\"{reason}\"}}"),
        })
    };
    let spoke1 = agent_name("spoke1");
    let other_addon = "system:open-cluster-management:cluster:spoke1:addon:other:agent:other";
    let other_form = "x,CN=system:open-cluster-management:cluster:spoke1";
    Ok(vec![
        case(
            "not enrolled",
            &agent_name("spoke2"),
            "managed",
            NOT_ENROLLED,
        )?,
        case("not there", &agent_name("spoke11"), "managed", NOT_ENROLLED)?,
        case("a bare name", "spoke1", "managed", UNKNOWN_PEER)?,
        case(
            "another form of a name",
            other_form,
            "managed",
            UNKNOWN_PEER,
        )?,
        case("another add-on", other_addon, "managed", UNKNOWN_PEER)?,
        case(
            "another mode than recorded",
            &spoke1,
            "autonomous",
            NOT_ENROLLED,
        )?,
        case("a mode that is not there", &spoke1, "sideways", NO_MODE)?,
    ])
}
