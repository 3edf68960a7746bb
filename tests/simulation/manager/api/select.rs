//! Label and field selectors.

use serde_json::Value;

/// The selection of a list or a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    labels: Vec<Term>,
    fields: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Has(String),
}

impl Selector {
    pub(crate) fn new(kind: &str, namespace: &str, labels: &str, fields: &str) -> Self {
        let parts = |text: &str| {
            let parts = text.split(',').map(str::trim);
            parts
                .filter(|it| !it.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let term = |part: String| {
            let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            if let Some((key, value)) = part.split_once("!=").map(pair) {
                Term::IsNot(key, value)
            } else if let Some((key, value)) = part.split_once('=').map(pair) {
                Term::Is(key, value.trim_start_matches('=').to_owned())
            } else {
                assert!(!part.contains([' ', '!']), "a selector like {part:?}");
                Term::Has(part)
            }
        };
        let field = |part: String| {
            let (path, value) = part.split_once('=').expect("path=value");
            (path.to_owned(), value.trim_start_matches('=').to_owned())
        };
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            labels: parts(labels).into_iter().map(term).collect(),
            fields: parts(fields).into_iter().map(field).collect(),
        }
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let by_label = self.labels.iter().all(|term| match term {
            Term::Is(key, value) => labels[key].as_str() == Some(value),
            Term::IsNot(key, value) => labels[key].as_str() != Some(value),
            Term::Has(key) => !labels[key].is_null(),
        });
        by_label
            && self.fields.iter().all(|(path, value)| {
                let place = format!("/{}", path.replace('.', "/"));
                object.pointer(&place).and_then(Value::as_str) == Some(value)
            })
    }
}
