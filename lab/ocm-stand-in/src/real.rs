//! The real OCM binaries as bare processes, restarted like containers by a kubelet.

mod webhooks;

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;

use crate::{
    client,
    help::Help,
    hub::HubConfig,
    kinds::{NAMESPACE, words::AGENT_NAMESPACE},
    klusterlet,
    spoke::SpokeConfig,
    tasks::Tasks,
};

pub(crate) use webhooks::{admits, converts};

const HUB_NAMESPACE: &str = "open-cluster-management-hub";
/// The pause before a process that ended is started again.
const START_AGAIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The processes of one half of OCM. Dropped, they are killed.
#[derive(Debug)]
pub(crate) struct Processes {
    tasks: Tasks,
}

impl Processes {
    /// Ends the processes and waits until they are gone.
    pub(crate) async fn stop(self) {
        self.tasks.stop().await;
    }
}

/// A program of OCM with its arguments and its log.
struct Program {
    name: &'static str,
    binary: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// Files that must exist before it starts.
    needs: Vec<PathBuf>,
}

impl Program {
    fn new(binaries: &Path, dir: &Path, name: &'static str, command: &[&str]) -> Result<Self> {
        let (binary, arguments) = command
            .split_first()
            .context("a command without a program")?;
        Ok(Self {
            name,
            binary: program(binaries, binary)?,
            arguments: arguments
                .iter()
                .map(|&argument| argument.to_owned())
                .collect(),
            log: dir.join(format!("{name}.log")),
            needs: Vec::new(),
        })
    }

    fn with(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The flags that all of OCM's controllers share.
    fn common(self, kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let port = free_port()?;
        Ok(self
            .with(format!("--kubeconfig={}", kubeconfig.display()))
            .with(format!("--namespace={namespace}"))
            .with("--disable-leader-election")
            .with(format!("--listen=127.0.0.1:{port}")))
    }

    async fn keep(self) {
        loop {
            while !self.needs.iter().all(|file| file.exists()) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            match self.run().await {
                Ok(status) => tracing::warn!(program = self.name, %status, "ended; starts again"),
                Err(error) => tracing::warn!(program = self.name, %error, "did not start"),
            }
            tokio::time::sleep(START_AGAIN).await;
        }
    }

    async fn run(&self) -> std::io::Result<std::process::ExitStatus> {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let mut command = Command::new(&self.binary);
        if let Some(dir) = self.log.parent() {
            // They write serving certificates to a temporary directory and leave them there.
            command.env("TMPDIR", dir);
        }
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?
            .wait()
            .await
    }
}

/// A port that was free a moment ago; OCM's programs do not report which one they took.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// The path of a program.
fn program(binaries: &Path, name: &str) -> Result<PathBuf> {
    let binary = binaries.join(name);
    ensure!(binary.is_file(), "OCM_BIN_DIR has no {}", binary.display());
    Ok(binary)
}

/// Starts the webhooks first, those that there are, then the hub's controllers.
pub(crate) async fn start_hub(binaries: &Path, config: &HubConfig) -> Result<Processes> {
    let HubConfig { kubeconfig, dir } = config;
    let admin = client::from_kubeconfig(kubeconfig, "lab-ocm").await?;
    let namespace = json!({ "metadata": { "name": HUB_NAMESPACE } });
    klusterlet::apply(&admin, vec![(NAMESPACE, None, namespace)]).await?;

    let mut tasks = Tasks::default();
    webhooks::start(binaries, config, &admin, &mut tasks).await?;
    for (name, command) in [
        ("registration-controller", ["registration", "controller"]),
        ("placement-controller", ["placement", "controller"]),
        ("addon-manager", ["addon", "manager"]),
    ] {
        let program =
            Program::new(binaries, dir, name, &command)?.common(kubeconfig, HUB_NAMESPACE)?;
        tasks.spawn(program.keep());
    }
    Ok(Processes { tasks })
}

/// Starts the agents of one spoke, each under its own service account there.
pub(crate) async fn start_spoke(binaries: &Path, config: &SpokeConfig) -> Result<Processes> {
    let SpokeConfig {
        cluster,
        hub_kubeconfig,
        kubeconfig,
        dir,
        feedback_interval,
        ..
    } = config;
    let hub = client::config(hub_kubeconfig, "lab-ocm").await?;
    let hub_admin = client::as_identity(&hub, hub.auth_info.clone())?;
    let bootstrap = dir.join("bootstrap.kubeconfig");
    let token = klusterlet::bootstrap_token(&hub_admin).await?;
    write_kubeconfig(&hub, &token, &bootstrap).await?;
    let as_registration = dir.join("registration.kubeconfig");
    write_agents_kubeconfig(kubeconfig, klusterlet::REGISTRATION, &as_registration).await?;
    let as_work = dir.join("work.kubeconfig");
    write_agents_kubeconfig(kubeconfig, klusterlet::WORK, &as_work).await?;

    let credentials = dir.join("hub-kubeconfig");
    let registration = registration_agent(binaries, config, &as_registration).await?;
    let registration = registration
        .with(format!("--bootstrap-kubeconfig={}", bootstrap.display()))
        .with(format!("--hub-kubeconfig-dir={}", credentials.display()));
    let mut work = Program::new(binaries, dir, "work-agent", &["work", "agent"])?
        .common(&as_work, AGENT_NAMESPACE)?
        .with(format!("--spoke-cluster-name={cluster}"))
        .with(format!("--agent-id={cluster}-agent"))
        .with("--workload-source-driver=kube")
        .with(format!(
            "--workload-source-config={}",
            credentials.join("kubeconfig").display()
        ))
        .with(format!(
            "--status-sync-interval={}s",
            feedback_interval.as_secs().max(1)
        ));
    work.needs = ["kubeconfig", "tls.crt", "tls.key"]
        .map(|file| credentials.join(file))
        .to_vec();

    let mut tasks = Tasks::default();
    tasks.spawn(registration.keep());
    tasks.spawn(work.keep());
    Ok(Processes { tasks })
}

/// The registration agent without its access to the hub; in hosted mode it runs on another cluster than its spoke.
async fn registration_agent(
    binaries: &Path,
    config: &SpokeConfig,
    as_registration: &Path,
) -> Result<Program> {
    let SpokeConfig {
        cluster,
        dir,
        tokens,
        management_kubeconfig,
        ..
    } = config;
    let command = ["registration", "agent"];
    let agent = Program::new(binaries, dir, "registration-agent", &command)?;
    let agent = match management_kubeconfig {
        None => agent.common(as_registration, AGENT_NAMESPACE)?,
        Some(management) => {
            let hosted = dir.join("management.kubeconfig");
            write_agents_kubeconfig(management, klusterlet::REGISTRATION, &hosted).await?;
            agent
                .common(&hosted, AGENT_NAMESPACE)?
                .with(format!("--spoke-kubeconfig={}", as_registration.display()))
                // The host has a klusterlet of its own in that namespace.
                .with(format!(
                    "--hub-kubeconfig-secret=hub-kubeconfig-of-{cluster}"
                ))
        }
    };
    let help = Help::ask(&agent.binary, &["agent"])?;
    let agent = agent
        .with(format!("--spoke-cluster-name={cluster}"))
        .with(format!("--agent-id={cluster}-agent"));
    Ok(match add_on_driver(&help, *tokens)? {
        Some(driver) => agent.with(driver),
        None => agent,
    })
}

/// The argument that chooses tokens or certificates for add-ons that are clients of the hub's API server. Agents before 1.2
/// have certificates only.
fn add_on_driver(help: &Help, tokens: bool) -> Result<Option<&'static str>> {
    let is_known = help.has_flag("addon-kubeclient-registration-auth");
    ensure!(
        is_known || !tokens,
        "this registration agent gives add-ons no tokens: OCM 1.2 or newer does"
    );
    Ok(is_known.then_some(if tokens {
        "--addon-kubeclient-registration-auth=token"
    } else {
        "--addon-kubeclient-registration-auth=csr"
    }))
}

/// A kubeconfig with the rights of one of the klusterlet's agents; `admin` is cluster admin's.
async fn write_agents_kubeconfig(admin: &Path, account: &str, file: &Path) -> Result<()> {
    let config = client::config(admin, "lab-ocm").await?;
    let client = client::as_identity(&config, config.auth_info.clone())?;
    let token = klusterlet::token(&client, AGENT_NAMESPACE, account).await?;
    write_kubeconfig(&config, &token, file).await
}

async fn write_kubeconfig(api_server: &kube::Config, token: &str, file: &Path) -> Result<()> {
    let text = client::kubeconfig(api_server, "default", &json!({ "token": token }));
    tokio::fs::write(file, text)
        .await
        .with_context(|| format!("write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(flags: &[&str]) -> Help {
        let lines: Vec<_> = flags
            .iter()
            .map(|flag| format!("      --{flag}   Explained here."))
            .collect();
        Help::of(&format!("Flags:\n{}\n", lines.join("\n")))
    }

    #[test]
    fn an_agent_without_a_choice_gives_certificates_and_refuses_tokens() {
        let before = help(&["registration-auth string"]);
        assert_eq!(add_on_driver(&before, false).unwrap(), None);
        assert!(add_on_driver(&before, true).is_err());
        let since = help(&["addon-kubeclient-registration-auth string"]);
        for (tokens, driver) in [(false, "csr"), (true, "token")] {
            let argument = format!("--addon-kubeclient-registration-auth={driver}");
            let chosen = add_on_driver(&since, tokens).unwrap();
            assert_eq!(chosen, Some(argument.as_str()));
        }
    }
}
