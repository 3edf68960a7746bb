//! nginx.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{PORT, Passing, write};
use crate::process::Program;

/// The command that starts it.
pub(super) fn program(
    path: PathBuf,
    directory: &Path,
    passing: Passing,
    agent: &str,
) -> Result<Program> {
    let text = configuration(passing, agent, directory);
    let file = write(directory, "nginx.conf", &text)?;
    let program = Program::new("nginx", path, directory);
    Ok(program
        .arg("-p")
        .arg(directory.as_os_str())
        .arg("-c")
        .arg(file)
        .arg("-e")
        .arg("stderr"))
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

/// Debian has the module in a package of its own; elsewhere it may be built in.
fn stream_module() -> Option<PathBuf> {
    let path = PathBuf::from("/usr/lib/nginx/modules/ngx_stream_module.so");
    path.exists().then_some(path)
}
