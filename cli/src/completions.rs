//! `covalent completions`: prints the shell completions of a program's command line.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{definitions::Program, output};

/// `covalent completions`
#[derive(Debug, Args)]
#[command(
    after_help = "`make install` puts them where bash, zsh and fish look for them.\n\n\
    Examples:\n  \
    source <(covalent completions bash)                                       in this shell\n  \
    covalent completions zsh >~/.zfunc/_covalent                              a directory in \
    $fpath\n  \
    covalent completions fish covalentd >~/.config/fish/completions/covalentd.fish"
)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
    /// The program.
    #[arg(value_enum, value_name = "PROGRAM", default_value_t = Program::Covalent)]
    pub program: Program,
}

/// Runs `covalent completions`, where `covalent` makes the command line of this program.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn run(args: &CompletionsArgs, covalent: fn() -> clap::Command) -> Result<ExitCode> {
    let mut definition = args.program.definition(covalent);
    let name = definition.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, name, &mut script);
    output::line(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
