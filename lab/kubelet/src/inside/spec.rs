//! What the kubelet and the parts say to each other. Both ends are always the same build.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::images::File;

/// What the sandbox of a Pod needs to know to begin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SandboxSpec {
    /// The Pod's host name.
    pub(crate) hostname: String,
}

/// What a sandbox says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SandboxSaid {
    /// The namespaces are there; a network device can be moved in. It now waits for a line with
    /// `ip` commands.
    Made,
    /// The network is configured.
    Up,
    /// It failed, and ends.
    Failed(String),
}

/// What the shim of a container needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShimSpec {
    /// The process that holds the Pod's namespaces; none for a Pod in the network of the machine.
    pub(crate) sandbox: Option<u32>,
    /// The file that takes what the container prints, with the time of each line.
    pub(crate) log: PathBuf,
    /// An empty directory, on which the root is mounted where nobody else sees it.
    pub(crate) scratch: PathBuf,
    /// What the container finds in its file system.
    pub(crate) root: Root,
    /// What it runs.
    pub(crate) process: Process,
}

/// What a shim says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ShimSaid {
    /// The container's program has been executed; this is its process, in the kubelet's own
    /// numbers.
    Started(u32),
    /// It could not be executed.
    Failed(String),
    /// It ended by itself (`code`) or by a signal.
    Exited { code: i32, signal: Option<i32> },
}

/// What a container finds in its file system, beside the machine's programs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Root {
    /// The files of its image.
    pub(crate) files: Vec<File>,
    /// Small files made for it: name service, host name.
    pub(crate) texts: Vec<Text>,
    /// Its volumes.
    pub(crate) mounts: Vec<Mount>,
    /// Whether nothing but volumes can be written.
    pub(crate) read_only: bool,
}

/// A small file made for one container.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// A file or directory of the machine, seen inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    pub(crate) target: String,
    pub(crate) read_only: bool,
}

/// A program to run in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) working_dir: String,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Supplementary groups, such as the Pod's `fsGroup`.
    pub(crate) groups: Vec<u32>,
    pub(crate) no_new_privileges: bool,
    /// Whether a small init stands between process 1 and the program.
    pub(crate) init: bool,
}

/// What is needed to enter a running container. What is done there follows in a [`JoinedSpec`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EnterSpec {
    /// The container's process 1, in the kubelet's numbers.
    pub(crate) target: u32,
}

/// A command in a running container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JoinedSpec {
    pub(crate) process: Process,
    pub(crate) input: Input,
}

/// What the command finds in its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// Nothing.
    None,
    /// What follows in the part's own.
    Rest,
    /// The terminal that its output goes to, which becomes the one that controls it.
    Terminal,
}
