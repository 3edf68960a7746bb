//! The add-on: our implementation of the hooks of OCM's SDK.

pub mod argocd_install;
pub mod conditions;
mod decided;
#[cfg(test)]
mod golden;
pub mod manifests;
mod parts;
pub mod settings;
pub mod template;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use argocd::cluster_secret;
use ocm::{
    api::addon::AddOnDeploymentConfigSpec,
    condition,
    name::{AddonName, ClusterName},
    sdk::{
        self, Admission, Health, HealthInput, HookError, Registration, Removal, RemovalInput,
        RemovalPhase, RenderError, RenderInput, Rendered, SigningCa, Target, View, images,
    },
};
use runtime::clock::Clock;

use crate::{
    address::Address,
    api::ApiError,
    decisions,
    fleet::{applications, credential, removal, secrets},
    hub,
    issuer::Authority,
    keys,
    lock::lock,
};
use argocd_install::{Decision, Installer};
use conditions::{
    ArgoCdFacts, CLUSTER_PROJECT_MISSING, CLUSTER_SECRET_CONFLICT, CONFIGURATION_INVALID,
    CertificateFacts, Facts, Finding, finding,
};
use manifests::Templates;
pub use parts::Parts;
use settings::Defaults;

/// How soon a removal checks again whether the session has ended.
const SESSION_END: Duration = Duration::from_millis(200);

/// How soon to check again whether an obstacle to a cluster's objects is gone: no watch covers Secrets without our
/// labels, or permissions.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Our `impl ocm::sdk::Addon`.
#[derive(Debug)]
pub struct ArgocdAgent {
    name: AddonName,
    parts: Parts,
    templates: Templates,
    installation: Installer,
    // The CA ready for signing, recreated when it changes. Locked for a lookup, never across an await.
    signing: Mutex<Option<(Arc<Authority>, Arc<SigningCa>)>>,
    // Why objects of a cluster on the hub are missing or wrong; its agent works without them. Locked likewise.
    obstacles: Mutex<BTreeMap<ClusterName, Vec<Finding>>>,
    // The variables of a cluster's configuration that have no effect, as of its last rendering. Locked likewise.
    unknown_variables: Mutex<BTreeMap<ClusterName, Finding>>,
}

/// Why the add-on cannot be created; a programming error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its name is invalid.
    #[error(transparent)]
    Name(#[from] ocm::name::InvalidName),
    /// A manifest is invalid.
    #[error(transparent)]
    Manifests(#[from] template::Error),
}

impl ArgocdAgent {
    /// Parses the manifests.
    pub fn new(parts: Parts) -> Result<Self, Error> {
        let pattern = parts.channels.pattern.subscribe();
        let records = parts.channels.records.clone();
        Ok(Self {
            name: AddonName::new(keys::ADDON)?,
            installation: Installer::new(pattern, records)?,
            parts,
            templates: Templates::embedded()?,
            signing: Mutex::default(),
            obstacles: Mutex::default(),
            unknown_variables: Mutex::default(),
        })
    }

    fn defaults(&self) -> Defaults {
        let authority = self.parts.channels.authority.borrow();
        Defaults {
            image: self.parts.image.clone(),
            principal: self.parts.channels.address.borrow().clone(),
            ca_bundle: authority.as_ref().map(|ca| ca.bundle.clone()),
        }
    }

    fn server(&self, cluster: &ClusterName) -> String {
        cluster_secret::server_url(&self.parts.resource_proxy, cluster.as_str())
    }

    fn is_connected(&self, cluster: &ClusterName) -> bool {
        let sessions = self.parts.channels.sessions.borrow();
        sessions
            .get(cluster.as_str())
            .is_some_and(|it| it.connected)
    }

    /// Notes the address that this cluster's agent dials, so that the certificate covers it.
    fn note_address(&self, cluster: &ClusterName, address: &Address) {
        self.parts.channels.addresses.send_if_modified(|known| {
            let before = known.insert(cluster.to_string(), address.clone());
            before.as_ref() != Some(address)
        });
    }

    /// The address that was rendered last for this cluster's agent.
    fn dialled(&self, cluster: &ClusterName) -> Option<String> {
        let known = self.parts.channels.addresses.borrow();
        known.get(cluster.as_str()).map(ToString::to_string)
    }

    fn note_sharing(&self, cluster: &ClusterName, shares: bool) {
        self.parts
            .channels
            .sharing
            .send_if_modified(|known| known.insert(cluster.to_string(), shares) != Some(shares));
    }

    fn note_unknown_variables(&self, cluster: &ClusterName, config: &AddOnDeploymentConfigSpec) {
        let mut noted = lock(&self.unknown_variables);
        match settings::unknown(config) {
            Some(unknown) => noted.insert(cluster.clone(), conditions::unknown_variables(&unknown)),
            None => noted.remove(cluster),
        };
    }

    async fn release(&self, cluster: &ClusterName) -> Result<(), HookError> {
        let Parts { client, own, .. } = &self.parts;
        let server = self.server(cluster);
        let theirs = applications::pages(client, own, cluster.as_str(), &server);
        removal::release_applications(client, theirs)
            .await
            .map_err(Into::into)
    }
}

impl sdk::Addon for ArgocdAgent {
    fn name(&self) -> &AddonName {
        &self.name
    }

    // The SDK itself skips templates and hosted mode.
    fn admit(&self, target: Target<'_>) -> Admission {
        let (world, cluster) = (self.world(target), target.name.as_str());
        if let Some(message) = world.reserved(cluster, &self.parts.own) {
            return Admission::Refuse {
                reason: "ReservedCluster".to_owned(),
                message,
            };
        }
        if world.addons.get(cluster).is_some_and(|it| it.unidentified) {
            return Admission::Hold {
                reason: "IdentityChanged".to_owned(),
                message: decisions::identity_changed(cluster),
            };
        }
        // The registration depends on the CA, and a change makes the agent enrol again.
        if self.parts.channels.authority.borrow().is_none() {
            let certificates = Arc::clone(&self.parts.channels.certificates.borrow());
            let cause = certificates.troubles.first();
            let cause = cause.map(|cause| format!(": {cause}"));
            return Admission::Hold {
                reason: "NoCertificateAuthority".to_owned(),
                message: settings::Error::NoAuthority.to_string() + &cause.unwrap_or_default(),
            };
        }
        Admission::Serve
    }

    fn registrations(&self, target: Target<'_>) -> Vec<Registration> {
        let addon = self.addon(target);
        if addon.revoked.is_some() {
            return Vec::new();
        }
        let authority = self.parts.channels.authority.borrow();
        let unit = authority.as_ref().and_then(|ca| ca.unit.clone());
        let units = unit.into_iter().chain(addon.key_unit());
        let mut registration = Registration::custom_signer(keys::SIGNER, &self.name, target.name);
        if let Registration::CustomSigner { subject, .. } = &mut registration {
            subject.organization_units = units.collect();
        }
        vec![registration]
    }

    fn own_signers(&self) -> Vec<String> {
        vec![keys::SIGNER.to_owned()]
    }

    fn accepts_awsirsa(&self) -> bool {
        self.parts.accepts_awsirsa
    }

    fn signing_ca(&self, signer: &str) -> Option<Arc<SigningCa>> {
        if signer != keys::SIGNER {
            return None;
        }
        let authority = self.parts.channels.authority.borrow().clone()?;
        let mut signing = lock(&self.signing);
        if let Some((known, ca)) = signing.as_ref()
            && *known == authority
        {
            return Some(Arc::clone(ca));
        }
        let made = SigningCa::from_pem(&authority.certificate, &authority.key);
        let made = made.inspect_err(|error| {
            tracing::error!(error = %runtime::error::Chain(error), "cannot sign with the CA");
        });
        let ca = Arc::new(made.ok()?);
        *signing = Some((authority, Arc::clone(&ca)));
        Some(ca)
    }

    fn certificate_lifetime(&self) -> Duration {
        self.parts.certificate_life
    }

    async fn prepare_hub(&self, target: Target<'_>) -> Result<(), HookError> {
        let authority = self.parts.channels.authority.borrow().clone();
        let Some(authority) = authority else {
            return Err(settings::Error::NoAuthority.into());
        };
        let cluster = hub::cluster(target.cluster);
        let access = self.parts.secrets.access(target.name);
        let now = Clock::system().now();
        let access = credential::current(access, &authority, target.name.as_str(), now)?;
        let desired = cluster_secret::build(cluster_secret::Inputs {
            cluster: target.name.as_str(),
            argocd_namespace: &self.parts.own.argocd_namespace,
            server: &self.server(target.name),
            access: &access,
            labels: &cluster.labels,
            claims: &cluster.claims,
        });
        let project = match &self.parts.projects {
            Some(projects) => projects.ensure(target.name).await,
            None => Ok(()),
        };
        let secret = self.parts.secrets.ensure(target.name, desired).await;
        // Problems that need a person go into a condition and do not fail the hook.
        let secret_problem = match &secret {
            Ok(contested) if contested.is_empty() => None,
            Ok(contested) => Some(secrets::contested(contested)),
            Err(error) => error.needs_a_person(),
        };
        let project_problem = project.as_ref().err().and_then(ApiError::needs_a_person);
        let secret = secret.err().filter(|_| secret_problem.is_none());
        let project = project.err().filter(|_| project_problem.is_none());
        let findings = [
            secret_problem.map(|it| finding(CLUSTER_SECRET_CONFLICT, it)),
            project_problem.map(|it| finding(CLUSTER_PROJECT_MISSING, it)),
        ];
        let findings = findings.into_iter().flatten().collect();
        lock(&self.obstacles).insert(target.name.clone(), findings);
        match (secret, project) {
            (Some(error), _) => Err(error.into()),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(()),
        }
    }

    fn render(&self, input: RenderInput<'_>) -> Result<Rendered, RenderError> {
        let (target, config) = (input.target, input.config);
        let mut deployment = config.deployment.clone().unwrap_or_default();
        self.note_unknown_variables(target.name, &deployment);
        // The registries of the configuration, else those of the ManagedCluster's annotation.
        deployment.registries = images::registries(config, target)?;
        let (addon, label) = self.addon_and_label(target);
        let defaults = self.defaults();
        let spoke = settings::mode(&addon, label, &deployment)
            .and_then(|mode| settings::spoke(&deployment, input.install_namespace, mode, &defaults))
            .map_err(|error| refused(&error))?;
        self.note_address(target.name, &spoke.principal);
        let shares = settings::shares_unscoped(&deployment, self.parts.shares_unscoped)
            .map_err(|error| refused(&error))?;
        self.note_sharing(target.name, shares);
        let objects = self
            .templates
            .render(&spoke)
            .map_err(|error| refused(&error))?;
        let sessions = Arc::clone(&self.parts.channels.sessions.borrow());
        let installed = self.installation.render(&argocd_install::Request {
            cluster: target.name,
            uid: target.addon.metadata.uid.as_deref().unwrap_or_default(),
            recorded: addon.argocd.as_deref().and_then(Decision::read),
            place: addon.argocd_place.as_deref(),
            session: sessions.get(target.name.as_str()).map(Arc::as_ref),
            config: &deployment,
            spoke: &spoke,
            is_openshift: target.cluster.is_openshift(),
        });
        let installed = installed.map_err(|error| refused(&error))?;
        Ok(argocd_install::objects::beside(objects, installed, &spoke))
    }

    fn conditions(&self, input: HealthInput<'_>) -> Health {
        let HealthInput { target, now, .. } = input;
        let sessions = Arc::clone(&self.parts.channels.sessions.borrow());
        let render_error = input.render_error.map(|error| error.message.as_str());
        let status = target.addon.status.as_ref();
        let namespace = status.map_or("", |status| status.namespace.as_str());
        let dials = self.dialled(target.name);
        let session = sessions.get(target.name.as_str()).map(Arc::as_ref);
        let facts = Facts {
            deployed_at: input.deployed_at(),
            going_since: input.going_since,
            applied: conditions::applied(input.works),
            ready: input.deployment_ready(namespace, manifests::DEPLOYMENT),
            session,
            serving_since: Some(self.parts.serving_since),
            dials: dials.as_deref(),
            render_error,
            live: condition::find(target.addon.conditions(), condition::addon::AVAILABLE),
        };
        let state = conditions::available(&facts, now);
        let known = lock(&self.obstacles).get(target.name).cloned();
        let obstacles = known.unwrap_or_default();
        let certificates = Arc::clone(&self.parts.channels.certificates.borrow());
        let installation = self.installation.state(target.name);
        let need = installation.verdict.need.as_ref();
        let installs_argocd = installation.installs_argocd();
        let argocd = session.and_then(|session| session.argocd);
        let ails = session.and_then(|session| session.argocd_ails.as_ref());
        let argocd = ArgoCdFacts {
            // An Argo CD that we are installing is not missing.
            argocd: argocd.filter(|_| !installs_argocd),
            installation: need,
            withheld: installation.withheld,
            // An agent reports problems of an Argo CD that we installed only.
            problem: ails.filter(|_| installs_argocd),
        };
        let certificates = CertificateFacts {
            cluster: target.name.as_str(),
            shown: session.and_then(|it| it.certificate.as_ref()),
            hub: &certificates,
        };
        // `need` reports a missing part of the hub's Argo CD.
        let render_error = render_error.filter(|_| need.is_none());
        let revoked = self.addon(target).revoked;
        let blocked_mode = self.blocked_mode(target);
        let look_again = (!obstacles.is_empty()).then_some(LOOK_AGAIN);
        let looks = [state.recheck, look_again, certificates.recheck(now)];
        let findings = [
            revoked.map(|_reason| conditions::revoked()),
            render_error.map(|message| finding(CONFIGURATION_INVALID, message)),
            argocd.finding(),
            blocked_mode.as_ref().map(conditions::mode_change),
            lock(&self.unknown_variables).get(target.name).cloned(),
        ];
        let findings = findings.into_iter().flatten().chain(obstacles);
        let findings = findings.chain(certificates.findings(now));
        let reported = session.into_iter().flat_map(conditions::reported);
        let degraded = conditions::degraded(findings.chain(reported));
        Health {
            pending: state.verdict.is_none() && state.recheck.is_some(),
            verdicts: state.verdict.into_iter().chain([degraded]).collect(),
            recheck: looks.into_iter().flatten().min(),
        }
    }

    async fn before_removal(&self, leaving: &RemovalInput) -> Result<Removal, HookError> {
        // The fleet has lost the cluster already; the principal is closing the session.
        if self.is_connected(&leaving.cluster) {
            return Ok(Removal::Wait(SESSION_END));
        }
        if is_for_good(leaving.phase, &self.parts.view, &leaving.cluster) {
            self.release(&leaving.cluster).await?;
        }
        Ok(Removal::Proceed)
    }

    async fn after_removal(&self, cluster: &ClusterName) -> Result<(), HookError> {
        let channels = &self.parts.channels;
        channels
            .addresses
            .send_if_modified(|known| known.remove(cluster.as_str()).is_some());
        channels
            .sharing
            .send_if_modified(|known| known.remove(cluster.as_str()).is_some());
        lock(&self.obstacles).remove(cluster);
        lock(&self.unknown_variables).remove(cluster);
        self.installation.forget(cluster);
        // The Secret is removed last. If it still exists, the cluster left while no manager ran, and its
        // Applications are not released yet.
        if self.parts.secrets.has(cluster) {
            self.release(cluster).await?;
        }
        if let Some(projects) = &self.parts.projects {
            projects.remove(cluster).await?;
        }
        self.parts.secrets.remove(cluster).await.map_err(Into::into)
    }
}

fn refused(error: &dyn std::fmt::Display) -> RenderError {
    let message = error.to_string();
    RenderError { message }
}

/// Whether the agent will not come back to finish deletions. The hub may accept a cluster again that it does not
/// accept at the moment.
fn is_for_good(phase: RemovalPhase, view: &View, cluster: &ClusterName) -> bool {
    match phase {
        RemovalPhase::NotAdmitted => view.cluster(cluster).is_none(),
        RemovalPhase::Refused
        | RemovalPhase::ClusterDeleting
        | RemovalPhase::AddonDeleting
        | RemovalPhase::AddonGone => true,
    }
}
