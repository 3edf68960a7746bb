//! The requests of the API server. Pure.

use std::fmt::{self, Display};

use hyper::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};

use crate::{command::Wanted, log::View, running::Key};

/// A valid request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Log(Place, Log),
    Exec(Place, Exec),
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) pod: Key,
    pub(super) container: String,
}

/// The options of a request for a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) view: View,
    /// Only this many last lines.
    pub(super) tail: Option<u64>,
    /// Also future output.
    pub(super) follow: bool,
    /// The log of the previous run.
    pub(super) previous: bool,
}

/// A request for a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Exec {
    pub(super) argv: Vec<String>,
    pub(super) wanted: Wanted,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) why: String,
}

impl Refused {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { status, why }
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.why)
    }
}

/// Parses a request.
pub(super) fn read(
    method: &Method,
    path: &str,
    query: &str,
    now: Timestamp,
) -> Result<Asked, Refused> {
    let unknown = || {
        let why = "the lab's kubelet serves containerLogs and exec only";
        Refused::new(StatusCode::NOT_FOUND, why)
    };
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let (kind, place) = match *parts.as_slice() {
        [kind, namespace, pod, container] => (kind, place(namespace, pod, container)),
        // The Pod's UID may precede its container.
        ["exec", namespace, pod, _, container] => ("exec", place(namespace, pod, container)),
        _ => return Err(unknown()),
    };
    match (method, kind) {
        (&Method::GET, "containerLogs") => Ok(Asked::Log(place, log(query, now)?)),
        (&Method::GET | &Method::POST, "exec") => Ok(Asked::Exec(place, exec(query)?)),
        _ => Err(unknown()),
    }
}

fn place(namespace: &str, pod: &str, container: &str) -> Place {
    let pod = Key {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
    };
    let container = container.to_owned();
    Place { pod, container }
}

fn log(query: &str, now: Timestamp) -> Result<Log, Refused> {
    let mut log = Log::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let number = || bad_unless(&name, &value, value.parse::<u64>().ok());
        match &*name {
            "follow" => log.follow = is_set(&value),
            "previous" => log.previous = is_set(&value),
            "timestamps" => log.view.timestamps = is_set(&value),
            "tailLines" => log.tail = Some(number()?),
            "limitBytes" => {
                log.view.limit = Some(usize::try_from(number()?).unwrap_or(usize::MAX));
            }
            "sinceSeconds" => {
                let seconds = i64::try_from(number()?).ok();
                let since = seconds
                    .and_then(|seconds| now.checked_sub(SignedDuration::from_secs(seconds)).ok());
                log.view.since = since;
            }
            "sinceTime" => {
                log.view.since = Some(bad_unless(&name, &value, value.parse().ok())?);
            }
            _ => {}
        }
    }
    Ok(log)
}

fn exec(query: &str) -> Result<Exec, Refused> {
    let mut exec = Exec::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "command" => exec.argv.push(value.into_owned()),
            "input" => exec.wanted.stdin = is_set(&value),
            "output" => exec.wanted.stdout = is_set(&value),
            "error" => exec.wanted.stderr = is_set(&value),
            "tty" => exec.wanted.terminal = is_set(&value),
            _ => {}
        }
    }
    if exec.argv.is_empty() {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "no command"));
    }
    Ok(exec)
}

fn is_set(value: &str) -> bool {
    matches!(value, "1" | "true")
}

fn bad_unless<T>(name: &str, value: &str, read: Option<T>) -> Result<T, Refused> {
    let why = || format!("{name} cannot be {value:?}");
    read.ok_or_else(|| Refused::new(StatusCode::BAD_REQUEST, why()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    fn get(path: &str, query: &str) -> Result<Asked, Refused> {
        read(&Method::GET, path, query, now())
    }

    #[test]
    fn the_options_of_a_log_are_read() {
        let query = "follow=true&tailLines=5&sinceSeconds=60&limitBytes=7&timestamps=true";
        let log = Log {
            view: View {
                since: Some("2026-01-01T00:00:00Z".parse().unwrap()),
                timestamps: true,
                limit: Some(7),
            },
            tail: Some(5),
            follow: true,
            previous: false,
        };
        let asked = Asked::Log(place("ns", "pod", "c"), log);
        assert_eq!(get("/containerLogs/ns/pod/c", query), Ok(asked));
        let query = "sinceTime=2026-01-01T00%3A00%3A30Z&previous=true";
        let log = Log {
            view: View {
                since: Some("2026-01-01T00:00:30Z".parse().unwrap()),
                ..View::default()
            },
            previous: true,
            ..Log::default()
        };
        let asked = Asked::Log(place("ns", "pod", "c"), log);
        assert_eq!(get("/containerLogs/ns/pod/c", query), Ok(asked));
    }

    #[test]
    fn a_command_is_read_word_by_word() {
        let query = "command=sh&command=-c&command=echo+%22a%26b%22&input=1&output=1&error=0&tty=1";
        let exec = Exec {
            argv: ["sh", "-c", "echo \"a&b\""].map(str::to_owned).into(),
            wanted: Wanted {
                stdin: true,
                stdout: true,
                stderr: false,
                terminal: true,
            },
        };
        let asked = Asked::Exec(place("ns", "pod", "c"), exec);
        assert_eq!(get("/exec/ns/pod/c", query).as_ref(), Ok(&asked));
        assert_eq!(get("/exec/ns/pod/some-uid/c", query), Ok(asked));
    }

    #[test]
    fn unknown_requests_are_refused() {
        for (path, query, status) in [
            ("/exec/ns/pod/c", "input=1", StatusCode::BAD_REQUEST),
            (
                "/containerLogs/ns/pod/c",
                "tailLines=-1",
                StatusCode::BAD_REQUEST,
            ),
            (
                "/containerLogs/ns/pod/c",
                "sinceTime=now",
                StatusCode::BAD_REQUEST,
            ),
            ("/containerLogs/ns/pod", "", StatusCode::NOT_FOUND),
            ("/containerLogs/ns/pod/c/d", "", StatusCode::NOT_FOUND),
            ("/attach/ns/pod/c", "", StatusCode::NOT_FOUND),
            ("/pods", "", StatusCode::NOT_FOUND),
        ] {
            let refused = get(path, query).unwrap_err();
            assert_eq!(refused.status, status, "{path}?{query}: {refused}");
        }
    }
}
