//! `lab results`: runs end-to-end tests, and records how they ended with which versions.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;

use super::{
    Peer, Record, Test, add, directory,
    notes::{self, Note},
    pages::{self, PAGES},
    versions,
};
use crate::{
    Tools,
    progress::print,
    tools::{cargo, output, workspace},
};

/// A run of tests with programs of other projects.
#[derive(Clone, Debug)]
pub struct Request {
    /// The peers that the results are about; without any, only the pages are made from the records.
    pub peers: Vec<Peer>,
    /// Parts of the names of the tests.
    pub tests: Vec<String>,
}

/// Runs the tests, and writes records and pages. Fails, after recording it, if a test failed.
pub fn run(request: &Request) -> Result<ExitCode> {
    if request.peers.is_empty() {
        pages::update()?;
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        !request.tests.is_empty(),
        "name the tests with --test, such as --test conformance::"
    );
    let setting = Setting::of(&request.peers)?;
    let path = workspace().join("target/lab/results.jsonl");
    notes::clear(&path)?;
    let mut all_passed = true;
    let mut notes = Vec::new();
    for test in &request.tests {
        all_passed &= run_tests(test, &path)?;
        let earlier = notes.len();
        notes = notes::read(&path)?;
        if notes.len() == earlier {
            print(format_args!("no test with {test} in its name began"));
            all_passed = false;
        }
    }
    let present = commit().context("the sources changed meanwhile: nothing is recorded")?;
    ensure!(
        present == setting.commit,
        "{present} was checked out meanwhile: nothing is recorded"
    );
    for peer in &request.peers {
        let record = setting.record(*peer, &notes)?;
        let name = record.file_name();
        record.save(&directory())?;
        print(format_args!("recorded in docs/results/{name}"));
    }
    pages::update()?;
    Ok(if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether all tests with this part in their names passed.
fn run_tests(part: &str, notes: &Path) -> Result<bool> {
    let status = cargo::command()
        .args(["test", "--locked", "--workspace", "--test", "e2e", "--"])
        .arg(part)
        .env(notes::VARIABLE, notes)
        .status()
        .context("start cargo")?;
    Ok(status.success())
}

/// The circumstances of a run.
struct Setting {
    versions: BTreeMap<Peer, String>,
    commit: String,
    date: String,
}

impl Setting {
    /// Finds out commit and versions before the tests run: an unknown one would make an hour of them worthless.
    fn of(peers: &[Peer]) -> Result<Self> {
        ensure!(
            std::env::var_os("LAB_BIN_DIR").is_none(),
            "unset LAB_BIN_DIR: results are about the programs of this commit"
        );
        let commit = commit()?;
        let tools = Tools::ensure()?;
        let mut versions = BTreeMap::new();
        for peer in peers {
            let version = versions::of(*peer, &tools)?;
            let needed = versions::needed(*peer);
            let version = version.with_context(|| format!("{needed} is not set"))?;
            versions.insert(*peer, version);
            for beside in beside(*peer) {
                if let Some(version) = versions::of(*beside, &tools)? {
                    versions.insert(*beside, version);
                }
            }
        }
        Ok(Self {
            versions,
            commit,
            date: Timestamp::now().strftime("%Y-%m-%d").to_string(),
        })
    }

    fn record(&self, peer: Peer, notes: &[Note]) -> Result<Record> {
        let mut tests = BTreeMap::<String, Test>::new();
        for note in notes.iter().filter(|note| note.concerns(peer)) {
            add(&mut tests, note.test.clone(), note.result.clone());
        }
        ensure!(
            !tests.is_empty(),
            "no test with {} ran: nothing is recorded",
            peer.title()
        );
        let version = self.versions.get(&peer).context("a peer has a version")?;
        let known = |other: &Peer| Some((*other, self.versions.get(other)?.clone()));
        Ok(Record {
            peer,
            version: version.clone(),
            with: beside(peer).iter().filter_map(known).collect(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            commit: self.commit.clone(),
            date: self.date.clone(),
            tests,
        })
    }
}

/// The other peers that take part in the tests of one.
const fn beside(peer: Peer) -> &'static [Peer] {
    match peer {
        Peer::Kubernetes => &[Peer::Ocm, Peer::Argocd],
        Peer::Ocm => &[Peer::Kubernetes, Peer::Argocd, Peer::Clusteradm],
        Peer::Argocd | Peer::Clusteradm => &[Peer::Kubernetes, Peer::Ocm],
        Peer::ArgocdAgent => &[Peer::Kubernetes],
    }
}

/// The commit of this source tree, which must have no other changes, new files included, than those of an earlier run.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(workspace()).args(arguments);
        command
    };
    let written = PAGES.into_iter().chain(["docs/results"]);
    let written = written.map(|path| format!(":(exclude){path}"));
    let mut status = git(&["status", "--porcelain", "--", "."]);
    let changed = output(status.args(written))?;
    ensure!(
        changed.is_empty(),
        "results name a commit, so commit or remove these first; `make e2e` records nothing\n{changed}"
    );
    output(&mut git(&["rev-parse", "--short=12", "HEAD"]))
}
