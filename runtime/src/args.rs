//! Flag groups to flatten, and parsers that read values as the Go implementation does.
//!
//! Flags here have no environment variables of their own, because the two programs name them
//! differently; a program adds its names with [`with_env`].

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, ValueEnum};

/// How to log.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Log level: error, warn, info, debug or trace; `module=level` pairs may follow after commas.
    #[arg(long, default_value = "info")]
    pub log_level: String,
    /// Form of the log lines.
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text each.
    Text,
    /// One JSON object each.
    Json,
}

/// Where health and metrics are served.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// Address that the health and metrics endpoints listen on; `::` for all, IPv4 and IPv6.
    #[arg(long, default_value = "::")]
    pub admin_listen_address: IpAddr,
    /// Port of /livez, /readyz and /healthz.
    #[arg(long, value_parser = port, default_value = "8003")]
    pub healthz_port: u16,
    /// Port of /metrics; 0 turns it off.
    #[arg(long, value_parser = port, default_value = "8000")]
    pub metrics_port: u16,
}

impl AdminArgs {
    /// The address of the health endpoints.
    pub const fn health(&self) -> SocketAddr {
        SocketAddr::new(self.admin_listen_address, self.healthz_port)
    }

    /// The address of the metrics endpoint, unless it is turned off or the same as the health's.
    pub fn metrics(&self) -> Option<SocketAddr> {
        (self.metrics_port != 0 && self.metrics_port != self.healthz_port)
            .then(|| SocketAddr::new(self.admin_listen_address, self.metrics_port))
    }
}

/// How to reach the Kubernetes API.
#[derive(Debug, Clone, Default, Args)]
pub struct KubeArgs {
    /// Kubeconfig file; without it `KUBECONFIG`, then the pod's own `ServiceAccount`.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long)]
    pub kubecontext: Option<String>,
    /// Requests a second to the Kubernetes API, in the long run; 0 bounds nothing.
    #[arg(long, default_value_t = 0)]
    pub kube_api_qps: u32,
    /// Requests to the Kubernetes API that may come at once, if their number a second is bounded.
    #[arg(long, default_value_t = 300)]
    pub kube_api_burst: u32,
}

/// Where traces go.
#[derive(Debug, Clone, Args)]
pub struct OtlpArgs {
    /// host:port of a collector that takes traces by OTLP over gRPC; without it there are none.
    #[arg(long, default_value = "")]
    pub otlp_address: String,
    /// Talk to the collector without TLS.
    #[arg(long, value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub otlp_insecure: bool,
    /// File with the certificates to trust for the collector; without it those of the machine.
    #[arg(long)]
    pub otlp_ca_path: Option<PathBuf>,
    /// Which part of the traces that begin here is kept: 1 is all, 0.01 one of a hundred.
    #[arg(long, default_value = "1")]
    pub otlp_sample_ratio: f64,
}

/// Gives flags their environment variables: pairs of argument id (`log_level`) and variable.
///
/// An id that the command does not have is a mistake in the list; clap panics at start-up then,
/// which the test of the program's arguments shows.
#[must_use]
pub fn with_env(command: Command, names: &[(&'static str, &'static str)]) -> Command {
    names.iter().fold(command, |command, (id, variable)| {
        command.mut_arg(id, |arg| arg.env(*variable))
    })
}

/// Reads a bool as Go's `ParseBool` does.
///
/// # Errors
/// It is none of Go's words for a bool.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

/// Reads a port, in decimal or with a Go base prefix (`0x`, `0o`, `0b`).
///
/// # Errors
/// It is not a number from 0 to 65535.
pub fn port(text: &str) -> Result<u16, String> {
    let number = match text.split_at_checked(2) {
        Some(("0x" | "0X", digits)) => u16::from_str_radix(digits, 16),
        Some(("0o" | "0O", digits)) => u16::from_str_radix(digits, 8),
        Some(("0b" | "0B", digits)) => u16::from_str_radix(digits, 2),
        _ => text.parse(),
    };
    number.map_err(|error| format!("{text:?} is not a port: {error}"))
}

/// Reads a duration in Go's text form: `0`, `300ms`, `1m30s`, `1.5h`.
///
/// # Errors
/// It is not such a text, or it is negative.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 30s or 1m30s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let number: f64 = number
            .parse()
            .map_err(|_error: std::num::ParseFloatError| wrong())?;
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let part = Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let good = [
            ("0", 0),
            ("0s", 0),
            ("300ms", 300),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("2h45m0.5s", 9_900_500),
        ];
        for (text, milliseconds) in good {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for bad in [
            "",
            "+",
            "10",
            "s",
            "1x",
            "-1s",
            "1..2s",
            "1e300h",
            "99999999999999999999h",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn booleans_are_the_words_of_go_and_no_others() {
        assert_eq!(boolean("T"), Ok(true));
        assert_eq!(boolean("0"), Ok(false));
        assert!(boolean("yes").is_err());
    }

    #[test]
    fn ports_may_have_a_base_prefix() {
        assert_eq!(port("0x1F90"), Ok(8080));
        assert_eq!(port("443"), Ok(443));
        for bad in ["65536", "", "0x", "-1", "é"] {
            assert!(port(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_metrics_port_of_zero_turns_metrics_off() {
        let mut args = AdminArgs {
            admin_listen_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            healthz_port: 8002,
            metrics_port: 0,
        };
        assert_eq!(args.metrics(), None);
        args.metrics_port = 8181;
        assert_eq!(args.metrics(), Some("127.0.0.1:8181".parse().unwrap()));
    }
}
