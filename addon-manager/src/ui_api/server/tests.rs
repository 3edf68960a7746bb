use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use runtime::parts::Parts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const REQUEST: &[u8] = b"GET /x HTTP/1.1\r\nHost: hub\r\n\r\n";
const LAST: &[u8] = b"GET /x HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n";

fn limits() -> Limits {
    Limits {
        connections: 2,
        requests: 1,
        time: Duration::from_millis(500),
        head: 16 << 10,
    }
}

/// A server that answers after `answer`; it ends with its parts.
async fn server<A, F>(limits: Limits, answer: A) -> (SocketAddr, Parts)
where
    A: Fn(request::Parts) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let parts = Parts::new(CancellationToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    parts.spawn("server", run(listener, limits, parts.spawner(), answer));
    (address, parts)
}

async fn path(head: request::Parts) -> Answer {
    answer::error(StatusCode::OK, head.uri.path(), "")
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// All that the server sends until it closes the connection.
async fn rest(mut client: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end, too.
    drop(client.read_to_end(&mut text).await);
    String::from_utf8(text).unwrap()
}

async fn asked(mut client: TcpStream, request: &[u8]) -> String {
    client.write_all(request).await.unwrap();
    rest(client).await
}

/// Reads until the end of an answer.
async fn one_answer(client: &mut TcpStream) -> String {
    let mut text = String::new();
    while !text.ends_with('}') {
        let mut piece = [0; 1024];
        let count = client.read(&mut piece).await.unwrap();
        assert!(count > 0, "closed after {text:?}");
        text.push_str(str::from_utf8(&piece[..count]).unwrap());
    }
    text
}

#[tokio::test]
async fn connection_over_the_bound_waits_for_another_to_end() {
    let limits = Limits {
        time: Duration::from_secs(10),
        ..limits()
    };
    let (address, _parts) = server(limits, path).await;
    let mut open = Vec::new();
    for _ in 0..limits.connections {
        let mut client = connect(address).await;
        client.write_all(REQUEST).await.unwrap();
        assert!(one_answer(&mut client).await.starts_with("HTTP/1.1 200"));
        open.push(client);
    }
    let mut waits = connect(address).await;
    waits.write_all(LAST).await.unwrap();
    let mut piece = [0; 1];
    let answered = timeout(Duration::from_millis(50), waits.read(&mut piece)).await;
    assert!(answered.is_err(), "it must wait");
    open.clear();
    assert!(rest(waits).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn client_that_sends_no_request_is_cut_off() {
    let (address, _parts) = server(limits(), path).await;
    let (one, other) = (connect(address).await, connect(address).await);
    let (one, other) = tokio::join!(asked(one, b"GET /x HT"), asked(other, b""));
    assert!(!(one + &other).contains(" 200 "));
    // The bound is free again.
    assert!(asked(connect(address).await, LAST).await.contains(" 200 "));
}

#[tokio::test]
async fn client_that_does_not_read_is_cut_off() {
    // More than the buffers of both sockets.
    let body = bytes::Bytes::from(vec![b'x'; 64 << 20]);
    let large = move |_head| {
        let answer = Answer::new(http_body_util::Full::new(body.clone()));
        async move { answer }
    };
    let (address, parts) = server(limits(), large).await;
    let mut slow = connect(address).await;
    slow.write_all(REQUEST).await.unwrap();
    let mut others = Vec::new();
    for _ in 1..limits().connections {
        let mut other = connect(address).await;
        other.write_all(REQUEST).await.unwrap();
        others.push(other);
    }
    // Answered only when one of the slow ones is gone.
    let mut next = connect(address).await;
    next.write_all(REQUEST).await.unwrap();
    let mut piece = [0; 12];
    next.read_exact(&mut piece).await.unwrap();
    assert_eq!(&piece, b"HTTP/1.1 200");
    drop(parts);
}

#[tokio::test]
async fn head_over_the_bound_is_refused() {
    let (address, _parts) = server(limits(), path).await;
    let long = format!(
        "GET /x HTTP/1.1\r\nHost: hub\r\nX: {}\r\n\r\n",
        "a".repeat(20 << 10)
    );
    let answer = asked(connect(address).await, long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test]
async fn request_over_the_bound_waits_and_is_then_refused() {
    let stuck = |_head| std::future::pending::<Answer>();
    let (address, _parts) = server(limits(), stuck).await;
    let (one, other) = (connect(address).await, connect(address).await);
    let (one, other) = tokio::join!(asked(one, LAST), asked(other, LAST));
    for answer in [one, other] {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("too busy"), "{answer}");
    }
}

#[tokio::test]
async fn requests_are_answered_one_after_the_other_within_the_bound() {
    static NOW: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let counted = |head| async move {
        MOST.fetch_max(NOW.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        NOW.fetch_sub(1, Ordering::SeqCst);
        path(head).await
    };
    let limits = Limits {
        connections: 8,
        requests: 1,
        ..Limits::default()
    };
    let (address, _parts) = server(limits, counted).await;
    let clients = (0..8).map(|_| async { asked(connect(address).await, LAST).await });
    for answer in futures::future::join_all(clients).await {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(MOST.load(Ordering::SeqCst), limits.requests);
}

#[tokio::test]
async fn open_connections_do_not_delay_the_end_of_the_program() {
    let (address, parts) = server(Limits::default(), path).await;
    let mut idle = connect(address).await;
    idle.write_all(REQUEST).await.unwrap();
    one_answer(&mut idle).await;
    parts.spawner().token().cancel();
    let ended = timeout(
        Duration::from_secs(5),
        parts.run_until_stopped(Duration::from_secs(5)),
    );
    assert!(ended.await.unwrap().is_ok());
    assert_eq!(rest(idle).await, "");
}
