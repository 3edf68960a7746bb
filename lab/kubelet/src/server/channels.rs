//! The messages on the WebSocket of a command: each begins with the number of its channel.
//! Pure. (`v4.channel.k8s.io` and `v5.channel.k8s.io`, which adds the end of a channel.)

use http::{HeaderMap, header};
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

const STDIN: u8 = 0;
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;
pub(super) const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// The supported protocols, the best first.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// The best protocol that the client supports too.
pub(super) fn protocol(headers: &HeaderMap) -> Option<&'static str> {
    let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let spoken: Vec<&str> = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .collect();
    PROTOCOLS.into_iter().find(|known| spoken.contains(known))
}

/// A message of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientMessage {
    /// Data for the command's standard input.
    Input(Bytes),
    /// The end of the standard input.
    InputEnds,
    /// The size of the client's window.
    Size { columns: u16, rows: u16 },
    /// A message without a meaning here.
    Nothing,
}

/// The size of a window, as clients encode it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

/// Reads a message.
pub(super) fn read(mut message: Bytes) -> ClientMessage {
    match message.first().copied() {
        Some(STDIN) => ClientMessage::Input(message.split_off(1)),
        Some(CLOSE) if *message == [CLOSE, STDIN] => ClientMessage::InputEnds,
        Some(RESIZE) => serde_json::from_slice(&message.split_off(1)).map_or(
            ClientMessage::Nothing,
            |Size { width, height }| ClientMessage::Size {
                columns: width,
                rows: height,
            },
        ),
        Some(_) | None => ClientMessage::Nothing,
    }
}

/// Writes a message.
pub(super) fn write(channel: u8, text: &[u8]) -> Bytes {
    [&[channel], text].concat().into()
}

/// The result of a command, as a `Status` with upstream's texts.
pub(super) fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

/// The result of a command that could not run to its end.
pub(super) fn failed(why: &str) -> Value {
    json!({
        "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
        "message": format!("error executing command in container: {why}"),
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_best_common_protocol_is_spoken() {
        let speaks = |line: &'static str| {
            let line = HeaderValue::from_static(line);
            protocol(&HeaderMap::from_iter([(
                header::SEC_WEBSOCKET_PROTOCOL,
                line,
            )]))
        };
        assert_eq!(
            speaks("v4.channel.k8s.io, v5.channel.k8s.io"),
            Some("v5.channel.k8s.io")
        );
        assert_eq!(speaks("v4.channel.k8s.io"), Some("v4.channel.k8s.io"));
        assert_eq!(speaks("base64.channel.k8s.io"), None);
        assert_eq!(protocol(&HeaderMap::new()), None);
    }

    #[test]
    fn messages_are_read_by_their_channel() {
        let stated = |message: &[u8]| read(Bytes::copy_from_slice(message));
        assert_eq!(
            stated(b"\0ls\n"),
            ClientMessage::Input(Bytes::from_static(b"ls\n"))
        );
        assert_eq!(stated(&[255, 0]), ClientMessage::InputEnds);
        let size = ClientMessage::Size {
            columns: 80,
            rows: 24,
        };
        assert_eq!(stated(b"\x04{\"Width\":80,\"Height\":24}"), size);
        for nothing in [
            &b""[..],
            b"\x01x",
            b"\x04{",
            b"\x04{\"Width\":-1,\"Height\":70000}",
            &[255, 1],
        ] {
            assert_eq!(stated(nothing), ClientMessage::Nothing, "{nothing:?}");
        }
    }

    #[test]
    fn an_exit_code_is_reported_as_a_status() {
        assert_eq!(ended(0)["status"], "Success");
        let cause = &ended(3)["details"]["causes"][0];
        assert_eq!(cause, &json!({ "reason": "ExitCode", "message": "3" }));
        assert_eq!(*write(STDERR, b"oh"), *b"\x02oh");
    }
}
