//! Installs the TLS provider, parses the command line, runs, and reports the outcome.

use std::process::ExitCode;

use addon_manager::{
    app,
    args::{self, Only},
    config::Config,
};
use runtime::error::Chain;

#[tokio::main]
async fn main() -> ExitCode {
    runtime::install_crypto_provider();
    let parsed = args::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    if let Some(Only::RotateCa(args)) = parsed.cli.command {
        return rotate(*args).await;
    }
    let config = match prepare(parsed) {
        Ok(config) => config,
        Err(error) => {
            // The log settings themselves may be invalid.
            #[expect(clippy::print_stderr, reason = "there is no log yet")]
            {
                eprintln!("error: {}", Chain(&*error));
            }
            return ExitCode::FAILURE;
        }
    };
    match Box::pin(app::run(config)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Chain(&*error), "failed");
            ExitCode::FAILURE
        }
    }
}

/// Requests a new CA from a running manager.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command's answer"
)]
async fn rotate(args: args::RotateArgs) -> ExitCode {
    match app::rotate::ask(args).await {
        Ok(stated) => {
            println!("{stated}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", Chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Checks the settings and starts to log.
fn prepare(parsed: args::Parsed) -> anyhow::Result<Config> {
    let args::Parsed {
        cli,
        without_effect,
    } = parsed;
    let config = Config::from_args(cli)?;
    runtime::log::init(config.log())?;
    let version = env!("CARGO_PKG_VERSION");
    if let Some(message) = config.start_message() {
        tracing::info!(version, "{message}");
    } else {
        tracing::info!(version, ?config, ?without_effect, "starting");
    }
    Ok(config)
}
