//! `covalent sim`: a run of the simulator, or many.

mod group;
mod hunt;
mod links;
mod many;
mod mesh;
mod print;

use std::{ops::Range, process::ExitCode};

use anyhow::Result;
use clap::{Args, Subcommand};
use covalent_sim::shape::FORMS;

use crate::{
    args::{Format, SeedRange, SimArgs},
    interrupt::Interrupt,
};

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

/// The simulations that have options of their own.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a group of applications over paths that appear and disappear, and print the run.
    Group(group::GroupArgs),
    /// Run a mesh of up to a thousand nodes with time and faults, and print the run.
    Mesh(mesh::MeshArgs),
    /// Search fresh seeds of all simulations for a broken invariant, and find the smallest case
    /// that breaks it.
    Hunt(hunt::HuntArgs),
}

/// Which runs of a simulation, and how they are printed.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The seed of the run to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run these seeds, excluding the last, and print the combined result.
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    pub seeds: Option<SeedRange>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table, display_order = 900)]
    pub format: Format,
}

impl RunArgs {
    /// Returns the seeds to run: the given range, or the single seed.
    fn numbers(&self) -> Range<u64> {
        self.seeds
            .as_ref()
            .map_or(self.seed..self.seed.saturating_add(1), |seeds| {
                seeds.0.clone()
            })
    }
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
