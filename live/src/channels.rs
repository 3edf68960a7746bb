//! The channel protocol of a terminal: each message of its `WebSocket` begins with the number of a channel, as between
//! clients of Kubernetes and API servers.

use serde_json::{Value, json};

/// The supported protocols, the preferred one first.
pub const PROTOCOLS: [&str; 2] = [CLOSES, "v4.channel.k8s.io"];
/// The protocol that can close a channel.
const CLOSES: &str = "v5.channel.k8s.io";

/// The text of Kubernetes' clients, which argocd-agent (Go) passes on.
const EXITED: &str = "command terminated with exit code ";
const NON_ZERO: &str = "NonZeroExitCode";

/// The channel of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// Standard input.
    Keys = 0,
    /// Standard output.
    Screen = 1,
    /// Standard error; a terminal shows it with the output.
    Errors = 2,
    /// The final status.
    End = 3,
    /// The size of the window.
    Size = 4,
    /// Another channel is closed; has its number.
    Closed = 255,
}

impl Channel {
    const ALL: [Self; 6] = [
        Self::Keys,
        Self::Screen,
        Self::Errors,
        Self::End,
        Self::Size,
        Self::Closed,
    ];

    const fn number(self) -> u8 {
        self as u8
    }

    /// Parses a message; none for an unknown channel.
    pub fn read(message: &[u8]) -> Option<(Self, &[u8])> {
        let (number, content) = message.split_first()?;
        let mut all = Self::ALL.into_iter();
        let channel = all.find(|channel| channel.number() == *number)?;
        Some((channel, content))
    }

    /// A message on this channel.
    pub fn emits(self, content: &[u8]) -> Vec<u8> {
        [&[self.number()], content].concat()
    }

    /// The message that closes the standard input, if the protocol has one.
    pub fn no_more_keys(protocol: &str) -> Option<Vec<u8>> {
        (protocol == CLOSES).then(|| Self::Closed.emits(&[Self::Keys.number()]))
    }
}

/// Selects a protocol of a client's offers; none if we support none of them.
pub fn chosen<'a>(offered: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    let offered = offered.into_iter().flat_map(|line| line.split(','));
    let mut offered = offered.map(str::trim);
    offered.find_map(|offer| PROTOCOLS.into_iter().find(|ours| *ours == offer))
}

/// The size of a window, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub width: u16,
    /// Lines.
    pub height: u16,
}

impl Size {
    /// The default until a client sends a size.
    pub const USUAL: Self = Self {
        width: 80,
        height: 24,
    };

    /// Parses the content of its channel.
    pub fn read(content: &[u8]) -> Option<Self> {
        let content: Value = serde_json::from_slice(content).ok()?;
        let number = |name| u16::try_from(content.get(name)?.as_u64()?).ok();
        Some(Self {
            width: number("Width")?,
            height: number("Height")?,
        })
    }

    /// The content that [`Self::read`] parses.
    pub fn written(self) -> Vec<u8> {
        let Self { width, height } = self;
        let content = json!({ "Width": width, "Height": height });
        content.to_string().into_bytes()
    }
}

/// The final status of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The command succeeded.
    Done,
    /// The command failed or could not start; has the error in the form of Kubernetes' clients.
    Failed(String),
}

impl End {
    /// Parses the `Status` on its channel.
    pub fn read(content: &[u8]) -> Self {
        let status: Value = serde_json::from_slice(content).unwrap_or_default();
        let text = |name| status.get(name).and_then(Value::as_str);
        if text("status") == Some("Success") {
            return Self::Done;
        }
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        let mut causes = causes.into_iter().flatten();
        let code = causes.find(|cause| cause.get("reason").is_some_and(|it| it == "ExitCode"));
        let code = code.and_then(|cause| cause.get("message")?.as_str()?.parse::<u8>().ok());
        match code.filter(|_| text("reason") == Some(NON_ZERO)) {
            Some(code) => Self::Failed(format!("{EXITED}{code}")),
            None => Self::Failed(text("message").unwrap_or("it failed").to_owned()),
        }
    }

    /// The `Status` for its channel.
    pub fn written(&self) -> Vec<u8> {
        let status = match self {
            Self::Done => json!({ "metadata": {}, "status": "Success" }),
            Self::Failed(why) => failure(why),
        };
        status.to_string().into_bytes()
    }
}

fn failure(why: &str) -> Value {
    let code = why
        .strip_prefix(EXITED)
        .and_then(|it| it.parse::<u8>().ok());
    match code {
        Some(code) => json!({
            "metadata": {}, "status": "Failure", "reason": NON_ZERO,
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
        }),
        None => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "message": why, "code": 500,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn first_byte_selects_the_channel() {
        assert_eq!(
            Channel::read(b"\0ls\n"),
            Some((Channel::Keys, &b"ls\n"[..]))
        );
        assert_eq!(Channel::read(b"\x01"), Some((Channel::Screen, &b""[..])));
        assert_eq!(Channel::read(&[255, 0]), Some((Channel::Closed, &[0][..])));
        for unknown in [&b""[..], b"\x05x", b"{}"] {
            assert_eq!(Channel::read(unknown), None);
        }
        let [better, other] = PROTOCOLS;
        assert_eq!(Channel::no_more_keys(better), Some(vec![255, 0]));
        assert_eq!(Channel::no_more_keys(other), None);
    }

    #[test]
    fn first_supported_protocol_of_the_client_is_chosen() {
        for (offered, spoken) in [
            (
                &["v5.channel.k8s.io,v4.channel.k8s.io"][..],
                Some(PROTOCOLS[0]),
            ),
            (
                &["x, v4.channel.k8s.io", "v5.channel.k8s.io"],
                Some(PROTOCOLS[1]),
            ),
            (&["v4.base64.channel.k8s.io", "channel.k8s.io"], None),
            (&[], None),
        ] {
            assert_eq!(chosen(offered.iter().copied()), spoken, "{offered:?}");
        }
    }

    #[test]
    fn exit_code_has_the_form_of_kubernetes() {
        let kubelet = json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: exit status 3",
            "details": { "causes": [{ "reason": "ExitCode", "message": "3" }] },
        });
        let end = End::read(kubelet.to_string().as_bytes());
        assert_eq!(
            end,
            End::Failed("command terminated with exit code 3".to_owned())
        );
        let written: Value = serde_json::from_slice(&end.written()).unwrap();
        assert_eq!(written, kubelet);
        assert!(matches!(End::read(b"not JSON"), End::Failed(_)));
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            channel in prop::sample::select(&Channel::ALL), content: Vec<u8>,
            width: u16, height: u16, why in "(command terminated with exit code )?[a-z0-9 ]{1,9}",
        ) {
            let message = channel.emits(&content);
            prop_assert_eq!(Channel::read(&message), Some((channel, content.as_slice())));
            let size = Size { width, height };
            prop_assert_eq!(Size::read(&size.written()), Some(size));
            for end in [End::Done, End::Failed(why)] {
                let read = End::read(&end.written());
                // An exit code is normalised to its number.
                let is_same = read == end || matches!((&read, &end), (End::Failed(one), End::Failed(other))
                    if other.trim_start_matches(EXITED).parse::<u8>() == one.trim_start_matches(EXITED).parse());
                prop_assert!(is_same, "{end:?} is read as {read:?}");
            }
        }

        #[test]
        fn garbage_never_panics(content: Vec<u8>) {
            let _any = (Channel::read(&content), Size::read(&content), End::read(&content));
        }
    }
}
