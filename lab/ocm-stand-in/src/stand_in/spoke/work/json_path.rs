//! The part of Kubernetes' JSONPath that feedback rules use. Pure.
//!
//! `.a.b`, `['a']`, `[0]`, `[*]` and `[?(@.key=="value")]`; as `kubectl` has it, `{…}` may enclose it.

use serde_json::Value;

/// The first value at a path, if there is one.
pub(super) fn first<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let path = path.trim();
    let path = path
        .strip_prefix('{')
        .and_then(|p| p.strip_suffix('}'))
        .unwrap_or(path);
    let mut found = vec![object];
    for step in steps(path.strip_prefix('$').unwrap_or(path))? {
        found = found
            .into_iter()
            .flat_map(|value| step.take(value))
            .collect();
    }
    Ok(found.into_iter().next())
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    Every,
    Where(Vec<String>, String),
}

impl Step {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let elements = || value.as_array().map_or(&[][..], Vec::as_slice);
        match self {
            Self::Key(key) => value.get(key.as_str()).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::Every => match value {
                Value::Object(map) => map.values().collect(),
                Value::Array(list) => list.iter().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            },
            Self::Where(keys, wanted) => elements()
                .iter()
                .filter(|element| {
                    let at = keys
                        .iter()
                        .try_fold(*element, |value, key| value.get(key.as_str()));
                    at.is_some_and(|at| at.as_str() == Some(wanted) || is_literal(at, wanted))
                })
                .collect(),
        }
    }
}

/// Whether an unquoted word in a filter is this number or truth value.
fn is_literal(value: &Value, word: &str) -> bool {
    !value.is_string() && serde_json::from_str::<Value>(word).is_ok_and(|literal| literal == *value)
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after).ok_or_else(|| format!("no closing bracket in {path:?}"))?;
            let (inside, tail) = after.split_at_checked(end).unwrap_or((after, ""));
            steps.push(bracket(inside).ok_or_else(|| format!("cannot read [{inside}]"))?);
            rest = tail.strip_prefix(']').unwrap_or(tail);
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (key, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
            match key {
                "" if tail.is_empty() => {}
                "" if tail.starts_with('[') => {}
                "" => return Err(format!("cannot read {path:?}")),
                "*" => steps.push(Step::Every),
                key => steps.push(Step::Key(key.replace('\\', ""))),
            }
            rest = tail;
        }
    }
    Ok(steps)
}

/// Where the bracket that was just opened closes, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (None, ']') => return Some(index),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None | Some(_), _) => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::Every);
    }
    if let Some(condition) = inside
        .strip_prefix("?(")
        .and_then(|rest| rest.strip_suffix(')'))
    {
        let (left, right) = condition.split_once("==")?;
        let keys = left
            .trim()
            .strip_prefix("@.")?
            .split('.')
            .map(str::to_owned)
            .collect();
        return Some(Step::Where(keys, unquote(right.trim()).to_owned()));
    }
    let quoted = unquote(inside);
    if quoted.len() != inside.len() {
        return Some(Step::Key(quoted.to_owned()));
    }
    inside.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_the_same_values_as_kubectl() {
        let object = json!({
            "status": {
                "readyReplicas": 2,
                "conditions": [
                    { "type": "Progressing", "status": "False" },
                    { "type": "Available", "status": "True" },
                ],
            },
            "metadata": { "annotations": { "a.b/c": "x" } },
        });
        let text = |path: &str| first(&object, path).unwrap().cloned();
        assert_eq!(text(".status.readyReplicas"), Some(json!(2)));
        assert_eq!(text("{.status.readyReplicas}"), Some(json!(2)));
        assert_eq!(
            text(r#".status.conditions[?(@.type=="Available")].status"#),
            Some(json!("True"))
        );
        assert_eq!(
            text(".status.conditions[0].type"),
            Some(json!("Progressing"))
        );
        assert_eq!(
            text(".status.conditions[*].type"),
            Some(json!("Progressing"))
        );
        assert_eq!(text(".metadata.annotations['a.b/c']"), Some(json!("x")));
        assert_eq!(text(".status.missing"), None);
        assert!(first(&object, ".status.conditions[?(").is_err());
    }
}
