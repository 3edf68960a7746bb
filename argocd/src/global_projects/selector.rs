//! Label selectors of Kubernetes: which are valid, and which labels they match.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::name::{LONGEST_LABEL, is_label_key, is_label_value};
use crate::object::Meta;

/// A valid selector. Without requirements it matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// The values that count; any if none.
    values: Option<Vec<String>>,
    /// Whether the label must have none of them.
    is_negated: bool,
}

/// A selector as it is written. Absent fields are empty, as for Go.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Unchecked {
    match_labels: Option<BTreeMap<String, Option<String>>>,
    match_expressions: Option<Vec<Option<Expression>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: Option<String>,
    operator: Option<String>,
    values: Option<Vec<Option<String>>>,
}

impl Unchecked {
    /// The selector, or why it is not valid.
    pub(super) fn checked(self) -> Result<Selector, String> {
        let labels = self.match_labels.unwrap_or_default();
        let labels = labels.into_iter().map(|(key, value)| {
            let values = vec![value.unwrap_or_default()];
            Requirement::new(key, "In", values)
        });
        let expressions = self.match_expressions.unwrap_or_default();
        let expressions = expressions.into_iter().map(|expression| {
            let expression = expression.unwrap_or_default();
            let values = expression.values.unwrap_or_default();
            Requirement::new(
                expression.key.unwrap_or_default(),
                &expression.operator.unwrap_or_default(),
                values.into_iter().map(Option::unwrap_or_default).collect(),
            )
        });
        let all: Result<_, _> = labels.chain(expressions).collect();
        all.map(Selector)
    }
}

impl Selector {
    /// Whether it matches the labels of an object.
    pub(super) fn matches(&self, object: Meta<'_>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(object))
    }
}

impl Requirement {
    fn new(key: String, operator: &str, values: Vec<String>) -> Result<Self, String> {
        if !is_label_key(&key) {
            return Err(format!("{:?} is not the key of a label", short(&key)));
        }
        if let Some(value) = values.iter().find(|value| !is_label_value(value)) {
            return Err(format!("{:?} is not the value of a label", short(value)));
        }
        let values = match (operator, values.is_empty()) {
            ("In" | "NotIn", false) => Some(values),
            ("Exists" | "DoesNotExist", true) => None,
            ("In" | "NotIn", true) => {
                return Err(format!("{operator} of label {key:?} needs values"));
            }
            ("Exists" | "DoesNotExist", false) => {
                return Err(format!("{operator} of label {key:?} takes no values"));
            }
            _ => return Err(format!("{:?} is not an operator", short(operator))),
        };
        Ok(Self {
            key,
            values,
            is_negated: matches!(operator, "NotIn" | "DoesNotExist"),
        })
    }

    fn matches(&self, object: Meta<'_>) -> bool {
        let fits = object.label(&self.key).is_some_and(|label| {
            let values = self.values.as_ref();
            values.is_none_or(|values| values.iter().any(|value| value == label))
        });
        fits != self.is_negated
    }
}

/// Enough of a text to find it.
fn short(text: &str) -> String {
    text.chars().take(LONGEST_LABEL).collect()
}
