//! An answer that many requests share: its JSON, its tag, and its compressed form.

use std::{io::Write as _, sync::OnceLock, time::Duration};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
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
    json: Bytes,
    gzip: OnceLock<Option<Bytes>>,
    tag: HeaderValue,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be written as JSON.
    #[error("write the answer as JSON")]
    Json(#[source] serde_json::Error),
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
        let fields = serde_json::to_vec(content).map_err(Error::Json)?;
        let fields = fields.strip_prefix(b"{").ok_or(Error::NoObject)?;
        let time = serde_json::to_string(&now).map_err(Error::Json)?;
        let digest = hex::encode(Sha256::digest(fields));
        let short: String = digest.chars().take(32).collect();
        let mut json = Vec::with_capacity(fields.len() + time.len() + 16);
        json.extend_from_slice(format!("{{\"generatedAt\":{time},").as_bytes());
        json.extend_from_slice(fields);
        Ok(Self {
            at: Instant::now(),
            json: json.into(),
            gzip: OnceLock::new(),
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

    /// The bytes of the JSON.
    pub const fn json(&self) -> &Bytes {
        &self.json
    }

    /// The JSON, compressed once for all requests; none if that fails.
    pub fn gzip(&self) -> Option<&Bytes> {
        self.gzip.get_or_init(|| compressed(&self.json)).as_ref()
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

fn compressed(json: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(json).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

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
        let found: Value = serde_json::from_slice(snapshot.json()).unwrap();
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
    async fn compressed_answer_has_the_same_content() {
        let snapshot = Snapshot::new(&json!({"a": "b".repeat(1000)}), at(1)).unwrap();
        let packed = snapshot.gzip().unwrap();
        assert!(packed.len() < 100);
        let mut text = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&packed[..]);
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(&text, snapshot.json());
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
