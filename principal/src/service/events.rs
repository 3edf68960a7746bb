//! `eventstreamapi.EventStream`.

use std::sync::Arc;

use protocol::{
    refusal::Refusal,
    wire::eventstreamapi::{
        Event, PingRequest, PongReply, PushSummary, event_stream_server::EventStream,
    },
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{peer, refuse};
use crate::{gate::Admitted, session::Sessions};

#[derive(Debug)]
pub(super) struct Service {
    pub(super) sessions: Arc<Sessions>,
}

impl Service {
    /// The metadata `authorization` holds the bare token, without a scheme; of several the first counts.
    fn admit<T>(&self, request: &Request<T>) -> Result<Admitted, Status> {
        let token = request
            .metadata()
            .get("authorization")
            .and_then(|raw| raw.to_str().ok());
        let admitted = peer(request).and_then(|peer| {
            let gate = &self.sessions.gate;
            gate.admit(&peer, token.ok_or(Refusal::InvalidToken)?)
        });
        admitted.map_err(|refusal| refuse(&self.sessions.gate, &refusal))
    }
}

#[tonic::async_trait]
impl EventStream for Service {
    type SubscribeStream = ReceiverStream<Result<Event, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<Event>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let admitted = self.admit(&request)?;
        let events = self.sessions.open(admitted, request.into_inner());
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn push(
        &self,
        request: Request<Streaming<Event>>,
    ) -> Result<Response<PushSummary>, Status> {
        self.admit(&request)?;
        Err(Status::unimplemented("use Subscribe"))
    }

    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<PongReply>, Status> {
        self.admit(&request)?;
        Ok(Response::new(PongReply {}))
    }
}
