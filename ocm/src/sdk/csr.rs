//! Whether a certificate request may be approved.

/// Why a request is left pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {}
