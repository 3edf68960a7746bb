//! One page in a browser, and what a user does there.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use lab::{
    steps::ui::Server,
    tools::browser::{Browser, Driver, Site},
};
use serde_json::{Value, json};

use super::is_real;
use crate::stage::SOON;

/// The colours that the user prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Theme {
    Light,
    Dark,
}

impl Theme {
    /// Its name in the query of the shell, and for the browser.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A browser with one page. It ends when this is dropped.
pub(super) struct Page {
    driver: Driver,
}

impl Page {
    /// Starts a browser in front of Argo CD's UI, or of the stand-in for its shell.
    pub(super) async fn start(browser: &Browser, server: &Server, log: &Path) -> Result<Self> {
        let site = Site {
            host: &server.ip,
            certificate: &server.certificate,
            is_real: is_real(),
        };
        let driver = Driver::start(browser, site, log).await?;
        Ok(Self { driver })
    }

    /// A new page with the session of a user.
    pub(super) async fn becomes(&mut self, token: &str, theme: Theme) -> Result<()> {
        self.does("viewer", json!({"token": token, "theme": theme.name()}))
            .await
            .map(drop)
    }

    async fn does(&mut self, name: &str, request: Value) -> Result<Value> {
        self.driver.does(name, request).await
    }

    /// Goes to a path of the origin.
    pub(super) async fn goes(&mut self, path: &str) -> Result<()> {
        self.does("open", json!({ "path": path })).await.map(drop)
    }

    /// Waits until the page shows all of these texts, and returns all that it shows then.
    pub(super) async fn until_shows(&mut self, texts: &[&str]) -> Result<String> {
        self.until("body", texts, &[]).await
    }

    /// Waits until a part of the page shows these texts, and none of the others.
    pub(super) async fn until(
        &mut self,
        selector: &str,
        texts: &[&str],
        without: &[&str],
    ) -> Result<String> {
        let within = u64::try_from(SOON.as_millis())?;
        let request =
            json!({"selector": selector, "texts": texts, "without": without, "within": within});
        let shown = self.does("until", request).await?;
        Ok(shown.as_str().unwrap_or_default().to_owned())
    }

    /// Clicks on what has this role and name.
    pub(super) async fn clicks(&mut self, role: &str, name: &str) -> Result<()> {
        let target = json!({"role": role, "name": name});
        self.does("click", target).await.map(drop)
    }

    /// Clicks on the first element of a selector.
    pub(super) async fn clicks_at(&mut self, selector: &str) -> Result<()> {
        let target = json!({ "selector": selector });
        self.does("click", target).await.map(drop)
    }

    /// How many elements a selector has.
    pub(super) async fn count(&mut self, selector: &str) -> Result<u64> {
        let counted = self.does("count", json!({ "selector": selector })).await?;
        counted.as_u64().context("a number")
    }

    /// Writes a value into the field with this role and name.
    pub(super) async fn fills(&mut self, role: &str, name: &str, value: &str) -> Result<()> {
        let target = json!({"role": role, "name": name, "value": value});
        self.does("fill", target).await.map(drop)
    }

    /// Writes a value into the first element of a selector.
    pub(super) async fn fills_at(&mut self, selector: &str, value: &str) -> Result<()> {
        let target = json!({"selector": selector, "value": value});
        self.does("fill", target).await.map(drop)
    }

    /// Chooses an option of the list with this name.
    pub(super) async fn chooses(&mut self, name: &str, value: &str) -> Result<()> {
        let target = json!({"role": "combobox", "name": name, "value": value});
        self.does("choose", target).await.map(drop)
    }

    /// Presses a key.
    pub(super) async fn presses(&mut self, key: &str) -> Result<()> {
        self.does("press", json!({ "key": key })).await.map(drop)
    }

    /// Types into the focused field.
    pub(super) async fn types(&mut self, text: &str) -> Result<()> {
        self.does("type", json!({ "value": text })).await.map(drop)
    }

    /// Scrolls a part of the page down.
    pub(super) async fn scrolls(&mut self, selector: &str, pixels: u32) -> Result<()> {
        let request = json!({"selector": selector, "by": pixels});
        self.does("scroll", request).await.map(drop)
    }

    /// The focused element: `role`, `name`, and `key` and `table` of a row.
    pub(super) async fn focused(&mut self) -> Result<Value> {
        self.does("focused", json!({})).await
    }

    /// Presses a key until the focus is on an element that fits, at most this often.
    pub(super) async fn presses_until(
        &mut self,
        key: &str,
        most: usize,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let mut seen = Vec::new();
        for _ in 0..most {
            self.presses(key).await?;
            let focused = self.focused().await?;
            if fits(&focused) {
                return Ok(());
            }
            seen.push(focused.to_string());
        }
        bail!("{key} leads to none of that: {}", seen.join("\n"))
    }

    /// A fixture: this answer in place of that of the server, for all addresses with this text.
    pub(super) async fn answers(&mut self, containing: &str, body: &Value) -> Result<()> {
        let request = json!({"containing": containing, "body": body.to_string()});
        self.does("answer", request).await.map(drop)
    }

    /// A request of the page about an Application of a project: its status and its body.
    pub(super) async fn asks(
        &mut self,
        target: &str,
        (namespace, name): (&str, &str),
        project: &str,
    ) -> Result<(u64, String)> {
        let application = format!("{namespace}:{name}");
        let headers =
            json!({"Argocd-Application-Name": application, "Argocd-Project-Name": project});
        let request = json!({"path": target, "headers": headers});
        let answer = self.does("request", request).await?;
        let status = answer["status"].as_u64().context("a status")?;
        Ok((
            status,
            answer["body"].as_str().unwrap_or_default().to_owned(),
        ))
    }

    /// Fails if the page was refused something by its policy, threw an error or executed a text.
    pub(super) async fn is_innocent(&mut self) -> Result<()> {
        // The errors of Argo CD's own pages are not ours.
        let own = json!({"executedOnly": is_real()});
        let faults = self.does("faults", own).await?;
        ensure!(faults == json!([]), "{faults:#}");
        Ok(())
    }

    /// How often the page was loaded since [`becomes`](Self::becomes).
    pub(super) async fn loads(&mut self) -> Result<u64> {
        let loads = self.does("loads", json!({})).await?;
        loads.as_u64().context("a number")
    }

    /// The milliseconds of the longest task since the page was opened.
    pub(super) async fn longest_task(&mut self) -> Result<f64> {
        let longest = self.does("longest", json!({})).await?;
        longest.as_f64().context("a number")
    }

    /// Fails if axe-core finds something serious.
    pub(super) async fn is_accessible(&mut self) -> Result<()> {
        let found = self.does("axe", json!({})).await?;
        ensure!(found == json!([]), "axe-core: {found:#}");
        Ok(())
    }

    /// Saves a picture of the page.
    pub(super) async fn picture(&mut self, file: &Path) -> Result<()> {
        self.does("picture", json!({ "file": file }))
            .await
            .map(drop)
    }
}
