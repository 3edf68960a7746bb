//! The program `haproxy`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Credentials, PORT, Passing, write};
use crate::process::Program;

/// The command that starts it.
pub(super) fn program(
    path: PathBuf,
    directory: &Path,
    passing: Passing,
    credentials: &Credentials,
    agent: &str,
) -> Result<Program> {
    // It reads a certificate and its key from one file.
    for (name, pair) in [
        ("serving.pem", &credentials.serving),
        ("client.pem", &credentials.client),
    ] {
        write(directory, name, &format!("{}{}", pair.cert, pair.key))?;
    }
    let file = write(directory, "haproxy.cfg", &configuration(passing, agent))?;
    let program = Program::new("haproxy", path, directory);
    Ok(program
        .arg("-C")
        .arg(directory.as_os_str())
        .arg("-f")
        .arg(file)
        .arg("-db"))
}

fn configuration(passing: Passing, agent: &str) -> String {
    let mode = if passing == Passing::Through {
        "tcp"
    } else {
        "http"
    };
    let tls = "ssl crt serving.pem ssl-min-ver TLSv1.3";
    let onward = "ssl crt client.pem ca-file ca.crt verify required verifyhost localhost";
    let (bind, header, server) = match passing {
        Passing::Through => (String::new(), String::new(), String::new()),
        Passing::Http2 => (
            format!(" {tls} alpn h2"),
            String::new(),
            format!(" {onward} alpn h2"),
        ),
        Passing::Http1 => (
            format!(" {tls} alpn http/1.1"),
            String::new(),
            format!(" {onward} alpn http/1.1"),
        ),
        Passing::Mesh => (
            " proto h2".to_owned(),
            format!("  http-request set-header x-client-id {agent}\n"),
            " proto h2".to_owned(),
        ),
    };
    format!(
        "global\n  maxconn 256\n  log stderr format raw local0 info\ndefaults\n  mode {mode}\n  log global\n  timeout connect 5s\n  \
         timeout client 60s\n  timeout server 60s\n  timeout tunnel 60s\nfrontend agents\n  bind 127.0.0.1:{PORT}{bind}\n{header}  \
         default_backend principal\nbackend principal\n  server principal 127.0.0.1:8443{server}\n"
    )
}
