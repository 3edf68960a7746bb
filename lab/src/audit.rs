//! The requests to an API server: read from its audit log, which has the user and the response of every request.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{ErrorKind, Read, Seek, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context, Result};
use serde::Deserialize;

/// More than the longest line.
const LONGEST: u64 = 256 << 10;

/// The audit log of one cluster.
#[derive(Clone, Debug)]
pub struct Log {
    path: PathBuf,
}

/// A position in a log, to read from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The user; with impersonation, the impersonated user.
    pub user: String,
    /// The user agent.
    pub agent: String,
    /// `get`, `list`, `create`, `patch` and so on.
    pub verb: String,
    /// The object, if the request was about one.
    pub object: Option<Object>,
    /// The field manager of a write that names one; empty otherwise.
    pub field_manager: String,
    /// The HTTP status of the response.
    pub code: u16,
    /// Why RBAC allowed it, as logged: `RBAC: allowed by RoleBinding "x/y" of Role "y" to …`.
    pub reason: String,
}

/// The object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// The API group; empty for the core.
    pub api_group: String,
    /// The plural.
    pub resource: String,
    /// `status` and the like; empty without.
    pub subresource: String,
    /// The namespace; empty without.
    pub namespace: String,
    /// The name; empty for lists and for creations with a generated name.
    pub name: String,
}

impl Object {
    /// `applications.argoproj.io/status`: resource, group and subresource in RBAC's notation.
    pub fn kind(&self) -> String {
        let Self {
            api_group,
            resource,
            subresource,
            namespace: _,
            name: _,
        } = self;
        let dot = if api_group.is_empty() { "" } else { "." };
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!("{resource}{dot}{api_group}{slash}{subresource}")
    }
}

impl Entry {
    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Whether the user lacked the rights. Admission answers with the same code, for example while a CRD is deleted.
    pub fn is_forbidden(&self) -> bool {
        self.code == 403 && !self.reason.starts_with("RBAC: allowed")
    }
}

impl Log {
    pub(crate) const fn of(path: PathBuf) -> Self {
        Self { path }
    }

    /// The current end of the log: that of its last whole line, since another one may be half written.
    pub fn mark(&self) -> Result<Mark> {
        let read = || -> std::io::Result<Mark> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            let from = length.saturating_sub(LONGEST);
            file.seek(SeekFrom::Start(from))?;
            let mut text = Vec::new();
            file.take(length - from).read_to_end(&mut text)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n');
            Ok(Mark(from + whole.map_or(0, |at| at as u64 + 1)))
        };
        match read() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Mark::default()),
            found => found.with_context(|| format!("look at {}", self.path.display())),
        }
    }

    /// All requests so far.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        self.since(Mark::default())
    }

    /// The requests since a mark.
    pub fn since(&self, mark: Mark) -> Result<Vec<Entry>> {
        let read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(mark.0))?;
            let mut text = Vec::new();
            file.read_to_end(&mut text).map(|_| text)
        };
        let text = read().with_context(|| format!("read {}", self.path.display()))?;
        let text = String::from_utf8_lossy(&text);
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(parse)
            .filter_map(Result::transpose)
            .collect()
    }

    /// The requests of a user since a mark.
    pub fn by(&self, user: &str, mark: Mark) -> Result<Vec<Entry>> {
        let mut entries = self.since(mark)?;
        entries.retain(|entry| entry.user == user);
        Ok(entries)
    }

    /// How many writes each user made since a mark: by verb and kind, such as `patch applications.argoproj.io`.
    pub fn writes(&self, mark: Mark) -> Result<BTreeMap<String, BTreeMap<String, usize>>> {
        let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for entry in self.since(mark)?.into_iter().filter(Entry::is_write) {
            *counts
                .entry(entry.user.clone())
                .or_default()
                .entry(entry.used())
                .or_default() += 1;
        }
        Ok(counts)
    }

    /// How many writes one user made since a mark.
    pub fn writes_by(&self, user: &str, mark: Mark) -> Result<usize> {
        Ok(self
            .by(user, mark)?
            .iter()
            .filter(|entry| entry.is_write())
            .count())
    }

    /// The requests of a user that were refused for lack of rights.
    pub fn forbidden(&self, user: &str) -> Result<Vec<Entry>> {
        let mut entries = self.by(user, Mark::default())?;
        entries.retain(Entry::is_forbidden);
        Ok(entries)
    }

    /// Every verb and kind that a user was allowed, such as `patch applications.argoproj.io/status`.
    pub fn used_rules(&self, user: &str) -> Result<BTreeSet<String>> {
        let entries = self.by(user, Mark::default())?;
        Ok(entries
            .iter()
            .filter(|entry| !entry.is_forbidden())
            .map(Entry::used)
            .collect())
    }
}

impl Entry {
    /// The verb and the kind.
    fn used(&self) -> String {
        let kind = self
            .object
            .as_ref()
            .map_or_else(|| "(no resource)".to_owned(), Object::kind);
        format!("{} {kind}", self.verb)
    }
}

/// The parts of `audit.k8s.io/v1` that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(rename = "requestURI", default)]
    uri: String,
    object_ref: Option<Object>,
    response_status: Option<Status>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// Reads one line. A watch is logged when it starts and when it ends; the start is the request.
fn parse(line: &str) -> Result<Option<Entry>> {
    let event: Event = serde_json::from_str(line)
        .with_context(|| format!("an audit line that cannot be read: {line}"))?;
    let code = event.response_status.map_or(0, |status| status.code);
    // A refused watch never starts.
    let at_start = event.verb == "watch" && code < 400;
    if at_start != (event.stage == "ResponseStarted") {
        return Ok(None);
    }
    Ok(Some(Entry {
        user: event.impersonated_user.unwrap_or(event.user).username,
        agent: event.user_agent,
        verb: event.verb,
        object: event.object_ref,
        field_manager: field_manager(&event.uri).to_owned(),
        code,
        reason: event
            .annotations
            .get("authorization.k8s.io/reason")
            .cloned()
            .unwrap_or_default(),
    }))
}

/// The field manager that a request sets.
fn field_manager(uri: &str) -> &str {
    let parameters = uri.split_once('?').map_or("", |(_, parameters)| parameters);
    let mut values = parameters.split('&');
    values
        .find_map(|it| it.strip_prefix("fieldManager="))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"x",
        "stage":"ResponseComplete","requestURI":"/x?force=true&fieldManager=ann-status","verb":"patch","user":{"username":"ann","groups":["g"]},
        "userAgent":"t/1","objectRef":{"resource":"applications","namespace":"argocd","name":"a",
        "apiGroup":"argoproj.io","apiVersion":"v1alpha1","subresource":"status"},
        "responseStatus":{"metadata":{},"code":200},
        "annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"because"}}"#;

    #[test]
    fn an_audit_line_has_user_verb_and_object() -> Result<()> {
        let entry = parse(LINE)?.context("an entry")?;
        assert_eq!((entry.user.as_str(), entry.code), ("ann", 200));
        assert_eq!(entry.field_manager, "ann-status");
        assert_eq!(entry.used(), "patch applications.argoproj.io/status");
        assert!(entry.is_write() && !entry.is_forbidden());
        Ok(())
    }

    #[test]
    fn a_mark_is_the_end_of_a_whole_line() -> Result<()> {
        let directory = std::env::temp_dir().join(format!("lab-audit-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let path = directory.join("audit.log");
        let log = Log::of(path.clone());
        assert_eq!(log.mark()?, Mark::default(), "no log yet");
        let line = LINE.replace('\n', "");
        let (whole, half) = line.split_at(7);
        std::fs::write(&path, format!("{line}\n{whole}"))?;
        let mark = log.mark()?;
        assert_eq!(mark, Mark(line.len() as u64 + 1));
        std::fs::write(&path, format!("{line}\n{whole}{half}\n"))?;
        assert_eq!(log.since(mark)?.len(), 1, "the half line counts");
        std::fs::remove_dir_all(&directory)?;
        Ok(())
    }

    #[test]
    fn the_end_of_a_watch_is_not_a_second_request() -> Result<()> {
        let end = LINE.replace(r#""verb":"patch""#, r#""verb":"watch""#);
        assert_eq!(parse(&end)?, None);
        let start = end.replace("ResponseComplete", "ResponseStarted");
        assert!(parse(&start)?.is_some());
        Ok(())
    }
}
