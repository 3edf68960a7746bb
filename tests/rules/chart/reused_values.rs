//! The chart with the values of an earlier version, as `helm upgrade --reuse-values` passes them.

use super::*;

/// Sections of `values.yaml` that were added after the first version of the chart.
const LATER: [&str; 10] = [
    "admissionPolicy",
    "autonomous",
    "backup",
    "console",
    "fleet",
    "monitoring",
    "placementGenerator",
    "redisProxy",
    "tracing",
    "ui",
];

#[test]
fn a_missing_section_of_the_values_is_off() {
    let single = LATER.map(|section| format!("{section}=null"));
    let all = single.join(",");
    for set in single.iter().chain([&all]) {
        let output = template(&[set]);
        assert!(output.success, "{set}: {}", output.err);
    }
    let deployment = one(&[&all], "Deployment", "argocd-agent-addon-manager");
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().expect("arguments").iter();
    let args: Vec<_> = args.filter_map(Value::as_str).collect();
    for flag in [
        "--backup-label",
        "--redis-proxy-port",
        "--otlp-address",
        "--ui-api-port",
    ] {
        assert!(!args.iter().any(|it| it.starts_with(flag)), "{args:?}");
    }
    // Go's templates print this for an absent value.
    assert!(
        !deployment.to_string().contains("<no value>"),
        "{deployment}"
    );
}

#[test]
fn configure_without_a_redis_proxy_section_is_refused() {
    let output = template(&["argocd.configure=true", "redisProxy=null", "ui=null"]);
    assert!(!output.success);
    assert!(
        output.err.contains("redisProxy.enabled=true"),
        "{}",
        output.err
    );
}
