//! Requests that upgrade to a stream of bytes in both directions, as for a terminal.
//!
//! Kubernetes clients request a `WebSocket`, or SPDY if they are older or their proxy rejects it. The bytes of the stream
//! are forwarded unchanged; the headers of the handshake are checked here, and no others are forwarded.

/// The header that replaces `Upgrade` in a tunnel, as HTTP/2 has none; in the response it confirms the stream.
pub const HEADER: &str = "x-stream-upgrade";

/// The headers with which a client offers protocols.
pub const ASKED: [&str; 4] = [
    "sec-websocket-key",
    "sec-websocket-version",
    PROTOCOLS,
    STREAM_PROTOCOLS,
];
/// The headers with which the API server selects a protocol.
pub const ANSWERED: [&str; 3] = ["sec-websocket-accept", PROTOCOLS, STREAM_PROTOCOLS];

const PROTOCOLS: &str = "sec-websocket-protocol";
const STREAM_PROTOCOLS: &str = "x-stream-protocol-version";

/// The protocols of terminals. With others a client could authenticate as another user (`base64url.bearer.…`) or forward
/// ports.
const KNOWN: [&str; 7] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "base64.channel.k8s.io",
];

/// The protocol after an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// RFC 6455.
    WebSocket,
    /// SPDY/3.1.
    Spdy,
}

/// Why an upgrade is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The request has no supported upgrade.
    #[error("a terminal needs an upgrade to WebSocket or SPDY/3.1")]
    NoUpgrade,
    /// Not a protocol of terminals.
    #[error("the protocol {0:?} is not supported for terminals")]
    Protocol(String),
}

impl Upgrade {
    /// The name in the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Spdy => "SPDY/3.1",
        }
    }

    /// The upgrade that a request asks for; `header` returns the values of a header, one per line.
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
    fn upgrades_of_kubernetes_clients_are_accepted() {
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
    fn other_upgrades_and_protocols_are_rejected() {
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
            let Err(Unfit::Protocol(shown)) = refused else {
                panic!("{protocol}: {refused:?}");
            };
            assert!(!shown.contains("c2VjcmV0"), "the error reveals no token");
        }
    }
}
