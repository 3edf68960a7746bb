//! Streams, opened with a token.

use std::sync::Arc;

use protocol::refusal::Refusal;

use super::{Admission, Admitted};
use crate::{
    admission::peer::Peer,
    admission::tokens::{Purpose, Verified},
};

impl Admission {
    /// Whether a stream with this token may be opened.
    pub(crate) fn admit(&self, peer: &Peer, token: &str) -> Result<Admitted, Refusal> {
        let admitted = self.recognize(peer, token)?;
        if !self.budget.spend(&admitted.holder.cluster) {
            return Err(Refusal::TooMany);
        }
        Ok(admitted)
    }

    /// Like [`Self::admit`], without the budget: users cause these requests, and they cost little.
    pub(crate) fn recognize(&self, peer: &Peer, token: &str) -> Result<Admitted, Refusal> {
        self.serving()?;
        let (Verified { holder, expires: _ }, peer_credentials) =
            self.verify(peer, token, Purpose::Access)?;
        let enrolment = self.enrolled(&holder.cluster, holder.mode, &peer_credentials)?;
        Ok(Admitted {
            holder,
            enrolment,
            peer_credentials: Arc::new(peer_credentials),
        })
    }
}
