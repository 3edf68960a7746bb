//! Checked settings of traces.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use http::uri::Authority;
use opentelemetry_otlp::ExporterBuildError;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::args::OtlpArgs;

/// Timeouts of a request to the collector and of a connect.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The collector and the sampling ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    address: Authority,
    trust: Trust,
    ratio: f64,
}

/// How to verify the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trust {
    /// Not at all: without TLS.
    Anybody,
    /// With the trusted certificates of the machine.
    System,
    /// With the certificates in this file.
    File(PathBuf),
}

/// Why settings are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The address is invalid.
    #[error("--otlp-address {0:?} is not host:port")]
    Address(String),
    /// The ratio is invalid.
    #[error("--otlp-sample-ratio {0} is not between 0 and 1")]
    Ratio(String),
    /// Two settings exclude each other.
    #[error("--otlp-ca-path has no effect with --otlp-insecure")]
    NothingToTrust,
}

/// Why traces cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The file with the certificates is unreadable.
    #[error("read --otlp-ca-path {path:?}")]
    ReadCa {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The certificates are missing or invalid.
    #[error("trust the trace collector; an image without certificates needs --otlp-ca-path")]
    Trust(#[source] tonic::transport::Error),
    /// The exporter is invalid.
    #[error("set up the export of traces")]
    Exporter(#[from] ExporterBuildError),
}

impl Settings {
    /// Checks the flags; none without a collector.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn checked(args: &OtlpArgs) -> Result<Option<Self>, Invalid> {
        if args.otlp_address.is_empty() {
            return Ok(None);
        }
        let ratio = args.otlp_sample_ratio;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(Invalid::Ratio(ratio.to_string()));
        }
        let ca = args.otlp_ca_path.as_ref();
        let ca = ca.filter(|path| !path.as_os_str().is_empty());
        let trust = match (args.otlp_insecure, ca) {
            (true, Some(_)) => return Err(Invalid::NothingToTrust),
            (true, None) => Trust::Anybody,
            (false, Some(path)) => Trust::File(path.clone()),
            (false, None) => Trust::System,
        };
        Ok(Some(Self {
            address: address_of(&args.otlp_address)?,
            trust,
            ratio,
        }))
    }

    /// The address of the collector.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// The sampling ratio of traces that begin here.
    pub(super) const fn ratio(&self) -> f64 {
        self.ratio
    }

    /// A channel that connects on demand and reconnects.
    pub(super) fn channel(&self) -> Result<Channel, Error> {
        let tls = ClientTlsConfig::new();
        let (scheme, tls) = match &self.trust {
            Trust::Anybody => ("http", None),
            Trust::System => ("https", Some(tls.with_native_roots())),
            Trust::File(path) => ("https", Some(tls.ca_certificate(certificates(path)?))),
        };
        let address = self.address();
        let wrong = |_source| Invalid::Address(address.to_owned());
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(wrong)?
            .connect_timeout(RESPONSE_TIMEOUT)
            .timeout(RESPONSE_TIMEOUT);
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls).map_err(Error::Trust)?;
        }
        Ok(endpoint.connect_lazy())
    }
}

/// Parses a host and a port, as Go does.
fn address_of(text: &str) -> Result<Authority, Invalid> {
    let address = Authority::from_str(text).ok();
    let is_plain = |it: &Authority| {
        !it.host().is_empty() && it.port_u16().is_some_and(|port| port != 0) && !text.contains('@')
    };
    address
        .filter(is_plain)
        .ok_or_else(|| Invalid::Address(text.chars().take(256).collect()))
}

fn certificates(path: &Path) -> Result<Certificate, Error> {
    let wrong = |source| Error::ReadCa {
        path: path.to_owned(),
        source,
    };
    let pem = std::fs::read(path).map_err(wrong)?;
    if rustls_pki_types::pem::PemObject::pem_slice_iter(&pem)
        .any(|found: Result<rustls_pki_types::CertificateDer<'_>, _>| found.is_ok())
    {
        return Ok(Certificate::from_pem(pem));
    }
    let what = "it has no PEM certificate";
    Err(wrong(io::Error::new(io::ErrorKind::InvalidData, what)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(address: &str) -> OtlpArgs {
        OtlpArgs {
            otlp_address: address.to_owned(),
            otlp_insecure: false,
            otlp_ca_path: None,
            otlp_sample_ratio: 1.0,
        }
    }

    #[test]
    fn traces_are_off_without_an_address() {
        let odd = OtlpArgs {
            otlp_insecure: true,
            otlp_sample_ratio: 7.0,
            ..args("")
        };
        assert_eq!(Settings::checked(&odd), Ok(None));
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in [
            "localhost:4317",
            "10.0.0.1:1",
            "[2001:db8::1]:4317",
            "otel.monitoring.svc:4317",
        ] {
            let settings = Settings::checked(&args(good)).unwrap().unwrap();
            assert_eq!(settings.address(), good);
        }
        for bad in [
            "localhost",
            ":4317",
            "host:0",
            "host:70000",
            "http://host:4317",
            "me@host:1",
            "a b:1",
            "h:1/x",
        ] {
            let refused = Settings::checked(&args(bad)).unwrap_err();
            assert_eq!(refused, Invalid::Address(bad.to_owned()));
        }
    }

    #[test]
    fn settings_that_contradict_are_refused_by_name() {
        let both = OtlpArgs {
            otlp_insecure: true,
            otlp_ca_path: Some("ca.crt".into()),
            ..args("a:1")
        };
        assert_eq!(Settings::checked(&both), Err(Invalid::NothingToTrust));
        for ratio in [-0.1, 1.1, f64::NAN] {
            let odd = OtlpArgs {
                otlp_sample_ratio: ratio,
                ..args("a:1")
            };
            assert_eq!(
                Settings::checked(&odd),
                Err(Invalid::Ratio(ratio.to_string()))
            );
        }
    }

    #[tokio::test]
    async fn collector_ca_file_needs_a_certificate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.crt");
        let with = || OtlpArgs {
            otlp_ca_path: Some(path.clone()),
            ..args("a:1")
        };
        let settings = Settings::checked(&with()).unwrap().unwrap();
        assert!(matches!(settings.channel(), Err(Error::ReadCa { .. })));
        std::fs::write(&path, "nothing").unwrap();
        assert!(matches!(settings.channel(), Err(Error::ReadCa { .. })));
        let key = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
        std::fs::write(&path, key.cert.pem()).unwrap();
        crate::install_crypto_provider();
        settings.channel().unwrap();
    }
}
