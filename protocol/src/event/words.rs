//! The words of the wire for targets and verbs: their serde names.

use std::fmt;

use serde::de::{
    Deserialize, IntoDeserializer as _,
    value::{Error, StrDeserializer},
};
use serde::ser::Serialize as _;

use super::{Target, Verb};
use crate::object::Kind;

/// The prefix of every `type` but the HTTP verbs.
const PREFIX: &str = "io.argoproj.argocd-agent.event.";

impl Target {
    pub(super) fn parse(word: &str) -> Option<Self> {
        let is_lower = !word.bytes().any(|byte| byte.is_ascii_uppercase());
        Kind::ALL
            .into_iter()
            .find(|kind| is_lower && kind.as_str().eq_ignore_ascii_case(word))
            .map(Self::Object)
            .or_else(|| named(word))
    }
}

/// The word in `dataschema`; for an object the kind in lower case.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Object(kind) = self {
            return f.write_str(&kind.as_str().to_ascii_lowercase());
        }
        self.serialize(f)
    }
}

impl Verb {
    /// The whole `type` attribute.
    pub(crate) fn to_type(self) -> String {
        if let Self::Http(_) = self {
            self.to_string()
        } else {
            format!("{PREFIX}{self}")
        }
    }

    pub(crate) fn parse(kind: &str) -> Option<Self> {
        match kind.strip_prefix(PREFIX) {
            Some(word) => named(word),
            None => named(kind).map(Self::Http),
        }
    }
}

/// The word after the prefix, or the HTTP verb.
impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Http(method) = self {
            return method.serialize(f);
        }
        self.serialize(f)
    }
}

/// The value with this serde name.
fn named<'de, T: Deserialize<'de>>(word: &'de str) -> Option<T> {
    let word: StrDeserializer<'de, Error> = word.into_deserializer();
    T::deserialize(word).ok()
}
