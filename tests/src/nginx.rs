//! nginx, the real one, between an agent and a principal on the loopback.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::{
    certs::Pair,
    process::{Process, Program},
    tools, wait,
};

/// The common name of its client certificate, by which a principal knows it.
pub const NAME: &str = "edge-proxy";
/// Its port.
pub const PORT: u16 = 18543;

/// What it shows to agents and to the principal, and whom it trusts to be the principal.
#[derive(Debug)]
pub struct Papers {
    /// For agents.
    pub serving: Pair,
    /// For the principal.
    pub client: Pair,
    /// The CA of the principal's certificate, PEM.
    pub authority: String,
}

/// How it passes on what comes; the texts are those of docs/network.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// Bytes as they are, TLS and all.
    Through,
    /// Ends TLS and speaks HTTP/2.
    Http2,
    /// Ends TLS and speaks HTTP/1.1 only.
    Http1,
    /// As the sidecar of a mesh does: plaintext on both sides, and a header that says who it is.
    Mesh,
}

/// Starts it in front of a principal on port 8443 of the loopback, and waits until it listens.
pub async fn start(
    directory: &Path,
    passing: Passing,
    papers: &Papers,
    agent: &str,
) -> Result<Process> {
    let path = tools::nginx().context("nginx not found; `make tools` installs it")?;
    let directory = directory.join("nginx");
    fs::create_dir_all(&directory).context("make nginx's directory")?;
    for (name, text) in [
        ("serving.crt", &papers.serving.cert),
        ("serving.key", &papers.serving.key),
        ("client.crt", &papers.client.cert),
        ("client.key", &papers.client.key),
        ("ca.crt", &papers.authority),
        ("nginx.conf", &configuration(passing, agent, &directory)),
    ] {
        fs::write(directory.join(name), text).with_context(|| format!("write {name}"))?;
    }
    let program = Program::new("nginx", path, &directory)
        .arg("-p")
        .arg(directory.as_os_str())
        .arg("-c")
        .arg(directory.join("nginx.conf"))
        .arg("-e")
        .arg("stderr");
    let mut process = program.start()?;
    let look = || async {
        Ok(tokio::net::TcpStream::connect(("127.0.0.1", PORT))
            .await
            .is_ok())
    };
    let listening =
        wait::until_within(Duration::from_secs(20), "nginx listens", look, |up| *up).await;
    process.check()?;
    listening?;
    Ok(process)
}

fn configuration(passing: Passing, agent: &str, directory: &Path) -> String {
    let here = directory.display();
    let module = stream_module().map_or_else(String::new, |path| {
        format!("load_module {};\n", path.display())
    });
    let head = format!(
        "user root;\ndaemon off;\nmaster_process off;\nworker_processes 1;\npid {here}/nginx.pid;\nerror_log stderr info;\n\
         events {{ worker_connections 256; }}\n"
    );
    if passing == Passing::Through {
        return format!(
            "{module}{head}stream {{\n  server {{\n    listen 127.0.0.1:{PORT};\n    proxy_pass 127.0.0.1:8443;\n    \
             proxy_timeout 60s;\n  }}\n}}\n"
        );
    }
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths = kinds
        .map(|kind| format!("  {kind}_temp_path {here}/{kind};\n"))
        .concat();
    let server = server(passing, agent);
    format!("{head}http {{\n  access_log {here}/access.log;\n{paths}{server}}}\n")
}

fn server(passing: Passing, agent: &str) -> String {
    let tls = "    ssl_certificate serving.crt;\n    ssl_certificate_key serving.key;\n    ssl_protocols TLSv1.3;\n";
    let onward = |kind: &str| {
        [
            ("certificate", "client.crt"),
            ("certificate_key", "client.key"),
            ("trusted_certificate", "ca.crt"),
            ("verify", "on"),
            ("name", "localhost"),
            ("protocols", "TLSv1.3"),
        ]
        .map(|(what, value)| format!("      {kind}_ssl_{what} {value};\n"))
        .concat()
    };
    match passing {
        Passing::Through => String::new(),
        Passing::Http2 => format!(
            "  server {{\n    listen 127.0.0.1:{PORT} ssl http2;\n{tls}    client_max_body_size 0;\n    location / {{\n      \
             grpc_pass grpcs://127.0.0.1:8443;\n{}      grpc_read_timeout 60s;\n      grpc_send_timeout 60s;\n    }}\n  }}\n",
            onward("grpc")
        ),
        Passing::Http1 => format!(
            "  server {{\n    listen 127.0.0.1:{PORT} ssl;\n{tls}    location / {{\n      proxy_pass https://127.0.0.1:8443;\n      \
             proxy_http_version 1.1;\n      proxy_set_header Upgrade $http_upgrade;\n      \
             proxy_set_header Connection \"Upgrade\";\n{}      proxy_read_timeout 60s;\n      proxy_send_timeout 60s;\n    }}\n  }}\n",
            onward("proxy")
        ),
        Passing::Mesh => format!(
            "  server {{\n    listen 127.0.0.1:{PORT} http2;\n    client_max_body_size 0;\n    location / {{\n      \
             grpc_pass grpc://127.0.0.1:8443;\n      grpc_set_header x-client-id {agent};\n      grpc_read_timeout 60s;\n    }}\n  }}\n"
        ),
    }
}

/// Debian has it in a package of its own; elsewhere it may be built in.
fn stream_module() -> Option<PathBuf> {
    let path = PathBuf::from("/usr/lib/nginx/modules/ngx_stream_module.so");
    path.exists().then_some(path)
}
