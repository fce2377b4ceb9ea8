//! `covalent bench`: the benchmark is a program of its own, which takes this one's place.

use std::{os::unix::process::CommandExt, process::Command, process::ExitCode};

use anyhow::{Context, Result};

use crate::{args::BenchArgs, program};

/// Replaces this process with `covalent-bench`. The caller gets the output, exit status and signals
/// of `covalent-bench`.
///
/// # Errors
/// Fails if `covalent-bench` is missing or cannot be executed. Does not return otherwise.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let program = program::find("covalent-bench")?;
    let problem = Command::new(&program).args(&args.arguments).exec();
    Err(problem).with_context(|| format!("executing {}", program.display()))
}
