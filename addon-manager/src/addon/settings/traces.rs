//! The export of agents' traces.

use ocm::api::addon::AddOnDeploymentConfigSpec;
use runtime::{args::OtlpArgs, trace};

use super::{super::manifests::Traces, Error, TRUTH, parsed, variable};

/// The length of the quoted part of a value: certificates are long.
const QUOTED: usize = 64;

/// None if no collector is configured.
pub(super) fn traces(config: &AddOnDeploymentConfigSpec) -> Result<Option<Traces>, Error> {
    let given = |value: Option<&str>| value.filter(|it| !it.is_empty()).map(str::to_owned);
    let Some(address) = given(config.variable("OTLP_ADDRESS")) else {
        return Ok(None);
    };
    let insecure = variable("OTLP_INSECURE", config, TRUTH, parsed)?.unwrap_or(false);
    let ca = given(config.variable("OTLP_CA"));
    let ratio = given(config.variable("OTLP_SAMPLE_RATIO"));
    let is_pem = ca
        .as_ref()
        .map(|it| it.contains("-----BEGIN CERTIFICATE-----"));
    let pem = ca.as_deref().unwrap_or_default();
    match (insecure, is_pem) {
        (true, None) | (false, Some(true)) => {}
        (true, Some(_)) => {
            return Err(wrong("OTLP_CA", pem, "empty where OTLP_INSECURE is true"));
        }
        (false, None | Some(false)) => return Err(wrong("OTLP_CA", pem, CERTIFICATES)),
    }
    let kept = ratio.as_deref().unwrap_or("1");
    let part = "a number from 0 to 1";
    let otlp_sample_ratio = kept
        .parse()
        .map_err(|_error| wrong("OTLP_SAMPLE_RATIO", kept, part))?;
    let as_flags = OtlpArgs {
        otlp_address: address.clone(),
        otlp_insecure: insecure,
        otlp_ca_path: None,
        otlp_sample_ratio,
    };
    // The checks of the agent itself.
    match trace::Settings::checked(&as_flags) {
        Ok(_) => Ok(Some(Traces { address, ca, ratio })),
        Err(trace::Invalid::Ratio(_)) => Err(wrong("OTLP_SAMPLE_RATIO", kept, part)),
        Err(trace::Invalid::Address(_) | trace::Invalid::NothingToTrust) => {
            Err(wrong("OTLP_ADDRESS", &address, "host:port"))
        }
    }
}

/// The agent's image has no certificates of its own.
const CERTIFICATES: &str =
    "the certificates in PEM by which the collector is known, unless OTLP_INSECURE is true";

fn wrong(name: &'static str, value: &str, wanted: &'static str) -> Error {
    Error::Variable {
        name,
        value: value.chars().take(QUOTED).collect(),
        wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    fn of(variables: &[(&str, &str)]) -> Result<Option<Traces>, Error> {
        traces(&config(variables))
    }

    #[test]
    fn traces_go_where_a_collector_is_named_and_it_is_known() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("OTLP_INSECURE", "true")]), Ok(None));
        let address = ("OTLP_ADDRESS", "otel:4317");
        let plain = of(&[address, ("OTLP_INSECURE", "true")]).unwrap().unwrap();
        assert_eq!((plain.address.as_str(), plain.ca), ("otel:4317", None));
        let known = of(&[address, ("OTLP_CA", PEM), ("OTLP_SAMPLE_RATIO", "0.1")]);
        let known = known.unwrap().unwrap();
        assert_eq!(known.ca.as_deref(), Some(PEM));
        assert_eq!(known.ratio.as_deref(), Some("0.1"));
    }

    #[test]
    fn an_invalid_value_is_refused_with_the_variable() {
        let (plain, known) = (("OTLP_INSECURE", "true"), ("OTLP_CA", PEM));
        let address = ("OTLP_ADDRESS", "otel:4317");
        for (variables, name) in [
            (&[address][..], "OTLP_CA"),
            (&[address, ("OTLP_CA", "nothing")], "OTLP_CA"),
            (&[address, plain, known], "OTLP_CA"),
            (&[address, ("OTLP_INSECURE", "yes")], "OTLP_INSECURE"),
            (
                &[("OTLP_ADDRESS", "http://otel:4317"), plain],
                "OTLP_ADDRESS",
            ),
            (
                &[address, plain, ("OTLP_SAMPLE_RATIO", "2")],
                "OTLP_SAMPLE_RATIO",
            ),
            (
                &[address, plain, ("OTLP_SAMPLE_RATIO", "all")],
                "OTLP_SAMPLE_RATIO",
            ),
        ] {
            let message = of(variables).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }
}
