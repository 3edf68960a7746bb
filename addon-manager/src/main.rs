//! Installs the TLS provider, reads the command line, runs, and says how it ended.

use std::process::ExitCode;

use addon_manager::{app, args, config::Config};
use runtime::error::Chain;

#[tokio::main]
async fn main() -> ExitCode {
    runtime::install_crypto_provider();
    let parsed = args::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match run(parsed).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Chain(&*error), "failed");
            ExitCode::FAILURE
        }
    }
}

async fn run(parsed: args::Parsed) -> anyhow::Result<()> {
    let args::Parsed {
        cli,
        without_effect,
    } = parsed;
    let config = Config::from_args(cli)?;
    runtime::log::init(&config.shared().log)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        ?config,
        ?without_effect,
        "starting"
    );
    Box::pin(app::run(config)).await
}
