//! The close code of a socket.

use std::sync::atomic::{AtomicU16, Ordering};

use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// Why the socket is closed; the first reason counts.
#[derive(Debug, Default)]
pub(super) struct Closing(AtomicU16);

impl Closing {
    pub(super) fn because(&self, code: CloseCode) {
        let code = code.into();
        let _earlier = self
            .0
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn code(&self) -> CloseCode {
        match self.0.load(Ordering::Relaxed) {
            0 => CloseCode::Normal,
            code => code.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_close_reason_is_sent() {
        let closing = Closing::default();
        assert_eq!(closing.code(), CloseCode::Normal);
        closing.because(CloseCode::Size);
        closing.because(CloseCode::Protocol);
        assert_eq!(closing.code(), CloseCode::Size);
    }
}
