//! The way to the principal, gone from where this program runs: that it works from the cluster, too, only the agent can show.
//! Pure.

use diagnosis::object::first_names;
use jiff::{SignedDuration, Timestamp};
use runtime::net::authority;

use super::{Checked, Finding, Outcome, failed, ok, unclear, warning};
use crate::output::span;

/// Whose word it is where agents dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Source {
    /// The caller's.
    #[display("--principal-address")]
    Given,
    /// The agent's Deployment.
    #[display("the agent's settings")]
    Agent,
    /// The cluster's `AddOnDeploymentConfig`.
    #[display("its AddOnDeploymentConfig")]
    Configuration,
    /// The hub's.
    #[display("the hub's settings")]
    Hub,
}

/// What the TLS library thinks of the certificate that was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is what an agent wants.
    Trusted,
    /// It is for other names.
    WrongName,
    /// No trusted authority has signed it.
    UnknownAuthority,
    /// Its time is over, or has not come, by this machine's clock.
    WrongTime,
    /// Something else is wrong with it.
    Bad(String),
    /// It is not known whom an agent trusts; why.
    NotJudged(String),
}

/// A handshake that came to an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Of the certificate.
    pub verdict: Verdict,
    /// The names that it is for.
    pub names: Vec<String>,
    /// When it ends.
    pub expires: Option<Timestamp>,
    /// Whether HTTP/2 was chosen.
    pub http2: bool,
}

/// Nothing that listens, or how the handshake went.
pub type Met = Result<Result<Handshake, String>, String>;

/// How far it was gone.
#[derive(Clone, Debug)]
pub struct Way {
    /// Address that agents dial, if known.
    pub address: Option<(String, u16, Source)>,
    /// The proxy that the agent goes through.
    pub proxy: Option<String>,
    /// What was met there; none where it was not tried.
    pub met: Option<Met>,
    /// This machine's time.
    pub now: Timestamp,
}

/// A certificate of the principal is renewed long before.
const SOON: SignedDuration = SignedDuration::from_hours(24);

/// Address, port, TLS.
pub(super) fn findings(way: &Way) -> Vec<Finding> {
    let Some((host, port, source)) = &way.address else {
        let cause = "the address that agents dial is unknown";
        let next =
            "set it with --principal-address HOST:PORT, or run argocd-agentctl check on the hub";
        return vec![Finding::of(("address", unclear(cause, next)))];
    };
    let address = authority(host, *port);
    let mut all = vec![("address", ok(format!("{address}, from {source}")))];
    if let Some(met) = &way.met {
        all.push(("port", port_of(way, host, met.as_ref().err())));
        let shaken = met.as_ref().ok();
        all.extend(shaken.map(|it| ("tls", tls(way, host, it))));
    }
    all.into_iter().map(Finding::of).collect()
}

/// Like `dialled`, for the hub alone: clusters may reach an address that this machine does not.
pub(in crate::check) fn from_here(way: &Way) -> Vec<Finding> {
    let mut all = findings(way);
    all.retain(|it| it.check != "address");
    for it in &mut all {
        if it.check == "port" && it.result == Outcome::Failed {
            it.result = Outcome::Warning;
            it.next =
                Some("check that the clusters can reach it; their network may differ".to_owned());
        }
    }
    all
}

fn port_of(way: &Way, host: &str, missed: Option<&String>) -> Checked {
    match (missed, &way.proxy) {
        (None, _) => ok("reachable from this machine"),
        (Some(reason), Some(proxy)) => unclear(
            format!(
                "{host} is unreachable from this machine ({reason}); the agent uses the proxy {proxy}"
            ),
            "the agent's log shows whether the proxy connects it",
        ),
        (Some(reason), None) => failed(
            format!("{host} is unreachable from this machine: {reason}"),
            "check DNS and firewalls between the cluster's nodes and the hub; if only this machine is blocked, \
            run this inside the cluster's network",
        ),
    }
}

fn tls(way: &Way, host: &str, handshake: &Result<Handshake, String>) -> Checked {
    let shown = match handshake {
        Ok(shown) => shown,
        Err(reason) => {
            return failed(
                format!("TLS 1.3 handshake with {host} failed: {reason}"),
                "check that the principal listens there and that no proxy ends TLS (docs/network.md)",
            );
        }
    };
    let names = first_names(&shown.names);
    match &shown.verdict {
        Verdict::WrongName => failed(
            format!("the certificate there is for {names}, not for {host}"),
            "let agents dial one of these names; the principal's certificate covers the configured names",
        ),
        Verdict::UnknownAuthority => failed(
            format!(
                "the certificate there ({names}) is not signed by the authority that agents trust"
            ),
            "another server listens there, or a proxy ends TLS: let it pass TLS through (docs/network.md)",
        ),
        Verdict::WrongTime => failed(
            "the certificate there is expired or not yet valid, by the clock of this machine",
            "compare clocks; the hub program renews the certificate by itself: argocd-agentctl certs list",
        ),
        Verdict::Bad(reason) => failed(
            format!("the certificate there is invalid: {reason}"),
            "argocd-agentctl certs list shows the hub's own",
        ),
        Verdict::Trusted | Verdict::NotJudged(_) => sound(way, host, shown),
    }
}

/// Of a certificate that is not refused.
fn sound(way: &Way, host: &str, shown: &Handshake) -> Checked {
    let left = shown.expires.map(|at| at.duration_since(way.now));
    let ends = left.map_or_else(String::new, |left| {
        format!(", its certificate ends in {}", span(left))
    });
    if !shown.http2 {
        return warning(
            format!("{host} does not negotiate HTTP/2{ends}"),
            "agents fall back to WebSockets, which are slower; let HTTP/2 pass (docs/network.md)",
        );
    }
    if let Verdict::NotJudged(reason) = &shown.verdict {
        return unclear(
            format!("TLS 1.3 and HTTP/2{ends}; cannot verify it as agents do: {reason}"),
            "the CA is in the Secret argocd-agent-ca on the hub, and beside the agent on the cluster",
        );
    }
    if left.is_some_and(|left| left < SOON) {
        return warning(
            format!("TLS 1.3 and HTTP/2{ends}"),
            "the hub program should have renewed it: see its log, and argocd-agentctl certs list",
        );
    }
    ok(format!("TLS 1.3 and HTTP/2, trusted, for {host}{ends}"))
}
