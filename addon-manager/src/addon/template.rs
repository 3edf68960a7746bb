//! Manifests with `${NAME}` in them.
//!
//! The text is parsed before the placeholders are replaced in each string: a value can be any text, and never becomes
//! structure.

use std::collections::BTreeMap;

use serde_json::Value;

/// Why a manifest cannot be used. All are programming errors that tests find.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML.
    #[error("parse manifest {name}")]
    Parse {
        /// The file.
        name: &'static str,
        /// The cause.
        source: Box<serde_saphyr::Error>,
    },
    /// A placeholder without a value.
    #[error("manifest {name} asks for the unknown value {placeholder:?}")]
    Unknown {
        /// The file.
        name: &'static str,
        /// The placeholder.
        placeholder: String,
    },
}

/// A file of `manifests/spoke` in this program, with its name.
macro_rules! embedded {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../manifests/spoke/",
                $name
            )),
        )
    };
}
pub(super) use embedded;

/// One manifest, parsed.
#[derive(Clone, Debug)]
pub struct Template {
    name: &'static str,
    body: Value,
}

impl Template {
    /// Parses one document.
    pub fn parse(name: &'static str, text: &str) -> Result<Self, Error> {
        let body = serde_saphyr::from_str(text).map_err(|source| Error::Parse {
            name,
            source: Box::new(source),
        })?;
        Ok(Self { name, body })
    }

    /// The name of its file.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Replaces every placeholder.
    pub fn fill(&self, values: &BTreeMap<&'static str, String>) -> Result<Value, Error> {
        let mut body = self.body.clone();
        self.fill_in(&mut body, values)?;
        Ok(body)
    }

    fn fill_in(
        &self,
        value: &mut Value,
        values: &BTreeMap<&'static str, String>,
    ) -> Result<(), Error> {
        match value {
            Value::String(text) => *text = self.fill_text(text, values)?,
            Value::Array(items) => {
                for item in items {
                    self.fill_in(item, values)?;
                }
            }
            Value::Object(fields) => {
                for field in fields.values_mut() {
                    self.fill_in(field, values)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    fn fill_text(
        &self,
        text: &str,
        values: &BTreeMap<&'static str, String>,
    ) -> Result<String, Error> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, from)) = rest.split_once("${") {
            let unknown = |placeholder: &str| Error::Unknown {
                name: self.name,
                placeholder: placeholder.to_owned(),
            };
            let (placeholder, after) = from.split_once('}').ok_or_else(|| unknown(from))?;
            filled.push_str(before);
            filled.push_str(
                values
                    .get(placeholder)
                    .ok_or_else(|| unknown(placeholder))?,
            );
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn filled(text: &str, value: &str) -> Result<Value, Error> {
        Template::parse("test", text)?.fill(&[("A", value.to_owned())].into())
    }

    #[test]
    fn placeholders_are_replaced_wherever_a_string_is() {
        let manifest = filled("{a: '${A}', b: ['x-${A}-${A}', 1, true]}", "v").unwrap();
        assert_eq!(manifest, json!({"a": "v", "b": ["x-v-v", 1, true]}));
    }

    #[test]
    fn an_unknown_placeholder_is_an_error_with_its_name() {
        let error = filled("a: ${B}", "v").unwrap_err();
        assert_eq!(
            error.to_string(),
            "manifest test asks for the unknown value \"B\""
        );
    }

    proptest! {
        #[test]
        fn a_value_never_becomes_structure(value in "\\PC{0,40}") {
            prop_assert_eq!(filled("a: ${A}", &value).unwrap(), json!({"a": value}));
        }
    }
}
