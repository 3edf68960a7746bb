//! The end of the demo: Argo CD's server of the hub with the pages of the add-on, open to a browser outside the lab.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Lab,
    namespaces::relay::relay,
    progress::print,
    steps::{
        Objects,
        ui::{Server, switch_on},
    },
};

/// The path of the fleet page in Argo CD's UI.
const FLEET: &str = "/fleet";

/// The server, and the way to it from outside.
#[derive(Debug)]
pub(super) struct Pages {
    /// The port of the caller's loopback that leads to it.
    port: u16,
    password: String,
    has_ui: bool,
    _relay: AbortOnDropHandle<()>,
}

impl Pages {
    /// Switches the pages on, and leads the connections to a port of the lab's loopback to the server.
    pub(super) async fn open(lab: &Lab, (inside, outside): (u16, u16)) -> Result<Self> {
        switch_on(lab, &["placement.enabled=false"]).await?;
        let server = Server::of(&Objects::new(lab.hub().client())).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, inside)).await;
        let listener = listener.context("listen for a browser")?;
        let ip: IpAddr = server.ip.parse().context("the server's IP")?;
        let relaying = relay(listener, (ip, 443).into());
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the demo, which owns it"
        )]
        let relay = AbortOnDropHandle::new(tokio::spawn(relaying));
        Ok(Self {
            port: outside,
            has_ui: server.has_ui().await?,
            password: server.password,
            _relay: relay,
        })
    }

    /// Prints the URL and the login, and how to open the fleet page.
    pub(super) fn show(&self) {
        let url = format!("https://127.0.0.1:{}", self.port);
        print("");
        print(format_args!(
            "Argo CD on the hub: {url}   login: admin / {}   (it has signed its certificate itself)",
            self.password
        ));
        if self.has_ui {
            print(format_args!("The fleet page: xdg-open {url}{FLEET}"));
        } else {
            print(
                "This Argo CD was built without its UI, so it serves the API only, and no fleet page opens; set ARGOCD_UI_BIN to one \
                 with the UI (docs/testing.md).",
            );
        }
    }
}
