//! `covalent sim`: a run of the simulator, or many.

mod args;
mod group;
mod hunt;
mod links;
mod many;
mod mesh;
mod print;

use std::process::ExitCode;

use anyhow::Result;
use covalent_sim::shape::FORMS;

pub use self::args::SimArgs;
use self::args::{RunArgs, SimCommand};
use crate::interrupt::Interrupt;

/// The widest tables of all simulators, for a test.
#[cfg(test)]
pub fn widest(theme: crate::output::Theme) -> String {
    [
        group::tests::widest(theme),
        hunt::tests::widest(theme),
        mesh::tests::widest(theme),
        print::tests::widest(theme),
    ]
    .join("\n")
}

/// Runs `covalent sim`.
///
/// # Errors
/// Fails if the options describe no possible world, a file cannot be written, the reader of the
/// output is gone, or the command was requested to stop.
pub fn run(args: &SimArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let held = match &args.what {
        None => links::run(args, interrupt)?,
        Some(SimCommand::Group(args)) => group::run(args, interrupt)?,
        Some(SimCommand::Mesh(args)) => mesh::run(args, interrupt)?,
        Some(SimCommand::Hunt(args)) => hunt::run(args, interrupt)?,
    };
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the help text of `--shape`.
fn shape_help() -> String {
    format!("How the nodes are cabled: {FORMS}")
}
