//! An answer that many requests share: its compressed JSON and its tag.
//!
//! That of 5,000 clusters is some megabytes of JSON, of which only the compressed form is ever in memory as a whole.

use std::{
    io::{self, BufWriter, Read as _, Write},
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// For this time an answer is not computed again: a thousand open pages cost what one costs.
const FRESH: Duration = Duration::from_secs(2);

/// An answer.
#[derive(Debug)]
pub struct Snapshot {
    /// When it was computed.
    at: Instant,
    packed: Bytes,
    tag: HeaderValue,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be written as JSON.
    #[error("write the answer as JSON")]
    Json(#[source] serde_json::Error),
    /// It cannot be compressed.
    #[error("compress the answer")]
    Gzip(#[source] io::Error),
    /// It is no JSON object with fields.
    #[error("the answer is no JSON object")]
    NoObject,
}

impl Snapshot {
    /// Writes `content`, an object with fields, behind the time of the answer. The tag is that of the content: it stays while
    /// only the time differs.
    ///
    /// # Errors
    /// The content is no JSON object.
    pub fn new(content: &impl Serialize, now: Timestamp) -> Result<Self, Error> {
        let time = serde_json::to_string(&now).map_err(Error::Json)?;
        let fields = Fields::behind(&format!("{{\"generatedAt\":{time},")).map_err(Error::Gzip)?;
        // Serde writes a few bytes at a time.
        let mut writer = BufWriter::new(fields);
        serde_json::to_writer(&mut writer, content).map_err(Error::Json)?;
        let fields = writer.into_inner();
        let (packed, digest) = fields
            .map_err(io::IntoInnerError::into_error)
            .and_then(Fields::finish)
            .map_err(Error::Gzip)?
            .ok_or(Error::NoObject)?;
        let short: String = hex::encode(digest).chars().take(32).collect();
        Ok(Self {
            at: Instant::now(),
            packed,
            // Weak: the time and the encoding may differ.
            tag: HeaderValue::from_str(&format!("W/\"{short}\""))
                .unwrap_or(HeaderValue::from_static("W/\"\"")),
        })
    }

    /// Whether it is recent enough to be used again.
    pub fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }

    /// How long ago it was computed.
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }

    /// The tag of its content.
    pub const fn tag(&self) -> &HeaderValue {
        &self.tag
    }

    /// The JSON, compressed.
    pub const fn gzip(&self) -> &Bytes {
        &self.packed
    }

    /// The bytes of the JSON, for a client that does not read gzip.
    ///
    /// # Errors
    /// Never for what [`new`](Self::new) compressed.
    pub fn json(&self) -> io::Result<Bytes> {
        let mut json = Vec::new();
        GzDecoder::new(&*self.packed).read_to_end(&mut json)?;
        Ok(json.into())
    }

    /// Whether the client that sent these headers has this content already.
    pub fn is_known(&self, headers: &HeaderMap) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = self.tag.to_str().map(opaque).unwrap_or_default();
        items(headers, &header::IF_NONE_MATCH).any(|tag| tag == "*" || opaque(tag) == own)
    }
}

/// Whether the client that sent these headers reads gzip.
pub fn reads_gzip(headers: &HeaderMap) -> bool {
    items(headers, &header::ACCEPT_ENCODING).any(|item| {
        let (name, quality) = item.split_once(';').unwrap_or((item, ""));
        let refused = quality.replace(' ', "");
        let refused = refused.strip_prefix("q=").map(str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(refused, Some(Ok(0.0)))
    })
}

/// The items of a header with a list.
fn items<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Compresses a JSON object behind other text, and computes the digest of the object. Its first brace is left out.
struct Fields {
    packed: GzEncoder<Vec<u8>>,
    digest: Sha256,
    /// The byte that is left out.
    first: Option<u8>,
}

impl Fields {
    fn behind(head: &str) -> io::Result<Self> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(head.as_bytes())?;
        Ok(Self {
            packed,
            digest: Sha256::new(),
            first: None,
        })
    }

    /// The compressed text, and the digest; none if it was no object.
    fn finish(self) -> io::Result<Option<(Bytes, [u8; 32])>> {
        let packed = self.packed.finish()?;
        let is_object = self.first == Some(b'{');
        Ok(is_object.then(|| (packed.into(), self.digest.finalize().into())))
    }
}

impl Write for Fields {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let rest = match (self.first, text.split_first()) {
            (None, Some((first, rest))) => {
                self.first = Some(*first);
                rest
            }
            (_, _) => text,
        };
        self.digest.update(rest);
        self.packed.write_all(rest)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packed.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[tokio::test]
    async fn answer_has_the_time_before_its_content() {
        let snapshot = Snapshot::new(&json!({"a": 1}), at(1)).unwrap();
        let found: Value = serde_json::from_slice(&snapshot.json().unwrap()).unwrap();
        assert_eq!(
            found,
            json!({"generatedAt": "1970-01-01T00:00:01Z", "a": 1})
        );
        assert!(matches!(
            Snapshot::new(&json!([1]), at(1)),
            Err(Error::NoObject)
        ));
    }

    #[tokio::test]
    async fn tag_is_that_of_the_content_and_not_of_the_time() {
        let [one, later, other] = [(1, 1), (1, 2), (2, 2)]
            .map(|(value, time)| Snapshot::new(&json!({"a": value}), at(time)).unwrap());
        assert_eq!(one.tag(), later.tag());
        assert_ne!(one.tag(), other.tag());
        let tag = one.tag().to_str().unwrap();
        for known in [
            tag.to_owned(),
            format!("\"x\", {tag}"),
            tag.replace("W/", ""),
            "*".to_owned(),
        ] {
            assert!(
                later.is_known(&headers(header::IF_NONE_MATCH, &known)),
                "{known}"
            );
        }
        for unknown in ["", "\"\"", "W/\"0\"", "x"] {
            let unknown = headers(header::IF_NONE_MATCH, unknown);
            assert!(!later.is_known(&unknown), "{unknown:?}");
        }
        assert!(!other.is_known(&headers(header::IF_NONE_MATCH, tag)));
        assert!(!one.is_known(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn answer_larger_than_the_buffers_is_compressed() {
        let rows: Vec<Value> = (0..5000).map(|row| json!({"name": row})).collect();
        let snapshot = Snapshot::new(&json!({"rows": rows}), at(1)).unwrap();
        let json = snapshot.json().unwrap();
        assert!(snapshot.gzip().len() * 4 < json.len());
        let found: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(found["rows"], Value::from(rows));
    }

    #[test]
    fn gzip_is_for_clients_that_accept_it() {
        for (value, accepted) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, gzip ; q=1", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("gzipped", false),
            ("br", false),
            ("", false),
        ] {
            let found = reads_gzip(&headers(header::ACCEPT_ENCODING, value));
            assert_eq!(found, accepted, "{value}");
        }
        assert!(!reads_gzip(&HeaderMap::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn answer_is_fresh_for_two_seconds() {
        let snapshot = Snapshot::new(&json!({"a": 1}), at(1)).unwrap();
        tokio::time::advance(Duration::from_millis(1999)).await;
        assert!(snapshot.is_fresh());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!snapshot.is_fresh());
    }
}
