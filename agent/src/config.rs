//! Checked settings, independent of flags and environment.

use std::time::Duration;

use argocd::glob;
use live::ui_access::{self, UiAccess};
use protocol::Mode;
use runtime::trace;

mod error;
mod hub;
pub mod proxy;
mod redis;

pub use error::Error;
pub use hub::{Hub, Method};

use crate::args::{Args, LaterArgs, PolicyArgs, ScopeArgs, TlsArgs, UiArgs};

/// Argo CD counts every ten seconds; more frequent reads find nothing new.
const FASTEST_RECOUNT: Duration = Duration::from_secs(1);

/// All settings of the agent.
#[derive(Debug, Clone)]
pub struct Config {
    /// The principal's address and how to connect.
    pub hub: Hub,
    /// The sources of certificates: files where a path is set, else Secrets in Argo CD's namespace.
    pub tls: TlsArgs,
    /// The objects that the agent handles.
    pub scope: Scope,
    /// How the agent resolves conflicts.
    pub policy: Policy,
    /// The rights of users of the hub.
    pub ui: Ui,
    /// Argo CD's redis.
    pub redis: redis_discovery::Settings,
    /// Pause between reads of Argo CD's statistics.
    pub recount: Duration,
    /// The collector of traces; without one the agent exports none.
    pub otlp: Option<trace::Settings>,
    /// Whether the agent reports the Argo CD of this cluster to the hub.
    pub reports_argocd: bool,
}

/// The rights of the hub's users on this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ui {
    /// The level of access.
    pub access: UiAccess,
    /// The user that live requests impersonate; none: they use the agent's own identity.
    pub user: Option<String>,
}

/// The objects that the agent handles.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Namespace of Argo CD on this cluster.
    pub argocd_namespace: String,
    /// Further namespaces that may hold Applications, as patterns.
    pub further_namespaces: Vec<String>,
    /// Whether an Application keeps the namespace that it has on the hub, when a Go principal
    /// sends it; ours sends what was routed here.
    pub keep_namespaces: bool,
    /// Whether the agent creates missing namespaces of Applications.
    pub create_namespaces: bool,
    /// Label selector of watches.
    pub label_selector: String,
    /// Who owns the Applications.
    pub mode: Mode,
}

/// How the agent resolves conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// An object here came from another object of the hub.
    pub mismatch: Mismatch,
    /// An object here did not come from the hub.
    pub adoption: Adoption,
    /// An Application was deleted here.
    pub recreated: Recreated,
}

/// What to do with an object that came from another object of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// Take it over in place.
    Upsert,
    /// Delete and recreate it, which deletes its workload too.
    Recreate,
}

/// What to do with an object that did not come from the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// Take it over in place.
    Always,
    /// Leave it alone and report the conflict.
    Never,
}

/// The status of a recreated Application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recreated {
    /// Keeps the old status.
    Ignore,
    /// Keeps the old status without its last operation.
    ClearStatus,
    /// Starts a new sync.
    Resync,
}

impl TryFrom<&Args> for Config {
    type Error = Error;

    fn try_from(args: &Args) -> Result<Self, Error> {
        // `log`, `admin` and `kube` are used as they are.
        let (hub, tls, ui) = (&args.hub, &args.tls, &args.ui);
        check_unsupported(&args.later)?;
        if tls.tls_client_cert.is_some() != tls.tls_client_key.is_some() {
            return Err(Error::HalfCertificate);
        }
        Ok(Self {
            hub: hub.try_into()?,
            tls: tls.clone(),
            scope: scope_of(&args.scope, &hub.agent_mode)?,
            policy: (&args.policy).try_into()?,
            ui: ui.try_into()?,
            redis: redis::settings(&args.redis)?,
            recount: args.redis.cache_refresh_interval.max(FASTEST_RECOUNT),
            otlp: trace::Settings::checked(&args.otlp)?,
            reports_argocd: ui.report_argocd,
        })
    }
}

impl Ui {
    /// The user that may read the whole cluster, except for Secrets, if the level allows that.
    pub fn reader(&self) -> Option<&str> {
        let user = self.user.as_deref();
        user.filter(|_| self.access > UiAccess::None)
    }
}

impl TryFrom<&UiArgs> for Ui {
    type Error = Error;

    fn try_from(args: &UiArgs) -> Result<Self, Error> {
        let access = args.ui_access.parse().map_err(|_unknown| Error::Word {
            flag: "--ui-access",
            value: args.ui_access.clone(),
            allowed: ui_access::LEVELS.to_owned(),
        })?;
        let ui_user = &args.ui_user;
        // The agent writes it into a header of each request.
        if !ui_user.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::User(ui_user.clone()));
        }
        Ok(Self {
            access: if args.enable_resource_proxy {
                access
            } else {
                UiAccess::None
            },
            user: Some(ui_user.clone()).filter(|user| !user.is_empty()),
        })
    }
}

fn scope_of(args: &ScopeArgs, mode: &str) -> Result<Scope, Error> {
    let namespace = &args.namespace;
    let mode: Mode = mode
        .parse()
        .map_err(|_unknown| Error::Mode(mode.to_owned()))?;
    let further = args.allowed_namespaces.iter().map(|pattern| pattern.trim());
    let mut further: Vec<String> = further
        .filter(|pattern| !pattern.is_empty() && pattern != namespace)
        .map(ToOwned::to_owned)
        .collect();
    if mode == Mode::Autonomous && !further.is_empty() {
        // As in Go: all Applications of a spoke have one namespace on the hub, so names of several would clash.
        tracing::warn!(
            "--allowed-namespaces has no effect in autonomous mode: the hub mirrors only Applications in Argo CD's own namespace"
        );
        further.clear();
    }
    Ok(Scope {
        argocd_namespace: namespace.clone(),
        further_namespaces: further,
        keep_namespaces: args.destination_based_mapping,
        create_namespaces: args.create_namespace,
        label_selector: args.label_selector.clone(),
        mode,
    })
}

impl Scope {
    /// Whether a namespace may hold Applications of the hub.
    pub(crate) fn admits(&self, namespace: &str) -> bool {
        let mut further = self.further_namespaces.iter();
        namespace == self.argocd_namespace
            || further.any(|entry| glob::matches_entry(entry, namespace))
    }
}

impl TryFrom<&PolicyArgs> for Policy {
    type Error = Error;

    fn try_from(args: &PolicyArgs) -> Result<Self, Error> {
        Ok(Self {
            mismatch: one_of(
                "--source-uid-mismatch-policy",
                &args.source_uid_mismatch_policy,
                &[
                    ("upsert", Mismatch::Upsert),
                    ("recreate", Mismatch::Recreate),
                ],
            )?,
            adoption: one_of(
                "--adoption-policy",
                &args.adoption_policy,
                &[("always", Adoption::Always), ("never", Adoption::Never)],
            )?,
            recreated: one_of(
                "--on-application-recreate",
                &args.on_application_recreate,
                &[
                    ("ignore", Recreated::Ignore),
                    ("clear-status", Recreated::ClearStatus),
                    ("resync", Recreated::Resync),
                ],
            )?,
        })
    }
}

/// The meaning of a flag's value, from a table of words.
fn one_of<T: Copy>(flag: &'static str, value: &str, words: &[(&str, T)]) -> Result<T, Error> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        Error::Word {
            flag,
            value: value.to_owned(),
            allowed: words.join(", "),
        }
    })
}

const SPIRE: &str = "let spiffe-helper write certificate, key and bundle to files, and name them with --tls-client-cert, \
    --tls-client-key and --root-ca-path";

/// Rejects unsupported settings that are unsafe to ignore, and logs the others.
fn check_unsupported(later: &LaterArgs) -> Result<(), Error> {
    let refused = [
        (
            later.insecure_tls,
            "--insecure-tls",
            "set the principal's CA with --root-ca-path",
        ),
        (
            !matches!(later.tls_max_version.as_str(), "" | "tls1.3"),
            "--tls-max-version",
            "the agent uses TLS 1.3 only",
        ),
        (
            !later.spire_agent_socket.is_empty(),
            "--spire-agent-socket",
            SPIRE,
        ),
        (
            !later.spire_auth_method.is_empty(),
            "--spire-auth-method",
            SPIRE,
        ),
    ];
    if let Some((_, flag, why)) = refused.into_iter().find(|(used, ..)| *used) {
        return Err(Error::Unsupported { flag, why });
    }
    let left_out = [
        (!later.tls_ciphersuites.is_empty(), "--tls-ciphersuites"),
        (later.ignore_unmanaged_apps, "--ignore-unmanaged-apps"),
        (later.redis_tls_insecure, "--redis-tls-insecure"),
        (later.pprof_port != 0, "--pprof-port"),
        (!later.recv_queue_size.is_empty(), "--recv-queue-size"),
        (!later.send_queue_size.is_empty(), "--send-queue-size"),
        (!later.full_detail.is_empty(), "--full-detail"),
    ];
    for (_, flag) in left_out.into_iter().filter(|(used, _)| *used) {
        tracing::warn!(flag, "ignoring an unsupported setting");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
