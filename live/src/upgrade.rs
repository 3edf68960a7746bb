//! A request that asks for more than an answer: a stream of bytes both ways, as a terminal is.
//!
//! Kubernetes clients ask for a `WebSocket`, older ones and those whose proxy refuses it for SPDY. What is said on the
//! stream is carried as it is; what is agreed on before it begins is read here, and nothing else of it goes on.

/// The header that stands for `Upgrade` on a lane, where HTTP/2 has none; on its answer it says that the stream began.
pub const HEADER: &str = "x-stream-upgrade";

/// Headers with which a client says how it would speak, and the API server how they do.
pub const ASKED: [&str; 4] = [
    "sec-websocket-key",
    "sec-websocket-version",
    PROTOCOLS,
    STREAM_PROTOCOLS,
];
/// As [`ASKED`], of the answer.
pub const ANSWERED: [&str; 3] = ["sec-websocket-accept", PROTOCOLS, STREAM_PROTOCOLS];

const PROTOCOLS: &str = "sec-websocket-protocol";
const STREAM_PROTOCOLS: &str = "x-stream-protocol-version";

/// What terminals speak inside. With others a client could log in as somebody else (`base64url.bearer.…`) or ask for ports.
const KNOWN: [&str; 7] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
];

/// Into what a connection is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// RFC 6455.
    WebSocket,
    /// SPDY/3.1.
    Spdy,
}

/// Why a terminal is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is nothing to be seen of a terminal without one.
    #[error("a terminal needs an upgrade to WebSocket or SPDY/3.1")]
    NoUpgrade,
    /// Not one that is spoken with terminals.
    #[error("the protocol {0:?} is not supported for terminals")]
    Protocol(String),
}

impl Upgrade {
    /// The word in the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Spdy => "SPDY/3.1",
        }
    }

    /// What a request asks for; `header` gives the values of a header, each line of it by itself.
    pub fn asked<'a>(
        upgrade: Option<&str>,
        header: impl Fn(&str) -> Vec<&'a str>,
    ) -> Result<Self, Unfit> {
        let upgrade = upgrade.unwrap_or_default();
        let known = [Self::WebSocket, Self::Spdy];
        let mut known = known.into_iter();
        let found = known.find(|it| it.as_str().eq_ignore_ascii_case(upgrade));
        let found = found.ok_or(Unfit::NoUpgrade)?;
        for line in [header(PROTOCOLS), header(STREAM_PROTOCOLS)].concat() {
            for protocol in line.split(',').map(str::trim) {
                if !KNOWN.contains(&protocol) {
                    let shown = protocol.chars().take(16).collect();
                    return Err(Unfit::Protocol(shown));
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(upgrade: Option<&str>, name: &str, lines: &[&'static str]) -> Result<Upgrade, Unfit> {
        Upgrade::asked(upgrade, |asked| {
            if asked == name {
                lines.to_vec()
            } else {
                vec![]
            }
        })
    }

    #[test]
    fn what_clients_of_kubernetes_ask_for_is_understood() {
        let sockets = asked(
            Some("websocket"),
            PROTOCOLS,
            &["v5.channel.k8s.io, v4.channel.k8s.io", "channel.k8s.io"],
        );
        assert_eq!(sockets, Ok(Upgrade::WebSocket));
        let spdy = ["v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"];
        let spdy = asked(Some("SPDY/3.1"), STREAM_PROTOCOLS, &spdy);
        assert_eq!(spdy, Ok(Upgrade::Spdy));
        for upgrade in [Upgrade::WebSocket, Upgrade::Spdy] {
            assert_eq!(asked(Some(upgrade.as_str()), "", &[]), Ok(upgrade));
        }
    }

    #[test]
    fn a_terminal_is_no_way_to_something_else() {
        for other in [None, Some(""), Some("h2c"), Some("SPDY/3.1, websocket")] {
            assert_eq!(asked(other, "", &[]), Err(Unfit::NoUpgrade), "{other:?}");
        }
        for protocol in [
            "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
            "portforward.k8s.io",
            "SPDY/3.1+portforward.k8s.io",
            "",
        ] {
            let refused = asked(Some("websocket"), PROTOCOLS, &[protocol]);
            let Err(Unfit::Protocol(reply)) = refused else {
                panic!("{protocol}: {refused:?}");
            };
            assert!(!reply.contains("c2VjcmV0"), "a token is not told");
        }
    }
}
