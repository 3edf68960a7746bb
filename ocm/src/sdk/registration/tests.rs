use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn names() -> (AddonName, ClusterName) {
    (AddonName::new("a").unwrap(), ClusterName::new("c").unwrap())
}

fn now() -> Timestamp {
    Timestamp::from_second(100).unwrap()
}

fn decide(
    registrations: &[Registration],
    live: &ManagedClusterAddOn,
    namespace: Option<&str>,
) -> Option<ManagedClusterAddOnStatus> {
    let (addon, cluster) = names();
    let supported = supported(&[ConfigKind::addon_deployment_config()]);
    let wanted = Wanted {
        addon: &addon,
        cluster: &cluster,
        supported: &supported,
        registrations,
        health: HealthMode::Customized,
        version: Version::V1Beta1,
        problem: None,
    };
    plan(&wanted, live, namespace, now())
}

fn custom() -> Registration {
    let (addon, cluster) = names();
    Registration::custom_signer("open-cluster-management.io/a", &addon, &cluster)
}

fn with_status(status: ManagedClusterAddOnStatus) -> ManagedClusterAddOn {
    ManagedClusterAddOn {
        status: Some(status),
        ..ManagedClusterAddOn::default()
    }
}

#[test]
fn registration_takes_one_write() {
    let status = decide(&[custom()], &ManagedClusterAddOn::default(), Some("there")).unwrap();
    assert_eq!(status.namespace, "there");
    assert_eq!(status.registrations.len(), 1);
    assert_eq!(status.health_check.as_ref().unwrap().mode, "Customized");
    assert_eq!(status.conditions[0].reason, "SetPermissionApplied");
    assert_eq!(
        status.supported_configs[0].resource,
        "addondeploymentconfigs"
    );
    assert_eq!(
        decide(&[custom()], &with_status(status), Some("there")),
        None
    );
}

#[test]
fn forged_registration_is_reverted() {
    let status = decide(&[custom()], &ManagedClusterAddOn::default(), Some("there")).unwrap();
    let poisons: [fn(&mut ManagedClusterAddOnStatus); 5] = [
        |status| {
            let signer = status.registrations[0].custom_signer.as_mut().unwrap();
            signer.subject.as_mut().unwrap().user = "system:admin".to_owned();
        },
        |status| status.registrations.push(RegistrationConfig::default()),
        |status| status.namespace = "kube-system".to_owned(),
        |status| status.health_check = None,
        |status| status.conditions.clear(),
    ];
    for poison in poisons {
        let mut poisoned = status.clone();
        poison(&mut poisoned);
        assert_eq!(
            decide(&[custom()], &with_status(poisoned), Some("there")),
            Some(status.clone())
        );
    }
}

#[test]
fn no_namespace_is_guessed_before_the_configuration_is_settled() {
    assert_eq!(
        decide(&[custom()], &ManagedClusterAddOn::default(), None),
        None
    );
}

#[test]
fn supported_kinds_are_written_first_for_a_cluster_with_own_configs() {
    let mut addon = ManagedClusterAddOn::default();
    addon
        .spec
        .configs
        .push(crate::api::addon::AddOnConfig::default());
    let status = decide(&[custom()], &addon, None).unwrap();
    assert_eq!(status.registrations, []);
    addon.status = Some(status);
    assert_eq!(decide(&[custom()], &addon, None), None);
}

#[test]
fn an_unsettled_change_keeps_the_namespace() {
    let status = decide(&[custom()], &ManagedClusterAddOn::default(), Some("there")).unwrap();
    assert_eq!(decide(&[custom()], &with_status(status), None), None);
}

#[test]
fn the_agent_chooses_the_driver() {
    let wanted = [Registration::KubeClient];
    let mut status = decide(&wanted, &ManagedClusterAddOn::default(), Some("there")).unwrap();
    let client = status.registrations[0].kube_client.as_mut().unwrap();
    assert_eq!(client.driver, "csr");
    client.driver = "token".to_owned();
    client.subject = Some(Subject {
        user: "system:serviceaccount:c:a-agent".to_owned(),
        ..Subject::default()
    });
    assert_eq!(decide(&wanted, &with_status(status), Some("there")), None);
}

#[test]
fn in_the_old_version_the_driver_is_left_to_the_agent() {
    let (addon, cluster) = names();
    let wanted = Wanted {
        addon: &addon,
        cluster: &cluster,
        supported: &[],
        registrations: &[Registration::KubeClient],
        health: HealthMode::Lease,
        version: Version::V1Alpha1,
        problem: None,
    };
    let status = plan(&wanted, &ManagedClusterAddOn::default(), Some("n"), now()).unwrap();
    let client = status.registrations[0].kube_client.as_ref().unwrap();
    assert_eq!(client.driver, "");
    assert_eq!(
        plan(&wanted, &with_status(status.clone()), Some("n"), now()),
        None
    );
    let mut driven = status;
    driven.registrations[0].kube_client.as_mut().unwrap().driver = CSR.to_owned();
    assert_eq!(plan(&wanted, &with_status(driven), Some("n"), now()), None);
}

#[test]
fn failed_permissions_are_reported_with_other_conditions() {
    let (addon, cluster) = names();
    let wanted = |problem| Wanted {
        addon: &addon,
        cluster: &cluster,
        supported: &[],
        registrations: &[Registration::KubeClient],
        health: HealthMode::Lease,
        version: Version::V1Beta1,
        problem,
    };
    let fresh = ManagedClusterAddOn::default();
    let status = plan(&wanted(Some("forbidden")), &fresh, Some("n"), now()).unwrap();
    assert_eq!(status.conditions[0].reason, "SetPermissionFailed");
    assert!(status.conditions[0].message.ends_with("agent: forbidden"));
    assert_eq!(status.health_check.as_ref().unwrap().mode, "Lease");
    let again = plan(&wanted(None), &with_status(status), Some("n"), now()).unwrap();
    assert_eq!(again.conditions[0].reason, "SetPermissionApplied");
}

#[test]
fn a_wrong_token_subject_is_removed() {
    let wanted = [Registration::KubeClient];
    let mut status = decide(&wanted, &ManagedClusterAddOn::default(), Some("there")).unwrap();
    status.registrations[0].kube_client = Some(KubeClientConfig {
        driver: "token".to_owned(),
        subject: Some(Subject {
            user: "system:serviceaccount:kube-system:root".to_owned(),
            ..Subject::default()
        }),
    });
    let again = decide(&wanted, &with_status(status), Some("there")).unwrap();
    assert_eq!(
        again.registrations[0].kube_client.as_ref().unwrap().subject,
        None
    );
}

#[test]
fn namespace_comes_from_configuration_then_annotation_then_default() {
    let mut addon = ManagedClusterAddOn::default();
    assert_eq!(
        install_namespace(&addon, None),
        keys::DEFAULT_INSTALL_NAMESPACE
    );
    let annotations = addon.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::INSTALL_NAMESPACE.to_owned(), "noted".to_owned());
    assert_eq!(install_namespace(&addon, None), "noted");
    let mut config = AddOnDeploymentConfigSpec::default();
    assert_eq!(install_namespace(&addon, Some(&config)), "noted");
    config.agent_install_namespace = "configured".to_owned();
    assert_eq!(install_namespace(&addon, Some(&config)), "configured");
}

prop_compose! {
    /// A status that a cluster may have forged.
    fn poison()(
        namespace in "[a-z]{0,4}",
        mode in prop::option::of("Lease|Customized|Other"),
        users in prop::collection::vec("[a-z:]{0,8}", 0..3),
        driver in "csr|token|",
        status in any::<bool>(),
    ) -> ManagedClusterAddOnStatus {
        let registration = |user: String| RegistrationConfig {
            kind: KUBE_CLIENT.to_owned(),
            kube_client: Some(KubeClientConfig {
                driver: driver.clone(),
                subject: Some(Subject { user, ..Subject::default() }),
            }),
            custom_signer: None,
        };
        let verdict = Verdict::new("RegistrationApplied", status, "SetPermissionApplied", "");
        ManagedClusterAddOnStatus {
            conditions: vec![verdict.onto(&[], now())],
            namespace,
            health_check: mode.map(|mode| HealthCheck { mode }),
            registrations: users.into_iter().map(registration).collect(),
            ..ManagedClusterAddOnStatus::default()
        }
    }
}

proptest! {
    #[test]
    fn any_forged_registration_is_reverted_by_one_write(poison in poison(), settled in any::<bool>()) {
        let wanted = [custom(), Registration::KubeClient];
        let namespace = settled.then_some("there");
        let Some(status) = decide(&wanted, &with_status(poison), namespace) else { return Ok(()) };
        for registration in &status.registrations {
            let client = registration.kube_client.as_ref();
            let user = client.and_then(|client| client.subject.as_ref()).map(|s| s.user.as_str());
            let own = "system:open-cluster-management:cluster:c:addon:a";
            let is_own = user.is_none_or(|user| user.starts_with(own));
            prop_assert!(is_own);
        }
        prop_assert_eq!(decide(&wanted, &with_status(status), namespace), None);
    }
}
