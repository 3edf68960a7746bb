//! Reads the command line, runs, prints the answer, and says by the exit code how it went.

use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
};

use agentctl::{
    args,
    progress::{Progress, is_watched},
    run,
};
use runtime::{clock::Clock, error::Chain};

/// 0: as asked. 1: as asked, and something is degraded (with `--exit-code`). 2: not as asked, or a bad command line.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::install_crypto_provider();
    let cli = args::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let progress = Progress::new(is_watched(
        std::io::stderr().is_terminal(),
        cli.global.output,
    ));
    let answer = Box::pin(run::run(cli, colours, &progress, Clock::system().now())).await;
    progress.ends();
    match answer {
        Ok(answer) => {
            // The reader may have closed the pipe (`| head`).
            let written = std::io::stdout().write_all(answer.text.as_bytes());
            ExitCode::from(u8::from(answer.bad || written.is_err()))
        }
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command's answer")]
            {
                eprintln!("error: {}", Chain(&error));
            }
            ExitCode::from(2)
        }
    }
}
