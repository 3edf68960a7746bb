//! `authapi.Authentication`.

use std::sync::Arc;

use protocol::wire::authapi::{
    AuthRequest, AuthResponse, RefreshTokenRequest, authentication_server::Authentication,
};
use tonic::{Request, Response, Status};

use super::{limited_peer, record_refusal};
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
        let authenticated = match limited_peer(&self.gate, &request) {
            Ok(peer) => {
                let request = request.into_inner();
                let authenticating = self.gate.authenticate(&peer, agent.as_deref(), request);
                let authenticated = authenticating.await;
                authenticated.inspect_err(|refusal| self.gate.spend_refusal(&peer, refusal))
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
        limited_peer(&self.gate, &request)
            .and_then(|peer| {
                let refreshed = (self.gate).refresh(&peer, &request.into_inner().refresh_token);
                refreshed.inspect_err(|refusal| self.gate.spend_refusal(&peer, refusal))
            })
            .map(Response::new)
            .map_err(|refusal| record_refusal(&self.gate, &refusal))
    }
}
