//! `terminalstreamapi.TerminalStreamService`: terminals of Go agents.

use std::sync::Arc;

use futures::StreamExt as _;
use protocol::wire::terminalstreamapi::{
    TerminalStreamData, terminal_stream_service_server::TerminalStreamService,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{first_message, recognize};
use crate::live::{LiveContext, go_compat::TerminalStream};

/// Input that the agent has not read.
const UNSENT: usize = 4;

#[derive(Debug)]
pub(super) struct Service {
    pub(super) live: Arc<LiveContext>,
}

#[tonic::async_trait]
impl TerminalStreamService for Service {
    type StreamTerminalStream = ReceiverStream<Result<TerminalStreamData, Status>>;

    async fn stream_terminal(
        &self,
        request: Request<Streaming<TerminalStreamData>>,
    ) -> Result<Response<Self::StreamTerminalStream>, Status> {
        let admitted = recognize(&self.live.admission, &request)?;
        let mut incoming = request.into_inner();
        let first = first_message(&mut incoming, "invalid terminal message").await?;
        let (to_agent, outgoing) = mpsc::channel(UNSENT);
        let from_agent = incoming.boxed();
        let cluster = &admitted.holder.cluster;
        let terminal = TerminalStream {
            from_agent,
            to_agent,
        };
        self.live
            .go_requests
            .open_terminal(cluster, &first.request_uuid, terminal)
            .ok_or_else(|| Status::not_found("unknown request id"))?;
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }
}
