//! `versionapi.Version`.

use std::sync::Arc;

use protocol::{
    version::qualified,
    wire::versionapi::{VersionRequest, VersionResponse, version_server::Version},
};
use tonic::{Request, Response, Status};

use super::peer;
use crate::admission::admit::Admission;

#[derive(Debug)]
pub(super) struct Service {
    pub(super) version: String,
    pub(super) gate: Arc<Admission>,
}

#[tonic::async_trait]
impl Version for Service {
    async fn version(
        &self,
        request: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        let challenge = peer(&request)
            .ok()
            .and_then(|peer| self.gate.challenge(&peer));
        let (nonce, uid) = challenge.unwrap_or_default();
        Ok(Response::new(VersionResponse {
            version: qualified(&self.version),
            nonce,
            principal_uid: uid.to_string(),
        }))
    }
}
