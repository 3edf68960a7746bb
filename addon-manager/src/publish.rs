//! Publishes values in `watch` channels.

use tokio::sync::watch;

/// Publishes a value if it differs from the present one: receivers wake for real changes only.
pub fn publish<T: PartialEq>(channel: &watch::Sender<T>, value: T) {
    channel.send_if_modified(|known| {
        let changed = *known != value;
        if changed {
            *known = value;
        }
        changed
    });
}
