//! A peer that is not who it says, or not any more.

use anyhow::{Context as _, Result, ensure};
use lab::{
    raw_client::{Credentials, Forger, agent_name},
    steps::enrol,
};
use rustls::AlertDescription as Alert;
use time::Duration;
use tonic::Code;

use crate::{programs::Program, stage::Stage};

/// What becomes of a peer at the door.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// TLS ends with this alert.
    Alert(Alert),
    /// Authentication is refused with this status.
    Status(Code, String),
}

/// A peer with papers that are not good enough, or that claims what it is not.
struct Case {
    what: &'static str,
    papers: Option<Credentials>,
    mode: &'static str,
    fate: Fate,
    /// The series of the principal that counts it.
    counted: String,
}

/// A peer of another authority, of a cluster that is not enrolled, with an old certificate or with none gets nowhere; it
/// is told so as far as it may know, and counted.
pub(crate) async fn peer_with_wrong_credentials_is_rejected(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.not_enrolled(2).await?;
    let (door, forger) = stage.door().await?;
    let good = forger.issue(&agent_name("spoke1"), &[], Duration::days(365))?;
    let version = door.version(&good).await?;
    let manager = Program::Manager.running(stage).await?;
    for case in wrong_papers(&forger)? {
        let Case {
            what,
            papers,
            mode,
            fate,
            counted,
        } = case;
        let before = manager.metrics().await?.value(&counted);
        let papers = papers.as_ref();
        let seen = if let Some(alert) = door.alert(papers).await? {
            Fate::Alert(alert)
        } else {
            let status = door.authenticate(papers, mode, &version).await?.err();
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

fn wrong_papers(forger: &Forger) -> Result<Vec<Case>> {
    let mut cases = refused_by_tls(forger)?;
    cases.extend(refused_by_name(forger)?);
    Ok(cases)
}

fn refused_by_tls(forger: &Forger) -> Result<Vec<Case>> {
    let spoke1 = agent_name("spoke1");
    let year = Duration::days(365);
    let foreign = Forger::unknown("somebody-elses-ca")?.issue(&spoke1, &[], year)?;
    // What TLS finds wrong then is the signature.
    let namesake = Forger::unknown("argocd-agent-ca")?.issue(&spoke1, &[], year)?;
    let old = forger.issue(&spoke1, &[], -Duration::days(1))?;
    let case = |what, papers, alert, outcome| Case {
        what,
        papers,
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

/// The status, its text, and the word of the metric.
type Refusal = (Code, &'static str, &'static str);

const NOBODY: Refusal = (
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
            papers: Some(forger.issue(name, &[], Duration::days(365))?),
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
        case("a bare name", "spoke1", "managed", NOBODY)?,
        case("another form of a name", other_form, "managed", NOBODY)?,
        case("another add-on", other_addon, "managed", NOBODY)?,
        case(
            "another mode than recorded",
            &spoke1,
            "autonomous",
            NOT_ENROLLED,
        )?,
        case("a mode that is not there", &spoke1, "sideways", NO_MODE)?,
    ])
}
