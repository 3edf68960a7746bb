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

/// The values of placeholders.
pub type Values = BTreeMap<&'static str, String>;

/// One manifest, parsed.
#[derive(Clone, Debug)]
pub struct Template {
    name: &'static str,
    body: Value,
}

impl Template {
    /// Parses all documents of these files.
    pub fn all(files: &[(&'static str, &str)]) -> Result<Vec<Self>, Error> {
        let documents = files
            .iter()
            .flat_map(|(name, text)| text.split("\n---\n").map(move |it| (*name, it)));
        documents.map(|(name, it)| Self::parse(name, it)).collect()
    }

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
    pub fn fill(&self, values: &Values) -> Result<Value, Error> {
        self.filled(&self.body, values)
    }

    fn filled(&self, value: &Value, values: &Values) -> Result<Value, Error> {
        Ok(match value {
            Value::String(text) => self.fill_text(text, values)?.into(),
            Value::Array(items) => {
                let filled = items.iter().map(|item| self.filled(item, values));
                filled.collect::<Result<_, _>>()?
            }
            Value::Object(fields) => {
                let filled = fields.iter();
                let filled = filled.map(|(key, it)| Ok((key.clone(), self.filled(it, values)?)));
                Value::Object(filled.collect::<Result<_, Error>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        })
    }

    fn fill_text(&self, text: &str, values: &Values) -> Result<String, Error> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, from)) = rest.split_once("${") {
            let unknown = |placeholder: &str| Error::Unknown {
                name: self.name,
                placeholder: placeholder.to_owned(),
            };
            let (placeholder, after) = from.split_once('}').ok_or_else(|| unknown(from))?;
            filled.push_str(before);
            let value = values.get(placeholder);
            filled.push_str(value.ok_or_else(|| unknown(placeholder))?);
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
