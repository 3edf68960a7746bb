//! `principal.apis.logstreamapi.LogStreamService`: logs of Go agents.

use std::sync::Arc;

use protocol::wire::logstreamapi::{
    LogStreamData, LogStreamResponse, log_stream_service_server::LogStreamService,
};
use tonic::{Request, Response, Status, Streaming};

use super::{first_message, recognize};
use crate::live::LiveContext;

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
        let first = first_message(&mut messages, "invalid log message").await?;
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
