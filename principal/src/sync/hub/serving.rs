//! Whether this replica writes to the hub.

use tokio::sync::watch;

/// The conditions under which a loop of this replica works.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    /// Whether this replica serves.
    pub(crate) active: watch::Receiver<bool>,
    /// Whether all objects are read: until then every project seems to be missing.
    pub(crate) ready: watch::Receiver<bool>,
}

impl Serving {
    /// Waits until this replica serves and all objects are read. Cancel-safe.
    pub(super) async fn wait(&mut self) {
        let serves = self.ready.wait_for(|ready| *ready).await.is_ok()
            && self.active.wait_for(|active| *active).await.is_ok();
        if !serves {
            // The program stops, and then the caller is cancelled too.
            std::future::pending::<()>().await;
        }
    }
}
