//! Conformance with OCM of our add-on, and of any add-on that is made with the SDK.
//!
//! One or more tests for each point of the list in `docs/ocm.md`; all run on the stand-in and on real OCM.

pub(crate) mod admission;
pub(crate) mod awsirsa;
pub(crate) mod certificates;
pub(crate) mod clusters;
pub(crate) mod configuration;
pub(crate) mod crowd;
pub(crate) mod grpc;
pub(crate) mod guest;
pub(crate) mod hosted;
pub(crate) mod intake;
pub(crate) mod manual_edits;
pub(crate) mod readers;
pub(crate) mod registration;
pub(crate) mod teardown;
pub(crate) mod works;
pub(crate) mod writes;
