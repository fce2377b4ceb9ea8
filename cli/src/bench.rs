//! `covalent bench`: the benchmark is a program of its own, which takes this one's place.

use std::{os::unix::process::CommandExt, process::Command, process::ExitCode};

use anyhow::{Context, Result};

use crate::{args::BenchArgs, program};

/// Puts `covalent-bench` in this process's place: its output, exit status and signals are what the caller sees.
///
/// # Errors
/// It is not there, or cannot be executed. It does not return otherwise.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let program = program::find("covalent-bench")?;
    let problem = Command::new(&program).args(&args.arguments).exec();
    Err(problem).with_context(|| format!("executing {}", program.display()))
}
