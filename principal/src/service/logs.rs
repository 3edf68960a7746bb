//! `principal.apis.logstreamapi.LogStreamService`: logs of Go agents.

use std::{sync::Arc, time::Duration};

use protocol::wire::logstreamapi::{
    LogStreamData, LogStreamResponse, log_stream_service_server::LogStreamService,
};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::recognize;
use crate::live::LiveContext;

/// How long the first message, with the request id, may take.
const FIRST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Service {
    pub(super) live: Arc<LiveContext>,
}

#[tonic::async_trait]
impl LogStreamService for Service {
    async fn stream_logs(
        &self,
        request: Request<Streaming<LogStreamData>>,
    ) -> Result<Response<LogStreamResponse>, Status> {
        let admitted = recognize(&self.live.admission, &request)?;
        let mut messages = request.into_inner();
        let first = timeout(FIRST, messages.message())
            .await
            .map_err(|_elapsed| Status::deadline_exceeded("empty stream"))??
            .ok_or_else(|| Status::invalid_argument("invalid log message"))?;
        let cluster = &admitted.holder.cluster;
        let log = self.live.go_requests.open_log(cluster, &first.request_uuid);
        let log = log.ok_or_else(|| Status::not_found("unknown request id"))?;
        log.forward(messages).await?;
        Ok(Response::new(LogStreamResponse {
            request_uuid: first.request_uuid,
            status: 200,
            ..LogStreamResponse::default()
        }))
    }
}
