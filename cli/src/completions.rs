//! `covalent completions`: prints the shell completions of a program's command line.

use std::process::ExitCode;

use anyhow::Result;

use crate::{args::CompletionsArgs, output};

/// Runs `covalent completions`.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut definition = args.program.definition();
    let name = definition.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, name, &mut script);
    output::line(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
