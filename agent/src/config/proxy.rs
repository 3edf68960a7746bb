//! The forward proxy of the usual variables: the addresses that it serves, and its credentials.

use std::{fmt, net::IpAddr, path::PathBuf, sync::Arc};

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use runtime::net::{authority, bracketed};

use crate::args::ProxyArgs;

/// The forward proxy, if there is one. Credentials are never printed.
#[derive(Clone, Default)]
pub struct Proxy {
    matcher: Option<Arc<Matcher>>,
    /// For the log.
    shown: String,
    ca: Option<PathBuf>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.shown.is_empty() {
            "none"
        } else {
            &self.shown
        })
    }
}

/// A connection through a proxy.
#[derive(Clone, derive_more::Debug)]
#[debug("{host}:{port}")]
pub(crate) struct Route {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the agent connects to the proxy with TLS.
    pub(crate) tls: bool,
    /// The value of `Proxy-Authorization`.
    pub(crate) credentials: Option<HeaderValue>,
    /// File with the trusted certificates for the proxy.
    pub(crate) ca: Option<PathBuf>,
}

impl Proxy {
    /// Reads the settings; its errors contain no credentials.
    pub(super) fn new(args: &ProxyArgs) -> Result<Self, &'static str> {
        let url = args.https_proxy.0.trim();
        if url.is_empty() {
            return Ok(Self::default());
        }
        // As Go: without a scheme it is http.
        let full = if url.contains("://") {
            url.to_owned()
        } else {
            format!("http://{url}")
        };
        let uri: Uri = full.parse().map_err(|_invalid| "it is not a URL")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("only http:// and https:// proxies are supported");
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or("it has no host")?;
        let ca = args.proxy_ca_path.clone();
        let except = without_brackets(&args.no_proxy);
        let matcher = Matcher::builder().https(full).no(except);
        Ok(Self {
            shown: format!("{}://{host}", uri.scheme_str().unwrap_or_default()),
            matcher: Some(Arc::new(matcher.build())),
            ca: ca.filter(|path| !path.as_os_str().is_empty()),
        })
    }

    /// The proxy for this address; none: the agent connects directly.
    pub(crate) fn route(&self, host: &str, port: u16) -> Option<Route> {
        let is_here = |ip: IpAddr| ip.to_canonical().is_loopback();
        // As Go: connections to this machine never use a proxy.
        if host == "localhost" || host.parse().is_ok_and(is_here) {
            return None;
        }
        let uri: Uri = format!("https://{}", authority(host, port)).parse().ok()?;
        let found = self.matcher.as_ref()?.intercept(&uri)?;
        let proxy = found.uri();
        let tls = proxy.scheme_str() == Some("https");
        Some(Route {
            host: proxy.host()?.trim_matches(['[', ']']).to_owned(),
            port: proxy.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            credentials: found.basic_auth().cloned().map(|mut value| {
                value.set_sensitive(true);
                value
            }),
            ca: self.ca.clone(),
        })
    }
}

/// The entries of `NO_PROXY`; an IPv6 address may have the brackets that it has in URLs.
fn without_brackets(except: &str) -> String {
    let entries = except.split(',').map(|entry| {
        let entry = entry.trim();
        bracketed(entry).unwrap_or(entry)
    });
    entries.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(https: &str, no: &str) -> Result<Proxy, &'static str> {
        Proxy::new(&ProxyArgs {
            https_proxy: https.into(),
            no_proxy: no.to_owned(),
            proxy_ca_path: None,
        })
    }

    fn goes_through(no: &str, host: &str) -> bool {
        proxy("http://proxy:3128", no)
            .unwrap()
            .route(host, 443)
            .is_some()
    }

    #[test]
    fn without_a_proxy_everything_is_reached_directly() {
        assert!(proxy("", "").unwrap().route("hub.example", 443).is_none());
    }

    #[test]
    fn names_networks_and_this_machine_are_left_out_as_go_does() {
        for (no, host, through) in [
            ("", "hub.example", true),
            ("hub.example", "hub.example", false),
            ("example", "hub.example", false),
            (".example", "hub.example", false),
            ("ub.example", "hub.example", true),
            ("other, hub.example ", "hub.example", false),
            ("10.0.0.0/8", "10.1.2.3", false),
            ("10.0.0.0/8", "11.1.2.3", true),
            ("10.1.2.3", "10.1.2.3", false),
            ("2001:db8::/32", "2001:db8:1::2", false),
            ("2001:db8::/32", "2001:db9::2", true),
            ("10.0.0.0/8,2001:db8::/32", "2001:db8::2", false),
            ("10.0.0.0/8", "2001:db8::2", true),
            ("2001:DB8::2", "2001:db8::2", false),
            ("[2001:db8::2]", "2001:db8::2", false),
            (" [2001:db8::2] ,.svc", "2001:db8::2", false),
            ("[2001:db8::2]", "2001:db8::3", true),
            ("*", "hub.example", false),
            ("", "localhost", false),
            ("", "127.0.0.1", false),
            ("", "::1", false),
            ("", "::ffff:127.0.0.1", false),
        ] {
            assert_eq!(goes_through(no, host), through, "NO_PROXY={no} {host}");
        }
    }

    #[test]
    fn user_and_password_go_to_the_proxy_and_nowhere_else() {
        let proxy = proxy("http://me:p%40ss@proxy.example:3128", "").unwrap();
        let route = proxy.route("hub.example", 443).unwrap();
        assert_eq!(
            (route.host.as_str(), route.port, route.tls),
            ("proxy.example", 3128, false)
        );
        assert_eq!(route.credentials.as_ref().unwrap(), "Basic bWU6cEBzcw==");
        let printed = format!("{proxy:?} {route:?}");
        assert!(!printed.contains("ss"), "{printed}");
    }

    #[test]
    fn proxy_url_may_omit_the_scheme_or_use_tls() {
        let route = |url| proxy(url, "").unwrap().route("hub.example", 443).unwrap();
        assert_eq!(
            (route("proxy:3128").port, route("proxy:3128").tls),
            (3128, false)
        );
        assert_eq!(
            (route("https://proxy").port, route("https://proxy").tls),
            (443, true)
        );
        let six = route("http://[2001:db8::3128]:3128");
        assert_eq!((six.host.as_str(), six.port), ("2001:db8::3128", 3128));
        assert!(proxy("socks5://proxy:1080", "").is_err());
        assert!(proxy("http://", "").is_err());
    }
}
