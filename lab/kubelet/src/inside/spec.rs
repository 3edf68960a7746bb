//! The messages between the kubelet and the parts. Both ends are always the same build.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::images::File;

/// The input of a Pod's sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SandboxSpec {
    /// The Pod's host name.
    pub(crate) hostname: String,
}

/// A message of a sandbox.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SandboxMessage {
    /// The namespaces are there; a network device can be moved in. It now waits for a line with
    /// `ip` commands.
    Made,
    /// The network is configured.
    Up,
    /// An error, after which it ends.
    Failed(String),
}

/// The input of a container's shim.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ShimSpec {
    /// The process that owns the Pod's namespaces; none for a Pod in the network of the machine.
    pub(crate) sandbox: Option<u32>,
    /// The file for the container's output, with the time of each line.
    pub(crate) log: PathBuf,
    /// An empty directory, on which the root is mounted, invisible to other mount namespaces.
    pub(crate) scratch: PathBuf,
    /// The container's file system.
    pub(crate) root: Root,
    /// Its program.
    pub(crate) process: Process,
}

/// A message of a shim.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ShimMessage {
    /// The container's program has been executed; this is its process, in the kubelet's own
    /// numbers.
    Started(u32),
    /// It could not be executed.
    Failed(String),
    /// It ended by itself (`code`) or by a signal.
    Exited { code: i32, signal: Option<i32> },
}

/// The file system of a container, beside the machine's programs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Root {
    /// The files of its image.
    pub(crate) files: Vec<File>,
    /// Small generated files: name service, host name.
    pub(crate) texts: Vec<Text>,
    /// Its volumes.
    pub(crate) mounts: Vec<Mount>,
    /// Whether only volumes can be written.
    pub(crate) read_only: bool,
}

/// A small file generated for one container.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// A file or directory of the machine, visible inside.
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
    /// Whether a small init runs between process 1 and the program.
    pub(crate) init: bool,
}

/// The input for entering a running container. A [`JoinedSpec`] with the command follows.
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

/// The standard input of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// Nothing.
    None,
    /// The rest of the part's own.
    Rest,
    /// The terminal of its output, which becomes its controlling terminal.
    Terminal,
}
