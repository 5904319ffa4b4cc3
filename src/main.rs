//! The `cadre` binary: a server in one process, and the commands that talk to one.

mod cli;
mod log;

use std::process::ExitCode;

/// Steps are made of small short-lived allocations; see decision 0007.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
