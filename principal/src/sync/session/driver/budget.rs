//! How much a session may do before it lets other tasks run.

/// Bytes that a session decodes before it lets other tasks run: a few milliseconds.
const BUDGET: usize = 256 << 10;
/// The cost of a message besides its bytes.
const MESSAGE: usize = 1 << 10;

/// The bytes that a session may still decode before it lets other tasks run.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: BUDGET }
    }
}

impl Budget {
    /// Counts one message.
    pub(super) const fn charge(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.saturating_add(MESSAGE));
    }

    /// Lets other tasks run if the budget is used up. Cancel-safe.
    pub(super) async fn settle(&mut self) {
        if self.left == 0 {
            tokio::task::yield_now().await;
            self.left = BUDGET;
        }
    }
}
