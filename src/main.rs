//! The `cadre` binary: a server in one process, and the commands that talk to one.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
