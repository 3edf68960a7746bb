//! Prints errors, and classifies them by who can fix them.

use std::error::Error;
use std::fmt;

/// Prints an error with all its causes on one line, each once.
///
/// Some errors of other crates repeat their cause in their own text; such a cause is left out.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stated = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !stated.contains(&text) {
                stated.push_str(": ");
                stated.push_str(&text);
            }
            cause = error.source();
        }
        f.write_str(&stated)
    }
}

/// Who can fix a failure; decides retry, log level, condition and status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The network, a peer or an API server is unavailable: retry with back-off.
    Transient,
    /// A user has to change something: report it, retry after a change.
    User,
    /// A bug of ours: log an error, retry slowly.
    Internal,
}

/// Classifies an error of the Kubernetes API.
pub fn classify_kube(error: &::kube::Error) -> ErrorClass {
    let ::kube::Error::Api(status) = error else {
        return ErrorClass::Transient;
    };
    match status.code {
        // 409 and 410 are races with other writers, 429 and above are load or outage.
        401 | 408 | 409 | 410 | 429 | 500..=599 => ErrorClass::Transient,
        _ => ErrorClass::User,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("read trust bundle")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("open /etc/ca.pem: disk full")]
    struct Middle(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("disk full")]
    struct Inner;

    #[test]
    fn each_cause_is_named_once() {
        let error = Outer(Middle(Inner));
        assert_eq!(
            Chain(&error).to_string(),
            "read trust bundle: open /etc/ca.pem: disk full"
        );
    }
}
