//! `argocdagent.lane.Lane`: opens tunnels; ours, not upstream's.

use std::sync::Arc;

use futures::{StreamExt as _, stream::BoxStream};
use protocol::wire::tunnel::{Chunk, lane_server::Lane};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{admit, peer};
use crate::live::{LiveContext, tunnel_server};

#[derive(Debug)]
pub(super) struct Service {
    pub(super) live: Arc<LiveContext>,
}

#[tonic::async_trait]
impl Lane for Service {
    type OpenStream = BoxStream<'static, Result<Chunk, Status>>;

    async fn open(
        &self,
        request: Request<Streaming<Chunk>>,
    ) -> Result<Response<Self::OpenStream>, Status> {
        let admitted = admit(&self.live.admission, &request)?;
        if let Ok(peer) = peer(&request) {
            peer.connection.move_to_background();
        }
        let outgoing = tunnel_server::open(&self.live, admitted, request.into_inner());
        let chunks = ReceiverStream::new(outgoing).map(|data| Ok(Chunk { data }));
        Ok(Response::new(chunks.boxed()))
    }
}
