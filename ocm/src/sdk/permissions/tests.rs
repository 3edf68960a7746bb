use proptest::prelude::*;

use super::*;
use crate::{
    api::{
        addon::{
            KUBE_CLIENT, KubeClientConfig, ManagedClusterAddOn, ManagedClusterAddOnStatus,
            RegistrationConfig, Subject as Identity,
        },
        cluster::ManagedCluster,
    },
    name::ClusterName,
};

fn rules() -> Vec<PolicyRule> {
    vec![PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    }]
}

fn addon_with(driver: &str, user: &str) -> ManagedClusterAddOn {
    let client = KubeClientConfig {
        driver: driver.to_owned(),
        subject: Some(Identity {
            user: user.to_owned(),
            ..Identity::default()
        }),
    };
    let registration = RegistrationConfig {
        kind: KUBE_CLIENT.to_owned(),
        kube_client: Some(client),
        custom_signer: None,
    };
    let mut addon = ManagedClusterAddOn {
        status: Some(ManagedClusterAddOnStatus {
            registrations: vec![registration],
            ..ManagedClusterAddOnStatus::default()
        }),
        ..ManagedClusterAddOn::default()
    };
    addon.metadata.uid = Some("u".to_owned());
    addon
}

fn decide(
    addon: &ManagedClusterAddOn,
    registrations: &[Registration],
    rules: &[PolicyRule],
    live: &Live,
) -> Vec<Step> {
    let (name, cluster) = (AddonName::new("a").unwrap(), ClusterName::new("c").unwrap());
    let target = Target {
        name: &cluster,
        cluster: &ManagedCluster::default(),
        addon,
    };
    let wanted = Wanted {
        addon: &name,
        version: Version::V1Beta1,
        rules,
        registrations,
    };
    plan(wanted, target, live)
}

fn asked(addon: &ManagedClusterAddOn, live: &Live) -> Vec<Step> {
    decide(addon, &[Registration::KubeClient], &rules(), live)
}

fn carry_out(live: &Live, steps: &[Step]) -> Live {
    let mut live = live.clone();
    for step in steps {
        match step {
            Step::Apply(Part::Role, body) => {
                live.role = Some(Arc::new(serde_json::from_value(body.clone()).unwrap()));
            }
            Step::Apply(Part::Binding, body) => {
                live.binding = Some(Arc::new(serde_json::from_value(body.clone()).unwrap()));
            }
            Step::Delete(Part::Role) => live.role = None,
            Step::Delete(Part::Binding) => live.binding = None,
        }
    }
    live
}

fn bound(live: &Live) -> Vec<(String, String)> {
    let binding = live.binding.as_ref().unwrap();
    let subjects = binding.subjects.iter().flatten();
    subjects
        .map(|subject| (subject.kind.clone(), subject.name.clone()))
        .collect()
}

#[test]
fn the_clusters_own_agent_is_the_only_subject() {
    let live = carry_out(
        &Live::default(),
        &asked(&addon_with("csr", "u"), &Live::default()),
    );
    let group = "system:open-cluster-management:cluster:c:addon:a";
    assert_eq!(bound(&live), [("Group".to_owned(), group.to_owned())]);
    let owner = &live
        .role
        .as_ref()
        .unwrap()
        .metadata
        .owner_references
        .as_ref()
        .unwrap()[0];
    assert_eq!(owner.uid, "u", "it goes with the add-on");
}

#[test]
fn the_service_account_is_the_subject_of_an_agent_with_a_token() {
    let token = addon_with("token", "system:serviceaccount:kube-system:root");
    let csr = carry_out(
        &Live::default(),
        &asked(&addon_with("csr", ""), &Live::default()),
    );
    let steps = asked(&token, &csr);
    assert_eq!(steps.len(), 1, "the rules are the same");
    let live = carry_out(&csr, &steps);
    let user = "system:serviceaccount:c:a-agent";
    assert_eq!(bound(&live), [("User".to_owned(), user.to_owned())]);
}

#[test]
fn nothing_is_granted_without_rules_or_without_a_client() {
    let (addon, live) = (addon_with("csr", ""), Live::default());
    assert_eq!(decide(&addon, &[Registration::KubeClient], &[], &live), []);
    assert_eq!(decide(&addon, &[], &rules(), &live), []);
}

#[test]
fn changes_of_other_clients_are_reverted() {
    let addon = addon_with("csr", "");
    let good = carry_out(&Live::default(), &asked(&addon, &Live::default()));
    let spoils: [fn(&mut Role, &mut RoleBinding); 4] = [
        |role, _| role.rules.as_mut().unwrap()[0].verbs.push("*".to_owned()),
        |_, binding| drop(binding.subjects.take()),
        |role, _| role.metadata.owner_references = None,
        |_, binding| binding.role_ref.name = "cluster-admin".to_owned(),
    ];
    for spoil in spoils {
        let mut role = (**good.role.as_ref().unwrap()).clone();
        let mut binding = (**good.binding.as_ref().unwrap()).clone();
        spoil(&mut role, &mut binding);
        let mut live = Live {
            role: Some(Arc::new(role)),
            binding: Some(Arc::new(binding)),
        };
        for _reconcile in 0..2 {
            live = carry_out(&live, &asked(&addon, &live));
        }
        assert_eq!(live.role, good.role);
        assert_eq!(live.binding, good.binding);
    }
}

proptest! {
    #[test]
    fn registration_subject_is_derived_and_idempotent(
        driver in "csr|token|[a-z]{0,4}", user in "[a-z:]{0,12}"
    ) {
        let addon = addon_with(&driver, &user);
        let live = carry_out(&Live::default(), &asked(&addon, &Live::default()));
        let own = ["system:open-cluster-management:cluster:c:addon:a", "system:serviceaccount:c:a-agent"];
        prop_assert!(bound(&live).iter().all(|(_, name)| own.contains(&name.as_str())));
        prop_assert_eq!(asked(&addon, &live), []);
    }
}
