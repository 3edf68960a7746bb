//! The spoke program; the library describes it.

use std::process::ExitCode;

use agent::{app, args};
use runtime::error::Chain;
use runtime::{log, shutdown};

#[tokio::main]
async fn main() -> ExitCode {
    runtime::install_crypto_provider();
    let args = args::parse();
    if let Err(error) = log::init(&args.log) {
        // The log subscriber failed, so standard error is the only output.
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
