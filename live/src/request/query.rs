//! Parameters of a request: only those that are known for the request, each once.

use super::{Subject, Unreadable, Verb};

/// More parameters than any legitimate request has. A command in a Pod has one per word.
const MOST: usize = 64;

const EVERYWHERE: &[&str] = &["timeout", "pretty"];
const GET: &[&str] = &["includeObject", "resourceVersion"];
const SCHEMA: &[&str] = &["hash"];
const LOG: &[&str] = &[
    "container",
    "follow",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "stream",
    "tailLines",
    "timestamps",
];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "includeObject",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &["dryRun", "gracePeriodSeconds", "propagationPolicy"];
const EXEC: &[&str] = &["command", "container", "stderr", "stdin", "stdout", "tty"];

/// The parameters of a request, in their original order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

/// Unchecked parameters; the parser checks them when it parses the request.
impl FromIterator<(String, String)> for Query {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Query {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether a parameter is present and true, as for the API server: without a value it is true.
    pub fn is_on(&self, name: &str) -> bool {
        let no = |value: &str| value == "0" || value.eq_ignore_ascii_case("false");
        self.get(name).is_some_and(|value| !no(value))
    }

    /// The parameters, if all are known for this request and none is duplicated.
    pub(super) fn for_request(self, verb: Verb, subject: &Subject) -> Result<Self, Unreadable> {
        let known = known(verb, subject);
        for (at, (name, _)) in self.0.iter().enumerate() {
            let shown = || name.chars().take(64).collect();
            if !known.contains(&name.as_str()) && !EVERYWHERE.contains(&name.as_str()) {
                return Err(Unreadable::Parameter(shown()));
            }
            let before = self.0.get(..at).unwrap_or_default();
            if name != "command" && before.iter().any(|(other, _)| other == name) {
                return Err(Unreadable::Query("one of them is there twice"));
            }
        }
        Ok(self)
    }

    pub(super) fn write_to(&self, text: &mut String) {
        for (at, (name, value)) in self.0.iter().enumerate() {
            text.push(if at == 0 { '?' } else { '&' });
            encode_into(text, name, false);
            text.push('=');
            encode_into(text, value, false);
        }
    }
}

fn known(verb: Verb, subject: &Subject) -> &'static [&'static str] {
    let object = match subject {
        Subject::Object(object) => object,
        Subject::Schema { .. } => return SCHEMA,
        Subject::Version | Subject::Groups { .. } | Subject::Kinds { .. } => return &[],
    };
    match (verb, object.subresource.as_deref()) {
        (Verb::Get | Verb::Create, Some("exec")) => EXEC,
        (Verb::Get, Some("log")) => LOG,
        (Verb::Get, _) => GET,
        (Verb::List | Verb::Watch, _) => LIST,
        (Verb::Create | Verb::Update | Verb::Patch, _) => WRITE,
        (Verb::Delete | Verb::DeleteCollection, _) => DELETE,
    }
}

/// Parses a query.
pub(super) fn read(raw: &str) -> Result<Query, Unreadable> {
    let mut pairs = Vec::new();
    for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
        if pairs.len() >= MOST {
            return Err(Unreadable::Query("there are too many"));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let read = |text| decoded(text, true).ok_or(Unreadable::Query("they are badly encoded"));
        let (name, value) = (read(name)?, read(value)?);
        if value.contains('\0') {
            return Err(Unreadable::Query("one of them is no text"));
        }
        pairs.push((name, value));
    }
    Ok(Query(pairs))
}

/// Decodes one percent-encoding; none if it is invalid. In queries `+` is a space.
pub(super) fn decoded(raw: &str, plus: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.extend(hex::decode(digits).ok()?);
            }
            b'+' if plus => bytes.push(b' '),
            // A valid URL has these encoded.
            0..=b' ' | 0x7f.. => return None,
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Encodes all characters but unreserved ones. A colon, as in names of roles, is not encoded in paths.
pub(super) fn encode_into(text: &mut String, plain: &str, colon: bool) {
    for byte in plain.bytes() {
        let stays = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'_' | b'~')
            || colon && byte == b':';
        if stays {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push_str(&hex::encode_upper([byte]));
        }
    }
}
