use std::{
    ffi::OsString,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Sender},
    thread,
};

use serde_json::json;

use super::*;
use crate::args;

/// An API server without objects; sends each line with a method and a path.
fn empty_api(lines: Sender<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let lines = lines.clone();
            thread::spawn(move || {
                let mut request = [0; 8 << 10];
                let read = stream.read(&mut request).unwrap_or(0);
                let request = String::from_utf8_lossy(request.get(..read).unwrap());
                drop(lines.send(request.lines().next().unwrap_or_default().to_owned()));
                let body = json!({"kind": "Status", "code": 404, "reason": "NotFound"}).to_string();
                let length = body.len();
                drop(write!(
                    stream,
                    "HTTP/1.1 404 Not Found\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                ));
            });
        }
    });
    format!("http://{address}")
}

fn get(address: &str, path: &str) -> String {
    let mut answer = String::new();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DRAIN)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn lease_and_probes_work_while_all_other_threads_are_blocked() {
    runtime::install_crypto_provider();
    let (send, lines) = mpsc::channel();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let access = json!({
        "clusters": [{"name": "c", "cluster": {"server": empty_api(send)}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": ""}}],
        "current-context": "x",
    });
    std::fs::write(&kubeconfig, access.to_string()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let line = format!(
        "addon-manager --own-namespace=ours --admin-listen-address=127.0.0.1 --healthz-port={port} \
         --metrics-port=0 --kubeconfig={}",
        kubeconfig.display()
    );
    let arguments = line.split_whitespace().map(OsString::from);
    let config = Config::from_args(args::parse(arguments).unwrap().cli).unwrap();

    let main = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (blocked, is_blocked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    main.spawn(async move {
        blocked.send(()).unwrap();
        released.recv().unwrap_err();
    });
    is_blocked.recv().unwrap();
    let token = CancellationToken::new();
    let asked = token.clone();
    let program = thread::spawn(move || main.block_on(run_until(config, asked)));

    let lease = "/apis/coordination.k8s.io/v1/namespaces/ours/leases";
    let written = format!("POST {lease}? HTTP/1.1");
    while lines.recv_timeout(DRAIN).expect("a write of the lease") != written {}
    let answer = get(&format!("127.0.0.1:{port}"), "/livez");
    assert!(answer.ends_with("ok"), "{answer}");
    token.cancel();
    drop(release);
    drop(program.join().unwrap());
}
