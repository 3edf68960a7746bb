//! A browser for the tests of the UI: Chromium of the machine, and Node with the modules that `ui/package.json` pins.
//!
//! The sources in `ui` are copied to `target/tools/ui`. There `npm ci` installs the modules once for each lock file, and the stand-in
//! for Argo CD's shell is built. Only the tests of the UI need all of this: where a part cannot be installed, [`ensure`] prints the
//! reason, and those tests are ignored with the name of the [missing] part.

mod driver;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};

use super::{directory, executable, locked, on_path, output, packages, workspace};
use crate::progress::print;

pub use driver::{Driver, Site};

/// The variable with the path of another Chromium.
const CHROMIUM: &str = "CHROMIUM_BIN";
/// What the tests name as missing without Node, and without the modules.
const NODE: &str = "NODE";
const MODULES: &str = "NPM";
/// The programs of Chromium's packages.
const BROWSERS: [&str; 3] = ["chromium", "google-chrome", "google-chrome-stable"];
/// The first version of Node that the modules support.
const OLDEST_NODE: u32 = 20;
/// The folder of installed modules.
const INSTALLED: &str = "node_modules";
/// The modules that the tests import.
const IMPORTED: [&str; 2] = ["playwright-core", "axe-core"];

/// The parts of a browser that a script drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    /// Chromium.
    pub chromium: PathBuf,
    /// Node.
    pub node: PathBuf,
    /// The copy of `ui`, with the modules.
    pub sources: PathBuf,
    /// The folder of the stand-in for Argo CD's shell, as it was built there.
    pub shell: PathBuf,
}

impl Browser {
    /// Finds all parts, or names the missing one.
    pub fn find() -> Result<Self> {
        Self::parts().map_err(|part| {
            anyhow::anyhow!("{part} not found; `make tools` installs it, or prints why it cannot")
        })
    }

    fn parts() -> Result<Self, &'static str> {
        let sources = directory().join("ui");
        let modules = sources.join(INSTALLED);
        if IMPORTED.iter().any(|module| !modules.join(module).is_dir()) {
            return Err(MODULES);
        }
        Ok(Self {
            chromium: chromium().ok_or(CHROMIUM)?,
            node: on_path("node").ok_or(NODE)?,
            shell: directory().join("target/ui/shell"),
            sources,
        })
    }

    /// A script of `ui/browser`, for Node to run.
    pub fn script(&self, name: &str) -> PathBuf {
        self.sources.join("browser").join(name)
    }
}

/// The name of the part that this machine lacks: the requirement of a test.
pub fn missing() -> Option<&'static str> {
    Browser::parts().err()
}

/// Installs what is missing, as far as that is possible here.
pub(super) fn ensure() {
    if let Err(reason) = install() {
        print(format_args!(
            "the tests of the UI in a browser are ignored: {reason:#}"
        ));
    }
}

fn install() -> Result<()> {
    if chromium().is_none() {
        packages::install(&["chromium"])?;
        ensure!(chromium().is_some(), "the package has no Chromium");
    }
    if on_path("node").is_none() || on_path("npm").is_none() {
        packages::install(&["nodejs", "npm"])?;
    }
    let version = output(Command::new("node").arg("--version"))?;
    ensure!(
        major(&version).is_some_and(|major| major >= OLDEST_NODE),
        "Node {version} is too old: {OLDEST_NODE} or newer is needed"
    );
    copy()
}

fn chromium() -> Option<PathBuf> {
    match env::var_os(CHROMIUM).filter(|path| !path.is_empty()) {
        Some(named) => executable(named.into()),
        None => BROWSERS.iter().find_map(|name| on_path(name)),
    }
}

/// The first number of `v20.1.2`.
fn major(version: &str) -> Option<u32> {
    let plain = version.trim().trim_start_matches('v');
    plain.split('.').next()?.parse().ok()
}

/// Copies the sources if they have changed, installs their modules, and builds the shell.
fn copy() -> Result<()> {
    let (from, to) = (workspace().join("ui"), directory().join("ui"));
    let stamp = directory().join("ui.stamp");
    let files = files(&from).context("list the files of ui")?;
    let wanted = digest(&from, &files)?;
    let is_current = || {
        fs::read_to_string(&stamp).is_ok_and(|copied| copied == wanted) && Browser::parts().is_ok()
    };
    if is_current() {
        return Ok(());
    }
    let _lock = locked()?;
    if is_current() {
        return Ok(());
    }
    let lock_file = "package-lock.json";
    let read = |folder: &Path| fs::read(folder.join(lock_file)).ok();
    let are_installed = read(&from) == read(&to) && to.join(INSTALLED).is_dir();
    for file in &files {
        let target = to.join(file);
        fs::create_dir_all(target.parent().unwrap_or(&to))?;
        fs::copy(from.join(file), &target).with_context(|| format!("copy {}", file.display()))?;
    }
    if !are_installed || Browser::parts() == Err(MODULES) {
        print("installing the modules of ui into target/tools, once");
        let arguments = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        let installing = output(Command::new("npm").args(arguments).current_dir(&to));
        installing.context("install the modules of ui")?;
    }
    let build = ["run", "--silent", "shell"];
    output(Command::new("npm").args(build).current_dir(&to)).context("build the shell of ui")?;
    fs::write(&stamp, wanted).context("note the copy of ui")
}

/// The files below a folder without installed modules, sorted, as paths relative to it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("list {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != INSTALLED) {
                    folders.push(path);
                }
            } else {
                found.push(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn digest(folder: &Path, files: &[PathBuf]) -> Result<String> {
    let mut digest = Sha256::new();
    for file in files {
        let content = fs::read(folder.join(file))?;
        digest.update(format!("{} {}\n", file.display(), content.len()));
        digest.update(content);
    }
    Ok(BASE64_STANDARD.encode(digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_of_node_is_read() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("18.19.0"), Some(18));
        assert_eq!(major("unknown"), None);
    }

    #[test]
    fn sources_are_listed_without_installed_modules() {
        let all = files(&workspace().join("ui")).unwrap();
        assert!(all.contains(&PathBuf::from("package.json")), "{all:?}");
        assert!(
            all.contains(&PathBuf::from("browser/driver.mjs")),
            "{all:?}"
        );
        assert!(all.iter().all(|file| !file.starts_with(INSTALLED)));
    }
}
