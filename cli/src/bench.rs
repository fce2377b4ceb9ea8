//! `covalent bench`: the benchmark is a program of its own, which takes this one's place.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};
use clap::Args;

use crate::program;

/// `covalent bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Arguments for `covalent-bench`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

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
