//! The address at which agents dial the principal: configured, or found ([`mod@find`] decides, [`mod@follow`] watches).

pub mod find;
pub mod follow;

use std::{fmt, net::IpAddr, str::FromStr};

use runtime::net::{authority, host_and_port};

/// The default port, as in the Service in `manifests/hub`.
pub const DEFAULT_PORT: u16 = 443;

/// A host and a port, checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A DNS name, or an IP address without brackets. Also the name in the certificate.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
}

/// A text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an address such as hub.example.org, hub.example.org:8443 or [2001:db8::1]:443"
)]
pub struct InvalidAddress(String);

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || InvalidAddress(text.to_owned());
        let (host, port) = host_and_port(text, Some(DEFAULT_PORT)).ok_or_else(wrong)?;
        let host = match host.parse::<IpAddr>() {
            Ok(ip) => ip.to_string(),
            Err(_) if is_dns_name(host) => host.to_ascii_lowercase(),
            Err(_) => return Err(wrong()),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&authority(&self.host, self.port))
    }
}

/// RFC 1123 labels with dots between them, as a certificate and a resolver can use them.
fn is_dns_name(text: &str) -> bool {
    let label = |label: &str| ocm::name::is_dns_label(&label.to_ascii_lowercase());
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_is_a_host_and_perhaps_a_port() {
        for (text, shown) in [
            ("hub.example.org", "hub.example.org:443"),
            ("Hub:8443", "hub:8443"),
            ("10.240.0.1", "10.240.0.1:443"),
            ("10.240.0.1:8443", "10.240.0.1:8443"),
            ("2001:db8::1", "[2001:db8::1]:443"),
            ("[2001:db8::1]:1", "[2001:db8::1]:1"),
            ("[2001:DB8::1]", "[2001:db8::1]:443"),
            ("::1", "[::1]:443"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let bad = [
            "",
            ":443",
            "https://hub",
            "hub:0",
            "hub:65536",
            "hub:",
            "a b",
            "[x]:1",
            "[10.0.0.1]:1",
            "[2001:db8::1",
            "2001:db8::1]",
            "[2001:db8::1]443",
            "[2001:db8::1]:",
            "[fe80::1%eth0]:443",
            "hub/p",
            "-a",
        ];
        for text in bad {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn addresses_round_trip_and_no_text_panics(text in "\\PC{0,40}") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
            }
        }
    }
}
