//! Bodies of objects, decoded within bounds on memory.

use protocol::payload::{MOST_OBJECT_BYTES, MOST_OBJECT_MEMORY, decode_metadata, decode_object};
use serde_json::Value;

/// The first byte of an input whose rest is the element of a long list.
const LIST: u8 = b'*';
/// The largest number of elements that a list gets from its input.
const MOST_ELEMENTS: usize = 1 << 20;

pub(crate) fn check(input: &[u8]) {
    let body = match input {
        [LIST, size, element @ ..] => list(*size, element),
        other => other.to_vec(),
    };
    let decoded = decode_object("object", &body);
    // The header of an object that is decoded as a whole names the same one.
    if let (Ok(header), Ok(whole)) = (decode_metadata("object", &body), &decoded) {
        let of = |value: &Value| value.get("metadata").cloned().unwrap_or_default();
        assert_eq!(of(&header), of(whole));
    }
    match decoded {
        Ok(value) if body.is_empty() => assert_eq!(value, Value::Null),
        Ok(value) => {
            assert!(body.len() <= MOST_OBJECT_BYTES);
            assert!(memory(&value) <= MOST_OBJECT_MEMORY);
            assert_eq!(serde_json::from_slice::<Value>(&body).ok(), Some(value));
        }
        // no shorter text can exceed the memory
        Err(error) if body.len() < MOST_OBJECT_MEMORY / 400 => {
            let other = serde_json::from_slice::<Value>(&body);
            assert!(other.is_err(), "{error}: {}", body.escape_ascii());
        }
        Err(_) => {}
    }
}

/// A list that repeats an element to a size in steps of 16 KiB, past the limit at the end.
fn list(size: u8, element: &[u8]) -> Vec<u8> {
    let bytes = (usize::from(size) << 14).min(MOST_OBJECT_BYTES + 1);
    let count = (bytes / (element.len() + 1)).clamp(1, MOST_ELEMENTS);
    let elements = vec![element; count].join(&b',');
    [b"[", elements.as_slice(), b"]"].concat()
}

/// The least memory of a value: that of its nodes and of its text.
fn memory(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(memory).sum(),
            Value::Object(entries) => entries
                .iter()
                .map(|(key, it)| size_of::<String>() + key.len() + memory(it))
                .sum(),
        }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = [
        r#"{"apiVersion":"argoproj.io/v1alpha1","metadata":{"name":"a","labels":{"a":"b"}}}"#,
        r#"[null,true,-1,1.5e300,18446744073709551616,"\u00e9\n\ud83d\ude00"]"#,
        r#"{"b":[1,{"a":null}],"a":"x","a":"y"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
        "",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    seeds.push("[".repeat(200).into());
    seeds.push([&[LIST, 40][..], br#"{"":0}"#].concat());
    seeds
}
