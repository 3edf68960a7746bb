//! Settings of the Argo CDs that the add-on installs, from one place for many clusters. Pure.

use std::collections::BTreeMap;

use ocm::api::addon::AddOnDeploymentConfigSpec;
use serde_json::Value;

use super::{Error, parts, variable};

mod keys;
mod values;

/// The number of characters of a key in a message.
const SHOWN: usize = 64;

/// The largest number of repo servers on one cluster.
const MOST_REPO_SERVERS: u8 = 10;

/// Settings of an Argo CD that we install; another Argo CD of the cluster does not get them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Keys of `argocd-cm`; none leaves all of them to the admins of the cluster.
    pub cm: Option<BTreeMap<String, String>>,
    /// Parameters of the programs.
    pub parameters: BTreeMap<String, String>,
    /// The number of repo servers; none keeps that of the manifest.
    pub repo_servers: Option<u8>,
}

impl Tuning {
    /// The variables of a program's container, with their values.
    ///
    /// As values, not as references to the `ConfigMap`: so a change restarts the Pods, and a Pod cannot start with earlier
    /// values if the `ConfigMap` is in another work, which is applied later.
    pub(in crate::addon) fn environment(&self, program: &str) -> Vec<(&'static str, &str)> {
        let programs = keys::PROGRAMS.iter();
        let read = programs.filter(|(name, _)| *name == program);
        let read = read.flat_map(|(_, read)| read.iter());
        let value = |key: &str| {
            let parameter = self.parameters.get(key);
            parameter.or_else(|| self.cm.as_ref()?.get(key))
        };
        read.filter_map(|&(key, variable)| Some((variable, value(key)?.as_str())))
            .collect()
    }
}

/// Reads the variables.
pub(super) fn tuning(config: &AddOnDeploymentConfigSpec) -> Result<Tuning, Error> {
    let cm = parts::variable("ARGOCD_CM", config)?;
    let cm = cm.map(|text| map("ARGOCD_CM", &text, of_cm)).transpose()?;
    let parameters = parts::variable("ARGOCD_CMD_PARAMS", config)?;
    let parameters = parameters
        .map(|text| map("ARGOCD_CMD_PARAMS", &text, parameter))
        .transpose()?;
    let number = |value: &str| {
        let number = value.parse::<u8>().ok();
        number.filter(|it| (1..=MOST_REPO_SERVERS).contains(it))
    };
    let wanted = "a whole number from 1 to 10";
    Ok(Tuning {
        cm,
        parameters: parameters.unwrap_or_default(),
        repo_servers: variable("ARGOCD_REPO_SERVER_REPLICAS", config, wanted, number)?,
    })
}

/// A check of one entry; the error continues a sentence about its key.
type Check = fn(&str, &str) -> Result<(), &'static str>;

/// Parses the `data` of a `ConfigMap`.
fn map(name: &'static str, text: &str, check: Check) -> Result<BTreeMap<String, String>, Error> {
    let wrong = |problem: String| Error::Settings { name, problem };
    // A flat map needs no aliases, which could make a short text long.
    let options = serde_saphyr::options! {
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 0 }
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |it| it.line().max(1));
        wrong(format!(
            "it is not valid YAML, has an alias, or names a key twice, at line {line}"
        ))
    })?;
    let Value::Object(entries) = value else {
        return Err(wrong("it is not a YAML map".to_owned()));
    };
    let entry = |(key, value): (String, Value)| {
        let problem = match scalar(&value) {
            None => "has a value that is no string, whole number or boolean",
            Some(value) => match check(&key, &value) {
                Ok(()) => return Ok((key, value)),
                Err(problem) => problem,
            },
        };
        let shown: String = key.chars().take(SHOWN).collect();
        Err(wrong(format!("the key {shown:?} {problem}")))
    };
    entries.into_iter().map(entry).collect()
}

/// The text of a value. Numbers with a fraction are refused: 1.10 would become 1.1.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Value::Number(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn of_cm(key: &str, value: &str) -> Result<(), &'static str> {
    if !keys::is_in_cm(key) {
        return Err(UNKNOWN);
    }
    if keys::is_read_at_start(key) {
        line(value)?;
    }
    let is_text = |it: char| it == '\n' || it == '\t' || !it.is_control();
    if !value.chars().all(is_text) {
        return Err("has a value with control characters");
    }
    values::check(key, value)
}

fn parameter(key: &str, value: &str) -> Result<(), &'static str> {
    if !keys::is_parameter(key) {
        return Err(UNKNOWN);
    }
    line(value)?;
    values::check(key, value)
}

const UNKNOWN: &str = "cannot be set for the fleet; docs/configuration.md lists the keys";

/// The value of a variable of a container, in which the kubelet would replace `$(NAME)`.
fn line(value: &str) -> Result<(), &'static str> {
    let is_plain = |it: char| matches!(it, ' '..='~') && it != '$';
    let is_line = value.chars().all(is_plain);
    is_line
        .then_some(())
        .ok_or("has a value that is not one line of printable ASCII without $")
}

#[cfg(test)]
mod tests;
