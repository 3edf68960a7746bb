//! `authapi.Authentication`.

use std::sync::Arc;

use protocol::wire::authapi::{
    AuthRequest, AuthResponse, RefreshTokenRequest, authentication_server::Authentication,
};
use tonic::{Request, Response, Status};

use super::{peer, record_refusal};
use crate::admission::admit::Admission;

#[derive(Debug)]
pub(super) struct Service {
    pub(super) gate: Arc<Admission>,
}

#[tonic::async_trait]
impl Authentication for Service {
    async fn authenticate(
        &self,
        request: Request<AuthRequest>,
    ) -> Result<Response<AuthResponse>, Status> {
        let agent = request
            .metadata()
            .get("user-agent")
            .and_then(|raw| raw.to_str().ok());
        let agent = agent.map(str::to_owned);
        let authenticated = match peer(&request) {
            Ok(peer) => {
                let request = request.into_inner();
                self.gate
                    .authenticate(&peer, agent.as_deref(), request)
                    .await
            }
            Err(refusal) => Err(refusal),
        };
        authenticated
            .map(Response::new)
            .map_err(|refusal| record_refusal(&self.gate, &refusal))
    }

    async fn refresh_token(
        &self,
        request: Request<RefreshTokenRequest>,
    ) -> Result<Response<AuthResponse>, Status> {
        peer(&request)
            .and_then(|peer| {
                self.gate
                    .refresh(&peer, &request.into_inner().refresh_token)
            })
            .map(Response::new)
            .map_err(|refusal| record_refusal(&self.gate, &refusal))
    }
}
