//! `versionapi.Version`.

use protocol::{
    version::qualified,
    wire::versionapi::{VersionRequest, VersionResponse, version_server::Version},
};
use tonic::{Request, Response, Status};

#[derive(Debug)]
pub(super) struct Service {
    pub(super) version: String,
}

#[tonic::async_trait]
impl Version for Service {
    async fn version(
        &self,
        _request: Request<VersionRequest>,
    ) -> Result<Response<VersionResponse>, Status> {
        Ok(Response::new(VersionResponse {
            version: qualified(&self.version),
        }))
    }
}
