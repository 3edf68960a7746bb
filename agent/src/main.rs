//! The spoke program; see the library for what it does.

use std::process::ExitCode;

use agent::{app, args};
use runtime::error::Chain;
use runtime::{log, shutdown};

#[tokio::main]
async fn main() -> ExitCode {
    runtime::install_crypto_provider();
    let args = args::parse();
    if let Err(error) = log::init(&args.log) {
        // The subscriber is what failed, so this is the only way to say so.
        #[expect(clippy::print_stderr, reason = "there is no log")]
        {
            eprintln!("{}", Chain(&error));
        }
        return ExitCode::FAILURE;
    }
    match app::run(args, shutdown::token()).await {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(error = %Chain(&error), "stopped");
            ExitCode::FAILURE
        }
    }
}
