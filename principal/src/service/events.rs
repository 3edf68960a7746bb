//! `eventstreamapi.EventStream`.

use std::sync::Arc;

use protocol::wire::eventstreamapi::{
    Event, PingRequest, PongReply, PushSummary, event_stream_server::EventStream,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::admit;
use crate::sync::session::Sessions;

#[derive(Debug)]
pub(super) struct Service {
    pub(super) sessions: Arc<Sessions>,
}

#[tonic::async_trait]
impl EventStream for Service {
    type SubscribeStream = ReceiverStream<Result<Event, Status>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<Event>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let admitted = admit(&self.sessions.gate, &request)?;
        let events = self.sessions.open(admitted, request.into_inner());
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn push(
        &self,
        request: Request<Streaming<Event>>,
    ) -> Result<Response<PushSummary>, Status> {
        admit(&self.sessions.gate, &request)?;
        Err(Status::unimplemented("use Subscribe"))
    }

    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<PongReply>, Status> {
        admit(&self.sessions.gate, &request)?;
        Ok(Response::new(PongReply {}))
    }
}
