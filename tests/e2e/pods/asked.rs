//! What people ask of Pods: their logs, and commands in them.

use std::{fs, path::Path, process::Stdio, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::AttachParams};
use lab::{Lab, wait};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Place, container};
use crate::{
    kubectl::Kubectl,
    stage::SOON,
    terminal::{Viewer, ended_with},
};

/// The calls of one test.
struct Asker {
    place: Place,
    kubectl: Kubectl,
}

impl Asker {
    async fn new(lab: &Lab, namespace: &'static str) -> Result<Self> {
        let place = Place::new(lab, 1, namespace).await?;
        let kubectl = Kubectl::of(lab, &place.cluster)?;
        Ok(Self { place, kubectl })
    }

    fn words<'a>(&self, words: &[&'a str]) -> Vec<&'a str> {
        [&["-n", self.place.namespace], words].concat()
    }

    async fn prints(&self, words: &[&str]) -> Result<String> {
        self.kubectl.prints(&self.words(words)).await
    }

    /// Starts a Pod of these containers that shares a folder with the test, and waits until it is ready.
    async fn ready(&self, name: &str, containers: Value, shared: &Path) -> Result<()> {
        let mut containers = containers;
        for container in containers.as_array_mut().into_iter().flatten() {
            container["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
        }
        let volume = json!({ "name": "data", "hostPath": { "path": shared } });
        let pod =
            json!({ "containers": containers, "volumes": [volume], "restartPolicy": "Never" });
        self.place.create(name, pod).await?;
        let ready = |status: &super::ContainerStatus| status.ready;
        self.place.until(name, "is ready", ready).await.map(drop)
    }
}

/// All that was printed, its end, what is new, with times, of either container.
pub(crate) async fn a_log_is_shown_as_it_was_asked_for(lab: Arc<Lab>) -> Result<()> {
    let asker = Asker::new(&lab, "logs").await?;
    let script =
        "seq 1000; echo oh >&2; sleep 2; echo late; touch /data/written; exec sleep infinity";
    let mut quiet = container("echo quiet; exec sleep infinity");
    quiet["name"] = json!("quiet");
    let shared = tempfile::tempdir()?;
    let containers = json!([container(script), quiet]);
    asker.ready("talker", containers, shared.path()).await?;
    let look = || async { Ok(shared.path().join("written").exists()) };
    wait::until("it has written everything", look, |written| *written).await?;

    let numbers: Vec<String> = (1..=1000).map(|number| format!("{number}\n")).collect();
    let all = numbers.concat() + "oh\nlate\n";
    let log = ["logs", "talker", "-c", "c"];
    let shown = async |options: &[&str]| asker.prints(&[&log[..], options].concat()).await;
    ensure!(shown(&[]).await? == all, "the log is not whole");
    ensure!(shown(&["--since", "1h"]).await? == all);
    for (option, expected) in [
        ("--tail=2", "oh\nlate\n"),
        ("--tail=0", ""),
        ("--limit-bytes=5", "1\n2\n3"),
    ] {
        let shown = shown(&[option]).await?;
        ensure!(shown == expected, "{option}: {shown:?}");
    }
    let stamped = shown(&["--tail=1", "--timestamps"]).await?;
    let (time, line) = stamped.split_once(' ').context("a time")?;
    ensure!(line == "late\n", "{stamped}");
    let time: Timestamp = time.parse().context("a time")?;
    // The API knows whole seconds only.
    let since = Timestamp::from_second(time.as_second())?;
    let since = shown(&[&format!("--since-time={since}")]).await?;
    ensure!(since == "late\n", "{since:?}");

    let other = asker.prints(&["logs", "talker", "-c", "quiet"]).await?;
    ensure!(other == "quiet\n", "{other}");
    let words = asker.words(&["logs", "talker", "-c", "c", "--previous"]);
    let error = asker.kubectl.fails(&words).await?;
    ensure!(error.contains("previous terminated container"), "{error}");
    asker.place.leave().await
}

/// What is printed is shown as it comes, and the end of the container is the end.
pub(crate) async fn a_log_is_followed_until_its_container_ends(lab: Arc<Lab>) -> Result<()> {
    let asker = Asker::new(&lab, "followed").await?;
    let until = |file| format!("until test -e /data/{file}; do sleep 0.05; done");
    let (more, end) = (until("more"), until("end"));
    let script = format!("echo one; {more}; echo two; {end}; printf three");
    let shared = tempfile::tempdir()?;
    let containers = json!([container(&script)]);
    asker.ready("talker", containers, shared.path()).await?;

    let words = asker.words(&["logs", "-f", "talker"]);
    let mut following = asker.kubectl.follows(&words)?;
    ensure!(following.line(SOON).await?.as_deref() == Some("one\n"));
    fs::write(shared.path().join("more"), "")?;
    ensure!(following.line(SOON).await?.as_deref() == Some("two\n"));
    fs::write(shared.path().join("end"), "")?;
    ensure!(following.line(SOON).await?.as_deref() == Some("three"));
    ensure!(following.line(SOON).await?.is_none());
    let status = following.ended(SOON).await?;
    ensure!(status.success(), "{status}");
    asker.place.leave().await
}

pub(crate) async fn the_log_before_a_crash_is_shown(lab: Arc<Lab>) -> Result<()> {
    let asker = Asker::new(&lab, "previous").await?;
    let script = "test -e /data/again && echo second && exec sleep infinity
        touch /data/again; echo first; exit 3";
    let mut crashing = container(script);
    crashing["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    let pod = json!({ "containers": [crashing], "volumes": [{ "name": "data", "emptyDir": {} }] });
    asker.place.create("crash", pod).await?;
    let again = |status: &super::ContainerStatus| status.ready && status.restart_count == 1;
    asker.place.until("crash", "runs again", again).await?;
    let second = async || asker.prints(&["logs", "crash"]).await;
    wait::until("the second run speaks", second, |text| text == "second\n").await?;
    let first = asker.prints(&["logs", "crash", "--previous"]).await?;
    ensure!(first == "first\n", "{first}");
    asker.place.leave().await
}

/// Standard output and standard error are separate, the exit code is the command's, and the input arrives whole.
pub(crate) async fn a_command_has_its_streams_and_its_exit_code(lab: Arc<Lab>) -> Result<()> {
    let asker = Asker::new(&lab, "commands").await?;
    let mut sleeper = container("exec sleep infinity");
    sleeper["env"] = json!([{ "name": "WORD", "value": "hello" }]);
    let shared = tempfile::tempdir()?;
    asker
        .ready("sleeper", json!([sleeper]), shared.path())
        .await?;

    let script = "echo $WORD; hostname; echo oh >&2; exit 7";
    let words = asker.words(&["exec", "sleeper", "--", "sh", "-c", script]);
    let ended = asker.kubectl.run(&words).await?;
    ensure!(ended.code == Some(7), "{ended:?}");
    ensure!(ended.out == "hello\nsleeper\n", "{ended:?}");
    ensure!(ended.err.starts_with("oh\n"), "{ended:?}");
    let absent = asker.words(&["exec", "sleeper", "--", "/bin/absent"]);
    let error = asker.kubectl.fails(&absent).await?;
    ensure!(error.contains("execute /bin/absent"), "{error}");
    let nowhere = asker.words(&["exec", "sleeper", "-c", "other", "--", "true"]);
    asker.kubectl.fails(&nowhere).await?;

    let much = "0123456789abcdef".repeat(1 << 16);
    let words = asker.words(&["exec", "-i", "sleeper", "--", "cat"]);
    let mut command = asker.kubectl.command(&words);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("its input")?;
    let text = much.as_bytes();
    // It ends with the block, which is the end of the input.
    let feeding = async move { Ok(stdin.write_all(text).await?) };
    let ending = async { anyhow::Ok(child.wait_with_output().await?) };
    let both = async { tokio::try_join!(feeding, ending) };
    let ((), ended) = timeout(SOON, both).await.context("cat does not end")??;
    ensure!(ended.status.success(), "{}", ended.status);
    ensure!(
        ended.stdout == much.as_bytes(),
        "{} bytes",
        ended.stdout.len()
    );
    asker.place.leave().await
}

/// A shell at a terminal knows its size and ends with a code; one whose viewer goes ends too.
pub(crate) async fn a_terminal_has_a_size_and_ends_with_its_viewer(lab: Arc<Lab>) -> Result<()> {
    let asker = Asker::new(&lab, "terminals").await?;
    let shared = tempfile::tempdir()?;
    let containers = json!([container("exec sleep infinity")]);
    asker.ready("sleeper", containers, shared.path()).await?;
    let pods: Api<Pod> = asker.place.api();

    let mut viewer = Viewer::open(&pods, "sleeper").await?;
    viewer.resized(111, 37).await?;
    let commands = || async {
        let params = AttachParams::default().stderr(false);
        let script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
        let mut looking = pods.exec("sleeper", ["sh", "-c", script], &params).await?;
        let mut text = String::new();
        let mut stdout = looking.stdout().context("its output")?;
        stdout.read_to_string(&mut text).await?;
        anyhow::Ok(text)
    };
    // Keys are signals, since the terminal is the shell's own: this one is for the program that runs then.
    viewer.types("sleep 54321\n").await?;
    let sleeps = |text: &String| text.contains("sleep 54321");
    wait::until("it sleeps", commands, sleeps).await?;
    viewer.types("\x03echo on $((2 + 2))\nexit 5\n").await?;
    viewer.until_it_reads("on 4").await?;
    ended_with(viewer, 5).await?;

    let mut viewer = Viewer::open(&pods, "sleeper").await?;
    viewer.types("exec sleep 12345\n").await?;
    wait::until("it runs", commands, |text| text.contains("sleep 12345")).await?;
    drop(viewer);
    let ends = |text: &String| !text.contains("sleep 12345");
    wait::until("it ends with its viewer", commands, ends).await?;
    asker.place.leave().await
}
