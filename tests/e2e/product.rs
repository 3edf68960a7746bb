//! The longest group: one hub and its clusters from the first enrolment to the last opt-out.

use lab::{
    Options,
    e2e_test::{E2eTest, TestGroup},
};

use crate::{
    autonomous, delivery, enrolment, faults, intruders, kills, live, removal, repositories, rights,
    stage, trees, watching,
};

/// Tests of one hub and two spokes, in this order: the last ones read the audit logs of all of them.
pub(crate) fn chapter() -> TestGroup {
    let parts = [delivered(), harmed(), looked_at(), owned_by_spokes()];
    let e2e_tests = parts.into_iter().flatten().collect();
    TestGroup::shared(Options::everything(2), e2e_tests)
}

/// Clusters opt in, and Applications come to them.
fn delivered() -> Vec<E2eTest> {
    vec![
        staged!(enrolment::a_label_enrols_a_cluster),
        staged!(enrolment::addon_enable_enrols_a_cluster),
        staged!(enrolment::invalid_mode_label_is_reported_as_event),
        staged!(enrolment::a_configuration_of_its_own_reaches_the_agent),
        staged!(enrolment::a_mirror_of_images_is_used),
        staged!(enrolment::configuration_sets_the_mode_without_a_label),
        staged!(delivery::an_application_in_a_clusters_namespace_is_synced),
        staged!(delivery::an_application_with_a_destination_name_is_synced),
        staged!(delivery::allowed_namespace_application_is_delivered),
        staged!(delivery::namespaces_of_a_pattern_are_allowed),
        staged!(delivery::a_new_revision_goes_through),
        staged!(delivery::a_changed_project_goes_through),
        staged!(delivery::a_global_project_of_the_hub_counts_on_the_spoke),
        staged!(delivery::an_edit_on_the_spoke_is_reverted),
        staged!(watching::metrics_match_the_documentation),
        staged!(watching::a_connected_agent_is_an_event_on_its_add_on),
        staged!(delivery::a_sync_runs_once),
        staged!(delivery::a_deletion_on_the_hub_removes_the_workload),
        staged!(delivery::latency::a_change_reaches_its_cluster_within_two_seconds),
        staged!(delivery::latency::a_status_reaches_the_hub_within_two_seconds),
        staged!(delivery::latency::a_deletion_reaches_its_cluster_within_two_seconds),
        staged!(delivery::a_project_that_does_not_admit_is_named),
        staged!(repositories::private_repository_syncs_with_hub_credentials),
        staged!(repositories::a_secret_without_a_project_is_kept_back_and_named),
        staged!(repositories::a_secret_follows_its_project_and_spares_the_spokes_own),
        staged!(repositories::keys_are_put_beside_the_spokes_own_and_go_again),
    ]
}

/// Hostile peers, kills and faults.
fn harmed() -> Vec<E2eTest> {
    vec![
        staged!(intruders::requests::an_invalid_csr_stays_pending_and_is_explained),
        staged!(intruders::credentials::peer_with_wrong_credentials_is_rejected),
        staged!(intruders::garbage::malformed_messages_do_not_disturb_other_clusters),
        staged!(kills::a_cluster_comes_and_goes_while_the_principal_is_killed),
        staged!(kills::a_cluster_comes_and_goes_while_its_agent_is_killed),
        staged!(kills::an_application_lives_and_ends_while_the_principal_is_killed),
        staged!(kills::an_application_lives_and_ends_while_the_agent_is_killed),
        staged!(faults::a_disconnected_spoke_catches_up_after_its_reconnect),
        staged!(faults::a_stalled_connection_is_replaced_by_a_reconnect),
        staged!(repositories::revoked::credentials_revoked_during_a_partition_are_deleted_after_it),
    ]
}

/// Live access from the hub.
fn looked_at() -> Vec<E2eTest> {
    vec![
        staged!(live::cluster_secret_grants_live_access),
        staged!(live::read_level_refusals_name_the_reason),
        staged!(live::watch_reports_a_disconnected_cluster),
        staged!(live::operate_level_changes_application_objects),
        staged!(live::applications::applications_level_shows_application_objects),
        staged!(live::view::all_groups_are_those_of_the_view_role),
        staged!(live::inside::a_log_is_followed_from_the_hub_until_its_cluster_is_cut_off),
        staged!(live::inside::a_terminal_is_opened_from_the_hub_in_a_pod_of_an_application),
        staged!(live::crowd::thousand_log_followers_leave_room_for_others),
        staged!(live::crowd::stalled_reader_does_not_block_others),
        staged!(trees::the_tree_of_an_application_on_a_spoke_is_read_on_the_hub),
        staged!(trees::a_tree_is_read_from_a_redis_with_tls_and_another_secret),
        staged!(trees::operator::hub_program_finds_the_redis_of_an_operator),
    ]
}

/// Autonomous clusters, opt-outs, and the rights that all tests used.
fn owned_by_spokes() -> Vec<E2eTest> {
    vec![
        staged!(autonomous::an_application_of_the_spoke_is_shown_on_the_hub),
        staged!(autonomous::a_sync_asked_for_on_the_hub_runs_once_on_the_spoke),
        staged!(autonomous::an_edit_or_a_deletion_of_a_mirror_is_undone),
        staged!(autonomous::killed_programs_lose_nothing_of_an_autonomous_cluster),
        staged!(autonomous::an_autonomous_cluster_writes_in_its_own_place_only),
        staged!(autonomous::mode::managed_and_autonomous_clusters_live_in_one_fleet),
        staged!(autonomous::crds::deleted_crds_of_argo_cd_delete_nothing_on_the_hub),
        staged!(autonomous::mode::a_change_of_mode_is_confirmed_and_touches_no_application),
        staged!(removal::opting_out_touches_no_application_and_opting_in_adopts),
        staged!(removal::restarted_manager_remembers_modes_after_opt_out),
        staged!(removal::an_addon_deleted_under_its_label_is_made_again),
        staged!(removal::clusteradm_disables_and_enables_an_add_on),
        staged!(enrolment::a_placement_enrols_a_cluster),
        staged!(enrolment::a_cluster_that_turns_out_to_be_the_hub_loses_the_agent),
        staged!(rights::an_issued_identity_is_refused_at_the_hubs_api),
        staged!(rights::nothing_of_ours_was_forbidden),
        staged!(rights::every_right_of_ours_was_used),
    ]
}
