//! Parses redis commands: pure, and only those that Argo CD uses. Others are refused.

/// The RESP version of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    /// The default of a new connection.
    #[default]
    Two,
    /// With maps, pushes and a null of its own.
    Three,
}

/// The credentials of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim<'a> {
    pub(super) user: Option<&'a [u8]>,
    pub(super) password: &'a [u8],
}

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// The handshake, optionally with credentials.
    Hello(Option<Version>, Option<Claim<'a>>),
    Auth(Claim<'a>),
    Ping(Option<&'a [u8]>),
    /// Client metadata.
    Introduction,
    Quit,
    Get(&'a [u8]),
    /// A write. The rest of the command may not have been read.
    Set(&'a [u8]),
    Subscribe(Vec<&'a [u8]>),
    /// None means all.
    Unsubscribe(Vec<&'a [u8]>),
    /// Another allowed command for the hub's redis.
    Other,
}

/// Why a command is refused; its text is the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("ERR unknown command")]
    Unknown,
    #[error("ERR unknown subcommand")]
    Subcommand,
    #[error("ERR wrong number of arguments")]
    Arguments,
    #[error("ERR syntax error")]
    Syntax,
    #[error("NOPROTO unsupported protocol version")]
    Protocol,
}

/// Further allowed commands for the hub's own keys: those that Argo CD uses or may use.
const OTHERS: [&str; 16] = [
    "DEL", "UNLINK", "EXISTS", "EXPIRE", "PEXPIRE", "PERSIST", "TTL", "PTTL", "TYPE", "RENAME",
    "PUBLISH", "SCAN", "SELECT", "ECHO", "TIME", "DBSIZE",
];
const SETS: [&str; 4] = ["SET", "SETEX", "PSETEX", "SETNX"];

/// Parses a command from its words; a large one from its first words.
pub(super) fn read<'a>(words: &'a [Vec<u8>]) -> Result<Command<'a>, Refused> {
    let (name, rest) = words.split_first().ok_or(Refused::Unknown)?;
    let name = str::from_utf8(name).map_err(|_no_text| Refused::Unknown)?;
    let name = name.to_ascii_uppercase();
    let mut rest: Vec<&'a [u8]> = rest.iter().map(Vec::as_slice).collect();
    match (name.as_str(), rest.as_slice()) {
        ("HELLO", words) => hello(words),
        ("AUTH", [password]) => Ok(Command::Auth(Claim {
            user: None,
            password,
        })),
        ("AUTH", [user, password]) => Ok(Command::Auth(Claim {
            user: Some(user),
            password,
        })),
        ("PING", []) => Ok(Command::Ping(None)),
        ("PING", [text]) => Ok(Command::Ping(Some(text))),
        ("QUIT", _) => Ok(Command::Quit),
        ("CLIENT", [word, ..]) => {
            let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
            if is("SETINFO") || is("SETNAME") {
                Ok(Command::Introduction)
            } else {
                Err(Refused::Subcommand)
            }
        }
        ("GET", [key]) => Ok(Command::Get(key)),
        ("SUBSCRIBE", [_, ..]) => Ok(Command::Subscribe(std::mem::take(&mut rest))),
        ("UNSUBSCRIBE", _) => Ok(Command::Unsubscribe(std::mem::take(&mut rest))),
        (name, [key, ..]) if SETS.contains(&name) => Ok(Command::Set(key)),
        (name, _) if OTHERS.contains(&name) => Ok(Command::Other),
        ("AUTH" | "PING" | "CLIENT" | "GET" | "SUBSCRIBE", _) => Err(Refused::Arguments),
        (name, []) if SETS.contains(&name) => Err(Refused::Arguments),
        _ => Err(Refused::Unknown),
    }
}

fn hello<'a>(words: &[&'a [u8]]) -> Result<Command<'a>, Refused> {
    let Some((version, mut rest)) = words.split_first() else {
        return Ok(Command::Hello(None, None));
    };
    let version = match *version {
        b"2" => Version::Two,
        b"3" => Version::Three,
        _ => return Err(Refused::Protocol),
    };
    let mut claim = None;
    loop {
        rest = match rest {
            [] => return Ok(Command::Hello(Some(version), claim)),
            [word, user, password, rest @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                claim = Some(Claim {
                    user: Some(*user),
                    password,
                });
                rest
            }
            [word, _name, rest @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => rest,
            _ => return Err(Refused::Syntax),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ')
            .map(|word| word.as_bytes().to_vec())
            .collect()
    }

    #[test]
    fn commands_of_argo_cds_client_are_parsed() {
        let line = words("hello 3 auth default secret setname argocd");
        let claim = Claim {
            user: Some(b"default"),
            password: b"secret",
        };
        let hello = Command::Hello(Some(Version::Three), Some(claim));
        assert_eq!(read(&line), Ok(hello));
        for (line, is) in [
            (
                "AUTH secret",
                Command::Auth(Claim {
                    user: None,
                    password: b"secret",
                }),
            ),
            (
                "client setinfo LIB-NAME go-redis(,go1.26)",
                Command::Introduction,
            ),
            ("ping", Command::Ping(None)),
            ("get a|b", Command::Get(b"a|b")),
            ("set a|b value ex 60 nx", Command::Set(b"a|b")),
            ("setex a|b 60 value", Command::Set(b"a|b")),
            ("del a|b", Command::Other),
            ("rename a b", Command::Other),
            ("scan 0 match revoked-token|* count 10000", Command::Other),
            ("publish new-revoked-token id", Command::Other),
            ("subscribe a b", Command::Subscribe(vec![b"a", b"b"])),
            ("unsubscribe", Command::Unsubscribe(vec![])),
        ] {
            assert_eq!(read(&words(line)), Ok(is), "{line}");
        }
    }

    #[test]
    fn other_commands_are_refused() {
        for (line, why) in [
            ("client maint_notifications on", Refused::Subcommand),
            ("client kill all", Refused::Subcommand),
            ("hello 4", Refused::Protocol),
            ("hello 3 auth default", Refused::Syntax),
            ("get", Refused::Arguments),
            ("get a b", Refused::Arguments),
            ("set", Refused::Arguments),
            ("config set dir /", Refused::Unknown),
            ("eval return 1", Refused::Unknown),
            ("flushall", Refused::Unknown),
            ("keys *", Refused::Unknown),
            ("psubscribe *", Refused::Unknown),
            ("monitor", Refused::Unknown),
            ("replicaof evil 6379", Refused::Unknown),
        ] {
            assert_eq!(read(&words(line)), Err(why), "{line}");
        }
        assert_eq!(read(&[vec![0xff]]), Err(Refused::Unknown));
        assert_eq!(read(&[]), Err(Refused::Unknown));
    }
}
