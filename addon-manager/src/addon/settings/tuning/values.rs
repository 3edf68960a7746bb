//! The forms of the values of Argo CD's settings, as its programs parse them. Pure.
//!
//! A program replaces a value that it cannot parse by its default, with a warning in its log at most, or does not start.

use runtime::args;
use serde::de::IgnoredAny;

/// A check, the end of a message about the key, and the keys with values of this form.
type Form = (fn(&str) -> bool, &'static str, &'static [&'static str]);

/// All other keys have free text.
const FORMS: [Form; 12] = [
    (
        is_duration,
        "needs a duration with a unit, such as 90s, 5m or 1h30m",
        &DURATIONS,
    ),
    (is_whole, "needs a whole number, 0 or more", &WHOLE),
    (is_positive, "needs a whole number, 1 or more", &POSITIVE),
    (
        is_number,
        "needs a number, 0 or more",
        &["controller.k8s.client.qps"],
    ),
    (is_truth, "needs true or false", &TRUTHS),
    (
        |value| args::boolean(value).is_ok(),
        "needs true or false",
        &["resource.ignoreResourceUpdatesEnabled"],
    ),
    (
        is_list,
        "needs a YAML list",
        &["resource.exclusions", "resource.inclusions"],
    ),
    (is_size, "needs a size, such as 100M or 1Gi", &SIZES),
    (
        is_level,
        "needs a log level: debug, info, warn or error",
        &["controller.log.level", "reposerver.log.level"],
    ),
    (
        is_log_format,
        "needs a log format: json or text",
        &["controller.log.format", "reposerver.log.format"],
    ),
    (
        |value| ["annotation", "annotation+label", "label"].contains(&value),
        "needs a tracking method: annotation, annotation+label or label",
        &["application.resourceTrackingMethod"],
    ),
    (
        |value| ["normal", "strict"].contains(&value),
        "needs normal or strict",
        &["resource.respectRBAC"],
    ),
];

const DURATIONS: [&str; 17] = [
    "controller.app.state.cache.expiration",
    "controller.cluster.cache.events.processing.interval",
    "controller.default.cache.expiration",
    "controller.ignore.normalizer.jq.timeout",
    "controller.k8s.tcp.idle.timeout",
    "controller.k8s.tcp.keepalive",
    "controller.k8s.tcp.timeout",
    "controller.k8s.tls.handshake.timeout",
    "controller.metrics.cache.expiration",
    // In spite of its name, and of the number in Argo CD's own example, which has no effect.
    "controller.repo.error.grace.period.seconds",
    "reposerver.default.cache.expiration",
    "reposerver.git.request.timeout",
    "reposerver.repo.cache.expiration",
    "reposerver.revision.cache.lock.timeout",
    "timeout.hard.reconciliation",
    "timeout.reconciliation",
    "timeout.reconciliation.jitter",
];
const WHOLE: [&str; 14] = [
    "controller.k8s.client.burst",
    "controller.k8s.client.max.idle.connections",
    "controller.k8sclient.retry.max",
    "controller.kubectl.parallelism.limit",
    "controller.repo.server.timeout.seconds",
    "controller.self.heal.backoff.cap.seconds",
    "controller.self.heal.backoff.cooldown.seconds",
    "controller.self.heal.backoff.factor",
    "controller.self.heal.backoff.timeout.seconds",
    "controller.self.heal.timeout.seconds",
    "controller.sync.timeout.seconds",
    "controller.sync.wave.delay.seconds",
    "reposerver.git.lsremote.parallelism.limit",
    "reposerver.parallelism.limit",
];
/// With 0 the program would do nothing, or use its default.
const POSITIVE: [&str; 4] = [
    "controller.k8sclient.retry.base.backoff",
    "controller.operation.processors",
    "controller.status.processors",
    "reposerver.grpc.max.size",
];
const TRUTHS: [&str; 9] = [
    "controller.cluster.cache.batch.events.processing",
    "controller.diff.server.side",
    "controller.resource.health.persist",
    "reposerver.allow.oob.symlinks",
    "reposerver.disable.helm.manifest.max.extracted.size",
    "reposerver.disable.oci.manifest.max.extracted.size",
    "reposerver.enable.builtin.git.config",
    "reposerver.enable.git.submodule",
    "reposerver.include.hidden.directories",
];
const SIZES: [&str; 5] = [
    "reposerver.helm.manifest.max.extracted.size",
    "reposerver.max.combined.directory.manifests.size",
    "reposerver.oci.manifest.max.extracted.size",
    "reposerver.streamed.manifest.max.extracted.size",
    "reposerver.streamed.manifest.max.tar.size",
];

/// All of Argo CD's library, in any case; the message names those of its documentation.
const LEVELS: [&str; 8] = [
    "trace", "debug", "info", "warn", "warning", "error", "fatal", "panic",
];

/// Checks the value of a key; the error continues a sentence about the key. An empty value is the program's default.
pub(super) fn check(key: &str, value: &str) -> Result<(), &'static str> {
    let mut forms = FORMS.iter();
    let wrong = forms.find(|(is_valid, _, keys)| keys.contains(&key) && !is_valid(value));
    match wrong {
        Some((_, wanted, _)) if !value.is_empty() => Err(*wanted),
        _ => Ok(()),
    }
}

/// As Go writes durations, or days.
fn is_duration(value: &str) -> bool {
    let days = value.strip_suffix('d');
    let is_days = days.is_some_and(|it| it.parse::<u16>().is_ok());
    is_days || args::duration(value).is_ok()
}

fn is_whole(value: &str) -> bool {
    value.parse::<i32>().is_ok_and(|it| it >= 0)
}

fn is_positive(value: &str) -> bool {
    value.parse::<i32>().is_ok_and(|it| it > 0)
}

fn is_number(value: &str) -> bool {
    let number = value.parse::<f32>();
    number.is_ok_and(|it| it.is_finite() && it >= 0.0)
}

fn is_truth(value: &str) -> bool {
    is_one_of(&["true", "false"], value)
}

/// As Kubernetes writes quantities.
fn is_size(value: &str) -> bool {
    let value = value.strip_prefix('+').unwrap_or(value);
    let is_letter = |it: char| !it.is_ascii_digit() && it != '.';
    let (number, unit) = value.split_at(value.find(is_letter).unwrap_or(value.len()));
    let is_unit = match unit.strip_suffix('i') {
        Some(binary) => binary.len() == 1 && "KMGTPE".contains(binary),
        None => unit.is_empty() || unit.len() == 1 && "kMGTPE".contains(unit),
    };
    let exponent = unit.strip_prefix(['e', 'E']);
    let has_exponent = exponent.is_some_and(|it| it.parse::<i8>().is_ok());
    (is_unit || has_exponent) && number.parse::<f64>().is_ok()
}

fn is_level(value: &str) -> bool {
    is_one_of(&LEVELS, value)
}

fn is_log_format(value: &str) -> bool {
    is_one_of(&["json", "text"], value)
}

/// As Argo CD reads YAML: the first document, in which a later key wins and null is an empty list. Builds no tree, since
/// aliases can make a short text long.
fn is_list(value: &str) -> bool {
    let options = serde_saphyr::options! {
        with_snippet: false,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins
    };
    let mut reader = value.as_bytes();
    let mut documents = serde_saphyr::read_with_options::<_, Vec<IgnoredAny>>(&mut reader, options);
    documents.next().is_none_or(|first| first.is_ok())
}

fn is_one_of(words: &[&str], value: &str) -> bool {
    words.iter().any(|it| it.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::keys;
    use super::*;

    /// A key, values that its program reads, and values that it would replace by the default.
    const CASES: [(&str, &[&str], &[&str]); 13] = [
        (
            "timeout.reconciliation",
            &["", "0", "0s", "180s", "1h30m", "1.5h", "100ms", "2d"],
            &[
                "180", "-1s", "3 m", "5min", "d", "1d2h", "s", "ten", "+", " 1s",
            ],
        ),
        (
            "controller.repo.error.grace.period.seconds",
            &["180s"],
            &["180"],
        ),
        (
            "controller.self.heal.timeout.seconds",
            &["", "0", "5", "2147483647"],
            &["-1", "5s", "1.5", "2147483648", "1_000", "0x10", " 5"],
        ),
        (
            "controller.status.processors",
            &["1", "50"],
            &["0", "-1", "50.0", "many"],
        ),
        (
            "controller.k8s.client.qps",
            &["0", "50", "0.5"],
            &["-1", "NaN", "inf", "1/s"],
        ),
        (
            "controller.diff.server.side",
            &["", "true", "False"],
            &["1", "yes", "on", "t", "true "],
        ),
        (
            "resource.ignoreResourceUpdatesEnabled",
            &["", "true", "False", "1", "t"],
            &["2", "yes", "tRUE"],
        ),
        (
            "reposerver.streamed.manifest.max.tar.size",
            &["0", "100M", "1.5Gi", "1048576", "1e6", "+2E", "1E+3"],
            &[
                "100MB", "M", "-1M", "1.2.3M", "100 M", "1KI", "1e", "1e1M", "ä",
            ],
        ),
        (
            "controller.log.level",
            &["", "debug", "WARN", "trace"],
            &["verbose", "3"],
        ),
        ("reposerver.log.format", &["json", "Text"], &["logfmt"]),
        (
            "application.resourceTrackingMethod",
            &["", "annotation+label"],
            &["annotations", "Label", "label+annotation"],
        ),
        (
            "resource.exclusions",
            &[
                "",
                "[]",
                "# none",
                "null",
                "- &a {kinds: [Endpoints]}\n- *a\n",
                "- {kinds: [a], kinds: [b]}\n---\nmore: documents\n",
                "- apiGroups: [\"\"]\n  kinds: [Endpoints]\n  clusters: [\"*\"]\n",
            ],
            &["Endpoints", "kinds: [Endpoints]", "- [", "- *a"],
        ),
        (
            "resource.respectRBAC",
            &["", "strict", "normal"],
            &["true", "Strict"],
        ),
    ];

    #[test]
    fn values_that_argo_cd_cannot_parse_are_refused() {
        for (key, valid, invalid) in CASES {
            for value in valid {
                assert_eq!(check(key, value), Ok(()), "{key}: {value:?}");
            }
            for value in invalid {
                let problem = check(key, value).unwrap_err();
                assert!(problem.starts_with("needs "), "{key}: {value:?}: {problem}");
            }
        }
    }

    #[test]
    fn keys_with_free_text_take_any_value() {
        for key in ["globalProjects", "reposerver.helm.user.agent", "other"] {
            for value in ["", "180", "yes", "a\nb"] {
                assert_eq!(check(key, value), Ok(()), "{key}: {value:?}");
            }
        }
    }

    #[test]
    fn each_parameter_has_one_form_or_free_text() {
        let typed = FORMS.iter().flat_map(|(_, _, keys)| keys.iter().copied());
        let typed: Vec<_> = typed.collect();
        let unique: BTreeSet<_> = typed.iter().copied().collect();
        assert_eq!(typed.len(), unique.len());
        for key in &unique {
            assert!(keys::is_in_cm(key) || keys::is_parameter(key), "{key}");
        }
        let read = keys::PROGRAMS.iter().flat_map(|(_, read)| read.iter());
        let free: BTreeSet<_> = read
            .map(|(key, _)| *key)
            .filter(|key| !unique.contains(key))
            .collect();
        let expected = [
            "controller.metrics.application.conditions",
            "controller.metrics.application.labels",
            "controller.metrics.cluster.labels",
            "reposerver.helm.user.agent",
            "reposerver.oci.layer.media.types",
        ];
        assert_eq!(free, BTreeSet::from(expected));
    }
}
