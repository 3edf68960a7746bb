//! The groups of the conformance tests with OCM.

use lab::{
    Options, e2e_test,
    e2e_test::{E2eTest, TestGroup},
    steps::clusteradm::PROGRAM as CLUSTERADM,
};

use crate::{conformance, stage};

/// The variable with the directory of OCM's own programs.
const REAL: &str = "OCM_BIN_DIR";

/// Many clusters, simulated: on a hub without anything else.
pub(crate) fn crowd() -> TestGroup {
    TestGroup::alone(
        Options::control_planes(0),
        vec![e2e_test!(
            conformance::crowd::simulated_clusters_take_at_most_four_writes_each
        )],
    )
}

/// Conformance tests of features that our add-on does not use, run with the SDK's example.
pub(crate) fn guest() -> TestGroup {
    TestGroup::shared(
        Options {
            argocd: false,
            product: false,
            ..Options::everything(2)
        },
        vec![
            staged!(conformance::registration::an_agent_has_rights_in_its_own_namespace_only),
            staged!(conformance::registration::the_lease_decides_whether_an_agent_is_available),
            staged!(conformance::registration::an_agent_with_a_token_has_the_same_rights),
            staged!(conformance::configuration::missing_configuration_is_reported_until_it_exists),
            staged!(conformance::works::large_manifests_are_split_and_stay_in_their_work),
            staged!(conformance::works::an_object_that_fits_into_no_work_is_named),
            staged!(
                conformance::admission::the_largest_work_passes_ocms_webhook,
                Some(REAL)
            ),
            staged!(conformance::works::unrendered_objects_are_deleted),
            staged!(conformance::teardown::a_hook_runs_before_an_add_on_goes),
            staged!(conformance::teardown::a_hook_that_fails_is_given_up_at_its_deadline),
            staged!(conformance::teardown::an_add_on_of_a_dead_cluster_goes_without_its_hook),
            staged!(conformance::intake::add_on_without_definition_is_reported),
            staged!(conformance::intake::a_namespace_of_the_longest_name_is_served),
            staged!(conformance::hosted::an_agent_is_hosted_on_another_cluster),
        ],
    )
}

/// The conformance tests of our add-on.
pub(crate) fn chapter() -> TestGroup {
    TestGroup::shared(
        Options::everything(3),
        vec![
            staged!(conformance::writes::an_install_takes_at_most_four_writes),
            staged!(conformance::writes::a_restarted_manager_writes_nothing),
            staged!(conformance::readers::tables_and_trees_show_that_all_is_well),
            staged!(conformance::readers::clusteradm_shows_the_add_on_as_available, Some(CLUSTERADM)),
            staged!(conformance::readers::both_add_on_api_versions_agree),
            staged!(conformance::certificates::certificate_contains_only_the_registered_subject),
            staged!(conformance::certificates::an_unexpected_csr_stays_pending),
            staged!(conformance::certificates::a_cluster_of_the_longest_name_is_enrolled),
            staged!(conformance::awsirsa::awsirsa_cluster_gets_its_certificate_where_it_is_accepted),
            staged!(conformance::grpc::a_request_of_ocms_grpc_server_counts_for_the_annotated_user),
            staged!(conformance::configuration::unknown_configuration_kind_is_reported),
            staged!(conformance::configuration::the_most_particular_configuration_counts),
            staged!(conformance::configuration::an_edited_configuration_is_rolled_out_one_cluster_at_a_time),
            staged!(conformance::configuration::an_edited_configuration_is_rolled_out_group_by_group),
            staged!(conformance::clusters::forged_add_on_status_grants_nothing),
            staged!(conformance::clusters::forged_managed_cluster_metadata_grants_nothing),
            staged!(conformance::clusters::a_lost_cluster_is_available_again_as_soon_as_it_is_back),
            staged!(conformance::clusters::drift_on_a_spoke_is_repaired_and_others_fields_stay),
            staged!(conformance::manual_edits::manifest_works_pass_the_executor_validation),
            staged!(conformance::admission::our_works_pass_ocms_webhook, Some(REAL)),
            staged!(conformance::manual_edits::foreign_manifest_work_with_our_label_stays),
            staged!(conformance::manual_edits::a_work_deleted_by_hand_is_made_again),
            staged!(conformance::manual_edits::recreated_add_on_waits_for_earlier_works),
            staged!(conformance::manual_edits::recreated_definition_restores_the_add_ons),
            staged!(conformance::manual_edits::an_agent_moves_into_another_namespace_and_back),
            staged!(conformance::manual_edits::a_reaccepted_cluster_keeps_its_add_on),
            staged!(conformance::manual_edits::the_last_value_of_a_flapping_label_wins),
            staged!(conformance::clusters::a_deleted_cluster_leaves_nothing_behind),
            staged!(conformance::writes::the_work_agents_were_refused_nothing),
        ],
    )
}
