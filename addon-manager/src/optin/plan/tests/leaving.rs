//! Removals after the label is gone.

use super::*;

fn made() -> Addon {
    Addon {
        made_for_label: true,
        argocd: Some("brought".to_owned()),
        ..addon(Some("managed"))
    }
}

/// The removal that is planned for this cluster.
fn leave_of(cluster: Cluster, addon: Addon) -> Leave {
    let steps = plan(&world(cluster, Some(addon)), &own());
    let [
        Step {
            action: Action::Leave(leave),
            ..
        },
    ] = steps[..]
    else {
        panic!("{steps:?}");
    };
    leave
}

#[test]
fn removal_knows_which_clusters_have_our_argo_cd() {
    let cases = [
        (Some("brought"), true),
        (Some("brought-without-crds"), true),
        (Some("found"), false),
        (Some("x"), false),
        (None, false),
    ];
    for (argocd, installed) in cases {
        let addon = Addon {
            argocd: argocd.map(str::to_owned),
            ..made()
        };
        let leave = leave_of(cluster(None), addon);
        assert_eq!(leave.installed, installed, "{argocd:?}");
    }
}

#[test]
fn cluster_that_cannot_apply_anything_is_not_reachable() {
    type Change = fn(&mut Cluster);
    let cases: [(Change, bool); 4] = [
        (|_| {}, true),
        (|it| it.lost = true, false),
        (|it| it.accepted = false, false),
        (|it| it.deleting = true, false),
    ];
    for (change, reachable) in cases {
        let mut cluster = cluster(None);
        change(&mut cluster);
        assert_eq!(leave_of(cluster, made()).reachable, reachable);
    }
}

#[test]
fn recorded_wait_goes_on_until_the_label_is_back() {
    let since = Some(Timestamp::UNIX_EPOCH);
    let waiting = Addon {
        keeping_since: since,
        ..made()
    };
    assert_eq!(leave_of(cluster(None), waiting.clone()).since, since);
    let back = world(cluster(Some("managed")), Some(waiting));
    assert_eq!(plan(&back, &own()), [step(Action::Stay)]);
}

#[test]
fn nothing_waits_where_nothing_is_deployed() {
    let idle = Addon {
        adopted: false,
        ..made()
    };
    let steps = plan(&world(cluster(None), Some(idle)), &own());
    assert_eq!(steps, [step(Action::Delete)]);
    let mut reserved = world(Cluster::default(), None);
    reserved.clusters = [("argocd".to_owned(), cluster(None))].into();
    reserved.addons = [("argocd".to_owned(), made())].into();
    let actions: Vec<_> = plan(&reserved, &own())
        .into_iter()
        .map(|it| it.action)
        .collect();
    assert_eq!(actions, [Action::Delete]);
}
