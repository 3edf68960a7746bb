//! Translation of terminal requests and frames.

use http::{HeaderMap, HeaderValue};
use live::channels::{Channel, End, PROTOCOLS, Size};
use protocol::wire::terminalstreamapi::TerminalStreamData;

use super::{super::terminal::*, *};

const EXEC: &str =
    "/api/v1/namespaces/shop/pods/x/exec?command=sh&command=-c&container=c&tty=true&stdin=true";

fn headers(upgrade: &'static str, protocols: &'static str) -> HeaderMap {
    let pairs = [
        ("x-stream-upgrade", upgrade),
        ("sec-websocket-protocol", protocols),
        ("sec-websocket-key", "x"),
    ];
    let pairs = pairs.map(|(name, value)| {
        let value = HeaderValue::from_static(value);
        (name.parse::<http::HeaderName>().unwrap(), value)
    });
    HeaderMap::from_iter(pairs)
}

fn translated(
    mode: Mode,
    method: &str,
    target: &str,
    headers: &HeaderMap,
) -> Result<Translated, Refused> {
    translate_exec(mode, &parse(method, target), headers)
}

#[test]
fn terminal_request_is_translated_in_managed_mode_only() {
    let [better, other] = PROTOCOLS;
    let socket = headers("websocket", "v5.channel.k8s.io, v4.channel.k8s.io");
    let Translated {
        request, protocol, ..
    } = translated(Mode::Managed, "GET", EXEC, &socket).unwrap();
    assert_eq!(protocol, better);
    assert_eq!(request.command, ["sh", "-c"]);
    let named = [request.namespace, request.pod_name, request.container_name];
    assert_eq!(named, ["shop", "x", "c"]);
    assert_eq!(
        (request.tty, request.stdin, request.stderr),
        (true, true, false)
    );
    let older = headers("websocket", "v4.channel.k8s.io");
    let older = translated(Mode::Managed, "GET", EXEC, &older).unwrap();
    assert_eq!(older.protocol, other);

    let autonomous = translated(Mode::Autonomous, "GET", EXEC, &socket);
    assert_eq!(autonomous.unwrap_err(), Refused::Mode);
    for unfit in [
        headers("SPDY/3.1", "v4.channel.k8s.io"),
        headers("websocket", "v4.base64.channel.k8s.io"),
        HeaderMap::new(),
    ] {
        let refused = translated(Mode::Managed, "GET", EXEC, &unfit).unwrap_err();
        assert_eq!(refused, Refused::Protocol, "{unfit:?}");
    }
    let refused = translated(
        Mode::Managed,
        "DELETE",
        "/api/v1/namespaces/shop/pods/x/exec",
        &socket,
    );
    assert!(matches!(refused, Err(Refused::Forbidden(_))), "{refused:?}");
}

#[test]
fn terminal_input_is_split_to_go_buffer_size() {
    let typed = vec![b'x'; 100_000];
    let message = Bytes::from(Channel::Keys.emits(&typed));
    let input = encode_input(&message, "u");
    assert!(
        input
            .iter()
            .all(|it| it.data.len() <= 16 << 10 && it.request_uuid == "u")
    );
    let whole: Vec<u8> = input.iter().flat_map(|it| it.data.to_vec()).collect();
    assert_eq!(whole, typed);
    let resized = Size {
        width: 3,
        height: 2,
    };
    let resized = Bytes::from(Channel::Size.emits(&resized.written()));
    let [resized] = encode_input(&resized, "u").try_into().unwrap();
    assert_eq!((resized.resize, resized.cols, resized.rows), (true, 3, 2));
    let [closed] = encode_input(&Bytes::from_static(&[255, 0]), "u")
        .try_into()
        .unwrap();
    assert!(closed.eof);
    for nothing in [&b""[..], b"\0", b"\x01forged", b"\x04garbage", b"\x09"] {
        assert_eq!(
            encode_input(&Bytes::from_static(nothing), "u"),
            [],
            "{nothing:?}"
        );
    }
}

#[test]
fn go_terminal_frames_are_translated_with_their_end() {
    let input = |data: &'static [u8], stream: &str| TerminalStreamData {
        data: Bytes::from_static(data),
        stream_type: stream.to_owned(),
        ..TerminalStreamData::default()
    };
    assert_eq!(
        decode_frame(&input(b"x", "stdout")),
        Output::Message(b"\x01x".to_vec())
    );
    assert_eq!(
        decode_frame(&input(b"x", "stderr")),
        Output::Message(b"\x02x".to_vec())
    );
    assert_eq!(
        decode_frame(&input(b"", "")),
        Output::Nothing,
        "the handshake"
    );
    let eof = TerminalStreamData {
        eof: true,
        ..input(b"", "")
    };
    assert_eq!(decode_frame(&eof), Output::End(End::Done));
    let error = TerminalStreamData {
        error: "no such shell".to_owned(),
        ..input(b"", "")
    };
    assert_eq!(
        decode_frame(&error),
        Output::End(End::Failed("no such shell".to_owned()))
    );
}
