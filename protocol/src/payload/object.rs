//! Decodes the body of an object within bounds on text and memory.
//!
//! A JSON tree costs up to a hundred times its text (`[{"":0},{"":0}]`), so a bound on bytes alone does not bound memory.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Undecodable;

/// The longest body of an object in bytes: kube-apiserver accepts no larger request (`MaxRequestBodyBytes`).
pub const MOST_OBJECT_BYTES: usize = 3 << 20;
/// The largest estimated memory of a decoded object, in bytes. A 1.5 MB Application, the most that etcd stores by
/// default, costs about 22 MiB.
pub const MOST_OBJECT_MEMORY: usize = 32 << 20;

/// The largest estimated memory of metadata, in bytes. Kubernetes accepts 256 KiB of annotations.
const MOST_METADATA_MEMORY: usize = 8 << 20;

/// Memory of a [`Value`] in a list; a growing list reserves up to twice as many.
const ITEM: usize = 64;
/// Memory of a map with up to eleven entries: one node of its B-tree.
const NODE: usize = 640;
/// Memory of each entry of a map in nodes that are half full.
const ENTRY: usize = 112;

/// Decodes an object. An empty body is `null`, as in Go.
///
/// Rejects a body above [`MOST_OBJECT_BYTES`] before it decodes anything, and stops where the decoded object would
/// exceed [`MOST_OBJECT_MEMORY`].
pub fn decode_object(what: &'static str, body: &[u8]) -> Result<Value, Undecodable> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    check_length(body).map_err(|source| Undecodable { what, source })?;
    decode_within(what, body, MOST_OBJECT_MEMORY)
}

/// Decodes only the metadata of an object, into an object with nothing else: an identity is checked before the rest costs
/// anything.
///
/// Rejects a body above [`MOST_OBJECT_BYTES`], one with two metadata, and metadata of more than 8 MiB of estimated memory.
pub fn decode_metadata(what: &'static str, body: &[u8]) -> Result<Value, Undecodable> {
    metadata(body).map_err(|source| Undecodable { what, source })
}

fn metadata(body: &[u8]) -> serde_json::Result<Value> {
    #[derive(Deserialize)]
    struct Header<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    check_length(body)?;
    if body.is_empty() {
        return Ok(Value::Null);
    }
    let header: Option<Header<'_>> = serde_json::from_slice(body)?;
    let text = header.and_then(|header| header.metadata);
    let text = text.map_or("null", RawValue::get);
    let metadata = bounded(text.as_bytes(), MOST_METADATA_MEMORY)?;
    Ok(json!({ "metadata": metadata }))
}

fn check_length(body: &[u8]) -> serde_json::Result<()> {
    if body.len() <= MOST_OBJECT_BYTES {
        return Ok(());
    }
    Err(serde_json::Error::custom(format_args!(
        "the object has {} bytes, more than the limit of {MOST_OBJECT_BYTES}",
        body.len()
    )))
}

/// Decodes a value, and stops where it would exceed this estimate of its memory, in bytes.
pub fn decode_within(what: &'static str, body: &[u8], memory: usize) -> Result<Value, Undecodable> {
    bounded(body, memory).map_err(|source| Undecodable { what, source })
}

fn bounded(body: &[u8], memory: usize) -> serde_json::Result<Value> {
    let mut left = memory;
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let tree = Tree {
        left: &mut left,
        limit: memory,
    };
    let value = tree.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The estimated memory of a value, in bytes, as [`decode_within`] counts it.
pub fn memory_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| ITEM.saturating_add(memory_of(item)));
            items.fold(0, usize::saturating_add)
        }
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| {
                ENTRY
                    .saturating_add(key.len())
                    .saturating_add(memory_of(value))
            };
            let node = if entries.is_empty() { 0 } else { NODE };
            entries.iter().map(entry).fold(node, usize::saturating_add)
        }
    }
}

/// An upper bound of [`memory_of`] the value of this JSON, in bytes, from the text alone: decoding it would cost more than
/// the answer is worth. Brackets and commas in strings count, too.
pub fn estimate_of(body: &[u8]) -> usize {
    let cost = |byte: &u8| match byte {
        b'{' => NODE + ENTRY,
        b'[' => ITEM,
        // Between two entries of a map, or two items.
        b',' => ENTRY,
        _ => 0,
    };
    let structure = body.iter().map(cost).fold(0, usize::saturating_add);
    structure.saturating_add(body.len())
}

/// Decodes a [`Value`] and pays for it from the memory that is left.
struct Tree<'a> {
    left: &'a mut usize,
    limit: usize,
}

impl Tree<'_> {
    fn pay<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        let left = self.left.checked_sub(bytes).ok_or_else(|| {
            let limit = self.limit;
            E::custom(format_args!(
                "the object needs more than {limit} bytes of memory"
            ))
        })?;
        *self.left = left;
        Ok(())
    }

    const fn child(&mut self) -> Tree<'_> {
        Tree {
            left: &mut *self.left,
            limit: self.limit,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(mut self, value: &str) -> Result<Value, E> {
        self.pay(value.len())?;
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.child())? {
            self.pay(ITEM)?;
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.is_empty() {
                self.pay(NODE)?;
            }
            self.pay(key.len().saturating_add(ENTRY))?;
            let value = entries.next_value_seed(self.child())?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(text: &str) -> Result<Value, String> {
        let why = |error: Undecodable| error.source.to_string();
        decode_object("object", text.as_bytes()).map_err(why)
    }

    #[test]
    fn a_json_bomb_is_rejected() {
        for element in [r#"{"":0}"#, "0", r#"{"a":{}}"#, "[[]]"] {
            let count = (MOST_OBJECT_BYTES - 3) / (element.len() + 1);
            let text = format!("[{}{element}]", format!("{element},").repeat(count - 1));
            assert!(text.len() <= MOST_OBJECT_BYTES);
            let error = decode(&text).unwrap_err();
            assert!(error.contains("bytes of memory"), "{element}: {error}");
        }
        let error = decode(&" ".repeat(MOST_OBJECT_BYTES + 1)).unwrap_err();
        assert!(error.contains("3145729 bytes"), "{error}");
        let deep = "[".repeat(100_000);
        assert!(decode(&deep).unwrap_err().contains("recursion limit"));
    }

    #[test]
    fn memory_estimate_of_a_value_matches_the_decoder() {
        let text = r#"{"a":[1,"text",{"b":null,"c":[]},{}],"d":{"e":true}}"#;
        let value = decode(text).unwrap();
        let memory = memory_of(&value);
        assert!(decode_within("object", text.as_bytes(), memory).is_ok());
        assert!(decode_within("object", text.as_bytes(), memory - 1).is_err());
    }

    proptest! {
        #[test]
        fn estimate_of_a_text_is_at_least_its_memory(value in any_value()) {
            let text = value.to_string();
            let (estimate, memory) = (estimate_of(text.as_bytes()), memory_of(&value));
            prop_assert!(estimate >= memory, "{estimate} for {memory} of {text}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            let map = prop::collection::btree_map(".{0,4}", inner.clone(), 0..8);
            prop_oneof![
                prop::collection::vec(inner, 0..8).prop_map(Value::from),
                map.prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    fn usual_resource() -> Value {
        json!({
            "group": "apps", "kind": "Deployment", "name": "deployment-of-a-usual-name",
            "namespace": "namespace", "status": "Synced", "version": "v1",
            "health": { "status": "Healthy", "message": "" },
        })
    }

    #[test]
    fn estimate_of_a_usual_status_is_about_its_memory() {
        let status = Value::from(vec![usual_resource(); 100]);
        let (estimate, memory) = (
            estimate_of(status.to_string().as_bytes()),
            memory_of(&status),
        );
        assert!(estimate < memory * 5 / 4, "{estimate} for {memory}");
    }

    #[test]
    fn metadata_are_decoded_without_the_rest() {
        let decode = |text: &str| {
            let why = |error: Undecodable| error.source.to_string();
            decode_metadata("object", text.as_bytes()).map_err(why)
        };
        let bomb = format!("[{}0]", r#"{"":0},"#.repeat(300_000));
        let body = format!(r#"{{"status":{bomb},"metadata":{{"name":"app"}}}}"#);
        assert_eq!(decode(&body), Ok(json!({ "metadata": { "name": "app" } })));
        let body = format!(r#"{{"metadata":{bomb}}}"#);
        assert!(decode(&body).unwrap_err().contains("bytes of memory"));
        let body = r#"{"metadata":{"uid":"mine"},"metadata":{"uid":"theirs"}}"#;
        assert!(decode(body).unwrap_err().contains("duplicate field"));
        assert!(decode(&" ".repeat(MOST_OBJECT_BYTES + 1)).is_err());
        assert_eq!(decode(""), Ok(Value::Null));
        for body in ["null", "{}", r#"{"metadata":null}"#] {
            assert_eq!(decode(body), Ok(json!({ "metadata": null })), "{body}");
        }
        for body in ["{", "1", r#"{"metadata":{}"#] {
            assert!(decode(body).is_err(), "{body}");
        }
    }

    #[test]
    fn the_largest_application_of_etcd_is_accepted() {
        let resources = vec![usual_resource(); 8_700];
        let application =
            json!({ "metadata": { "name": "a" }, "status": { "resources": resources } });
        let text = application.to_string();
        assert!(text.len() > 1_500_000, "{}", text.len());
        assert_eq!(decode(&text), Ok(application));
    }

    #[test]
    fn bounded_decode_equals_serde_json() {
        for text in [
            "",
            "null",
            "true",
            "-1",
            "18446744073709551615",
            "1.5",
            r#""\u00e9\n""#,
            "[]",
            "{}",
            r#"{"b":[1,{"a":null}],"a":"x","a":"y"}"#,
        ] {
            let expected = serde_json::from_str(text).unwrap_or_default();
            assert_eq!(decode(text), Ok(expected), "{text}");
        }
        for text in ["{", "[1,]", "1 2", "nul", "{\"a\":}"] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
