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
    let config = match prepare(parsed).await {
        Ok(Some(config)) => config,
        Ok(None) => return ExitCode::SUCCESS,
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

/// Checks the settings and starts to log. None after a command that needs no settings: it requests a new CA from a
/// running manager.
#[expect(clippy::print_stdout, reason = "a command's answer")]
async fn prepare(parsed: args::Parsed) -> anyhow::Result<Option<Config>> {
    let (cli, without_effect) = (parsed.cli, parsed.without_effect);
    if let Some(Only::RotateCa(args)) = cli.command {
        println!("{}", app::rotate::ask(*args).await?);
        return Ok(None);
    }
    let config = Config::from_args(cli)?;
    runtime::log::init(config.log())?;
    let version = env!("CARGO_PKG_VERSION");
    if let Some(message) = config.start_message() {
        tracing::info!(version, "{message}");
    } else {
        tracing::info!(version, ?config, ?without_effect, "starting");
    }
    Ok(Some(config))
}
