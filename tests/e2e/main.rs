//! End-to-end tests of the product on real control planes.
//!
//! `cargo test -p tests --test e2e -- --list` lists them, `... -- FILTER` runs some. See docs/testing.md.

#![expect(
    clippy::indexing_slicing,
    reason = "of JSON, which answers null for what is not there; a test may panic"
)]

/// A test of the product: runs on a [`stage::Stage`] made of the lab.
macro_rules! staged {
    ($($path:ident)::+) => {
        staged!($($path)::+, None)
    };
    ($first:ident $(:: $path:ident)*, $needs:expr) => {
        E2eTest {
            name: concat!(stringify!($first) $(, "::", stringify!($path))*),
            needs: $needs,
            run: |lab| Box::pin(async move { $first$(::$path)*(&stage::Stage::of(lab)).await }),
        }
    };
}

mod agentctl;
mod argocd;
mod autonomous;
mod base;
mod certificates;
mod chart;
mod command;
mod conformance;
mod console;
mod decisions;
mod delivery;
mod differential;
mod enrolment;
mod faults;
mod hostile;
mod hubside;
mod interop;
mod intruders;
mod ipv6_only;
mod kills;
mod kubectl;
mod leaders;
mod live;
mod lost;
mod migration;
mod monitored;
mod ocm_groups;
mod past;
mod places;
mod pods;
mod product;
mod programs;
mod quickstart;
mod reader;
mod removal;
mod repositories;
mod restore;
mod restricted;
mod rights;
mod rules;
mod runbooks;
mod sets;
mod size;
mod skew;
mod stage;
mod terminal;
mod traces;
mod transport;
mod trees;
mod ui;
mod users;
mod watching;
mod zerotouch;

use std::process::ExitCode;

use lab::{
    Family, Options, e2e_test,
    e2e_test::{E2eTest, TestGroup, main as run},
};

fn main() -> ExitCode {
    // Several parts run at once. The durations, which a run of `make e2e-durations` records, balance them.
    let groups = vec![
        control_planes(),
        hub_side(),
        pods(),
        product::chapter(),
        restarts(),
        certificates(),
        ipv6_only(),
        ocm_groups::crowd(),
        interop::chapter(),
        interop::people(),
        transport::chapter(),
        ui::chapter(),
        users(),
        life_of_the_chart(),
        second_day(),
        other_hubs(),
        lost_hubs(),
        ocm_groups::guest(),
        ocm_groups::chapter(),
    ];
    run(groups, include_str!("durations.txt"))
}

fn ipv6_only() -> TestGroup {
    let options = Options {
        family: Family::V6,
        ..Options::everything(1)
    };
    TestGroup::alone(
        options,
        vec![staged!(
            ipv6_only::cluster_is_enrolled_synced_and_viewed_over_ipv6_only,
            transport::ipv6::missing()
        )],
    )
}

fn control_planes() -> TestGroup {
    TestGroup::shared(
        Options::control_planes(1),
        vec![
            e2e_test!(base::control_planes_serve_and_controllers_work),
            e2e_test!(base::an_api_restart_keeps_stored_data),
            e2e_test!(base::the_audit_log_attributes_writes_to_users),
            e2e_test!(base::a_user_has_only_the_rights_it_was_given),
            e2e_test!(base::a_commit_can_be_fetched_from_the_git_server),
            e2e_test!(command::lab_is_reachable_from_outside_until_down),
            e2e_test!(command::a_killed_lab_leaves_nothing),
            e2e_test!(command::an_interrupted_start_leaves_nothing),
            e2e_test!(hostile::every_attack_is_refused_or_bounded),
            e2e_test!(differential::in_memory_api_answers_like_a_kube_apiserver),
        ],
    )
}

fn pods() -> TestGroup {
    TestGroup::shared(
        Options {
            pods: true,
            ..Options::control_planes(1)
        },
        vec![
            e2e_test!(pods::a_service_is_reached_under_every_name),
            e2e_test!(pods::a_load_balancer_leads_to_pods),
            e2e_test!(pods::a_service_of_another_cluster_is_out_of_reach),
            e2e_test!(pods::a_container_matches_its_pod_spec),
            e2e_test!(pods::a_volume_follows_its_secret),
            e2e_test!(pods::a_crashed_container_restarts_and_reports_its_exit_code),
            e2e_test!(pods::a_container_that_fails_its_liveness_probe_is_replaced),
            e2e_test!(pods::a_pod_without_its_image_backs_off_until_the_pull_succeeds),
            e2e_test!(pods::a_pod_lives_on_while_the_api_is_away),
            e2e_test!(pods::a_deleted_pod_gets_sigterm_and_leaves_nothing),
            e2e_test!(pods::asked::a_log_is_shown_as_it_was_asked_for),
            e2e_test!(pods::asked::a_log_is_followed_until_its_container_ends),
            e2e_test!(pods::asked::the_log_before_a_crash_is_shown),
            e2e_test!(pods::asked::a_command_has_its_streams_and_its_exit_code),
            e2e_test!(pods::asked::a_terminal_has_a_size_and_ends_with_its_viewer),
            e2e_test!(argocd::an_application_from_git_is_synced_and_removal_leaves_nothing),
        ],
    )
}

/// During an uninstall Pods lose their rights while they run, so these tests cannot share a lab in which every refusal
/// counts. They need many certificates, of which a lab has [ten an hour](second_day), so each starts with a new lab.
fn life_of_the_chart() -> TestGroup {
    TestGroup::alone(
        Options::everything(2),
        vec![
            staged!(chart::an_upgrade_keeps_the_ca_and_the_agents),
            staged!(chart::an_uninstallation_takes_the_add_on_off_and_an_installation_adopts),
            staged!(chart::an_uninstallation_waits_for_a_lost_spoke_with_a_bound),
            staged!(chart::an_installation_refuses_an_add_on_of_templates),
            staged!(chart::configure::configure_sets_argocd_server_up_and_restores_it),
            staged!(chart::gitops::argo_cd_keeps_the_chart_synced),
            staged!(chart::gitops::deleted_application_leaves_a_clean_hub),
            staged!(quickstart::the_quickstart_is_followed_word_by_word),
            staged!(
                skew::hub_and_agents_upgrade_and_roll_back_one_by_one,
                Some(lab::product::PREVIOUS)
            ),
        ],
    )
}

/// The hub's etcd is restored from a snapshot. The hub is another one afterwards, so this has a lab of its own.
fn other_hubs() -> TestGroup {
    TestGroup::alone(
        Options::everything(2),
        vec![staged!(
            past::agents_follow_a_hub_restored_from_an_etcd_snapshot
        )],
    )
}

/// The hub is lost, and another control plane takes its place.
fn lost_hubs() -> TestGroup {
    let options = Options {
        spare: true,
        ..Options::everything(1)
    };
    TestGroup::alone(
        options,
        vec![
            staged!(lost::lost_hub_is_rebuilt_without_replacing_workloads),
            staged!(lost::lost_hub_ca_is_rebuilt_without_replacing_workloads),
        ],
    )
}

/// OCM's agent requests at most ten certificates of an add-on in an hour. These tests need so many that each starts with a
/// new lab.
fn second_day() -> TestGroup {
    TestGroup::alone(
        Options::everything(2),
        vec![
            staged!(runbooks::the_runbooks_are_followed_word_by_word),
            staged!(agentctl::adopt::a_cluster_in_push_mode_is_adopted),
        ],
    )
}

/// How people use Argo CD, and what happens when they disagree.
fn users() -> TestGroup {
    TestGroup::shared(Options::everything(2), [features(), rules()].concat())
}

/// Features of Argo CD.
fn features() -> Vec<E2eTest> {
    vec![
        staged!(users::app_of_apps_delivers_its_children),
        staged!(users::a_sync_window_of_the_hub_holds_on_the_spoke),
        staged!(users::hooks_and_waves_run_in_their_order),
        staged!(users::helm_kustomize_and_several_sources_are_rendered),
        staged!(users::annotations_of_other_controllers_survive),
        staged!(size::a_status_as_large_as_there_can_be_arrives),
        staged!(size::a_thousand_applications_of_one_cluster_come_and_go),
        staged!(places::argo_cd_has_another_namespace_on_a_spoke),
        staged!(restricted::our_pods_run_where_pod_security_is_restricted),
        staged!(zerotouch::an_argo_cd_of_ones_own_is_left_alone),
        staged!(zerotouch::an_empty_cluster_gets_its_argo_cd_with_the_label),
        staged!(zerotouch::further::install_argocd_false_reports_the_next_step),
        staged!(zerotouch::further::an_empty_autonomous_cluster_follows_the_hubs_argo_cd),
        staged!(restore::a_hub_restored_from_a_backup_replaces_no_workload),
        staged!(restore::an_application_set_made_again_replaces_no_workload),
        staged!(sets::a_list_of_clusters_gets_its_applications),
        staged!(sets::clusters_with_a_label_get_their_application),
        staged!(sets::folders_of_a_repository_are_applications),
        staged!(sets::a_change_rolls_from_cluster_to_cluster),
        staged!(sets::placement::application_sets_on_the_page_follow_their_clusters),
        staged!(console::the_argocd_cli_manages_an_application_on_a_cluster),
        staged!(console::cluster_page_shows_the_connection_state),
        staged!(console::disconnected_cluster_shows_its_last_known_state),
        staged!(console::autonomous_applications_are_usable_from_the_hub),
        staged!(console::a_shell_and_a_log_of_a_cluster_are_opened_in_argo_cd),
        staged!(console::tenants::requests::an_account_reaches_its_own_project_only),
        staged!(console::tenants::writes::tenants_deliver_to_admitted_clusters_only),
        staged!(console::tenants::shared::tenants_of_one_cluster_share_no_object),
        staged!(console::tenants::hub::in_cluster_destination_opens_no_object_of_the_hub),
        staged!(console::tenants::page::tenant_set_up_by_the_page_is_confined),
        staged!(console::setup::hub_setup_shows_clusters_and_undo_restores_settings),
        staged!(console::hybrid::old_hub_controller_syncs_only_applications_of_its_own),
    ]
}

/// Conflicts, commands and mass deletions.
fn rules() -> Vec<E2eTest> {
    vec![
        staged!(rules::an_application_of_the_hubs_own_stays_there),
        staged!(rules::the_older_of_two_namesakes_keeps_the_name),
        staged!(rules::contradicting_destination_is_reported_until_corrected),
        staged!(rules::a_running_sync_is_terminated_from_the_hub),
        staged!(rules::ignore_sync_label_is_honoured),
        staged!(rules::an_application_that_was_there_first_is_adopted),
        staged!(rules::a_contested_spec_is_reported_until_the_dispute_ends),
        staged!(rules::a_mass_delete_waits_for_a_person),
        staged!(migration::argocd_agent_leftovers_are_adopted_in_place),
        staged!(hostile::klusterlet::a_hostile_klusterlet_is_bounded),
    ]
}

/// Objects that the hub program creates on the hub, and leader election. These and [`certificates`] request certificates, so the
/// two do not share a lab.
fn hub_side() -> TestGroup {
    TestGroup::shared(
        Options::everything(2),
        vec![
            staged!(hubside::the_cluster_secret_follows_its_cluster_and_keeps_user_edits),
            staged!(hubside::a_cluster_secret_of_argocd_agentctl_is_taken_over),
            staged!(hubside::the_principal_is_found_behind_a_node_port_and_a_load_balancer),
            staged!(hubside::each_cluster_has_a_project_where_it_is_wanted),
            staged!(hubside::backup_label_marks_all_that_a_restored_hub_needs),
            staged!(monitored::a_prometheus_that_follows_the_page_sees_everything),
            staged!(leaders::another_replica_takes_the_lease_of_a_lost_leader),
            staged!(leaders::stalled::a_stalled_leader_writes_nothing_when_it_resumes),
            staged!(leaders::a_restarted_container_leads_at_once),
        ],
    )
}

/// Certificates change under these tests, so they have a lab of their own.
fn certificates() -> TestGroup {
    TestGroup::shared(
        Options::everything(2),
        vec![
            staged!(certificates::frequent_certificate_renewal_loses_no_change),
            staged!(certificates::a_certificate_is_renewed_through_ocm),
            staged!(certificates::ca_rotates_twice_without_interruption),
            staged!(certificates::own::an_rsa_ca_of_a_user_takes_over_and_is_replaced),
            staged!(certificates::a_revoked_agent_is_rejected_and_others_stay_connected),
            staged!(certificates::an_expired_serving_certificate_is_replaced),
            staged!(certificates::token_key::a_deleted_token_key_disconnects_no_agent),
            staged!(certificates::interrupted::a_ca_rotation_continues_after_a_kill_at_each_step),
            staged!(agentctl::status_needs_only_the_documented_roles),
            staged!(agentctl::why_explains_the_route_of_an_application),
            staged!(agentctl::why_explains_a_refused_object),
            staged!(agentctl::check_reports_hub_prerequisites_and_rights),
            staged!(agentctl::spoke::check_spoke_needs_only_the_documented_roles),
            staged!(agentctl::certificates::certificates_are_changed_on_the_command_line),
            staged!(agentctl::certificates::an_agent_is_revoked_and_restored_on_the_command_line),
        ],
    )
}

/// A restarted API server rejects requests until its caches are filled. So these tests have a lab of their
/// own: in the others, every refusal counts.
fn restarts() -> TestGroup {
    TestGroup::shared(
        Options::everything(1),
        vec![
            staged!(decisions::revocation_survives_clusteradm_and_recreation),
            staged!(hubside::without_ocm::a_hub_program_that_starts_without_ocm_deletes_nothing),
            staged!(faults::a_restarted_hub_api_loses_nothing),
            staged!(kills::a_cluster_comes_and_goes_while_its_api_restarts),
            staged!(kills::an_application_lives_and_ends_while_the_spokes_api_restarts),
            // The last one: Pods of the spoke do not follow its API for a while.
            staged!(past::spoke::a_spoke_restored_from_a_snapshot_repeats_no_operation),
        ],
    )
}
