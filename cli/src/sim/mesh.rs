//! `covalent sim mesh`: a run of a mesh, or many.

use std::{
    io::{self, IsTerminal},
    ops::{ControlFlow, Range},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment};
use covalent_sim::{
    mesh::{self, Mark, MeshFailure, MeshFaults, MeshMutant, MeshOptions, MeshReport, Trace},
    shape::{Form, NODES_MAX, Shape, VALENCE_MAX},
    witness::Violation,
};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{LAST_LINES, style};
use crate::{
    args::{Format, SeedRange},
    interrupt::Interrupt,
    output::{self, Theme, grouped},
};

/// `covalent sim mesh`
#[derive(Debug, Args)]
#[command(
    after_help = "Nodes come up, settle, meet faults one after the other, come to rest with what stands then, and again when everything is \
    whole. Time is counted in round trips of a link. A seed decides everything that is not told here. The same seed with the same options is the \
    same run, with the same fingerprint. Every invariant has a checker that is always on; one that is broken is named, with the command that \
    replays it.\n\n\
    A file has a cable in each line, the names of its two nodes with space between; what stands behind `#` is a comment.\n\n\
    Classes of faults: cut, silent, one-way, flap, crash, stall, loss, partition; or `all`, or `none`.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim mesh --nodes 8 --shape chords:2 --seed 7            one run, event by event\n  \
    covalent sim mesh --shape torus:25x40 --faults cut --load none   a thousand nodes, cables that are cut\n  \
    covalent sim mesh --shape rack.txt --faults crash,partition      cables of a file, these faults\n  \
    covalent sim mesh --nodes 12 --seeds 0..1000                     many runs, with seeds per second\n  \
    covalent sim mesh --mutant hides-restarts --faults crash         built wrong, to see it found"
)]
pub struct MeshArgs {
    /// The seed of the run to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs these seeds, the last one not included, and prints what they did together.
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    pub seeds: Option<SeedRange>,
    /// Nodes; 12, if the shape does not say how many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=NODES_MAX as i64))]
    pub nodes: Option<u16>,
    /// What is cabled to what: line, ring, chords:N, full, grid[:WxH], torus[:WxH], random[:DEGREE], or a file with a cable in each line.
    #[arg(long, value_name = "SHAPE", default_value = "random")]
    pub shape: Form,
    /// Most cables at a node.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(2..=VALENCE_MAX as i64))]
    pub valence: u8,
    /// Classes of faults, with commas between.
    #[arg(long, value_name = "CLASSES", default_value_t = MeshFaults::ALL)]
    pub faults: MeshFaults,
    /// Faults in all, each of which is repaired later or stands until the first rest.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub churn: u32,
    /// Round trips of a link between two faults in the mean.
    #[arg(long, value_name = "RT", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub every: u32,
    /// Whether neighbours ask each other for verbs all the time.
    #[arg(long, value_enum, default_value_t = Load::Verbs)]
    pub load: Load,
    /// By how much the delays of cables differ, in hundredths of the delay.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=90))]
    pub jitter: u32,
    /// Round trips of a link in a pace.
    #[arg(long, value_name = "RT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    pub pace: u32,
    /// Breaks something on purpose: retries-blindly, guesses-in-doubt or hides-restarts.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<MeshMutant>,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What nodes ask of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// Nothing.
    None,
    /// Verbs, one-phase and two-phase.
    Verbs,
}

/// What is printed as JSON, of one run or of many.
#[derive(Serialize)]
struct Printed<'a> {
    /// The command that makes this run, or the one that failed, again.
    command: String,
    report: Option<MeshReport>,
    violation: Option<&'a Violation>,
    elapsed_s: f64,
}

/// Runs `covalent sim mesh`.
///
/// # Errors
/// There is no such shape; or nobody reads any more, or the command was asked to end.
pub fn run(args: &MeshArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let options = options(args);
    let first = args.seeds.as_ref().map_or(args.seed, |seeds| seeds.0.start);
    // A shape that cannot be is told before the first run.
    let shape = mesh::shape(first, &options).context("there is no such mesh")?;
    let held = match &args.seeds {
        None => one(args, shape, &options)?,
        Some(seeds) => many(args, seeds.0.clone(), &options, interrupt)?,
    };
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn options(args: &MeshArgs) -> MeshOptions {
    let usual = MeshOptions::new();
    let says_how_many = matches!(
        args.shape,
        Form::File(_) | Form::Grid(Some(_)) | Form::Torus(Some(_))
    );
    let nodes = match args.nodes {
        None if says_how_many => None,
        None => usual.nodes,
        Some(nodes) => Some(usize::from(nodes)),
    };
    MeshOptions {
        form: args.shape.clone(),
        nodes,
        valence: usize::from(args.valence),
        faults: args.faults,
        churn: args.churn,
        every_rt: args.every,
        load: args.load == Load::Verbs,
        jitter_percent: args.jitter,
        pace_rt: args.pace,
        mutant: args.mutant,
    }
}

/// Prints one run. Gives whether every invariant held.
fn one(args: &MeshArgs, shape: Shape, options: &MeshOptions) -> Result<bool> {
    let names: Vec<String> = (0..shape.nodes).map(|node| shape.node_name(node)).collect();
    let head = format!(
        "seed {}: {}, {} nodes, {} cables; faults: {}\n\n",
        args.seed,
        shape.name,
        grouped(shape.nodes as u64),
        grouped(shape.cables.len() as u64),
        options.faults
    );
    let start = Instant::now();
    let (result, trace) = mesh::run(args.seed, shape, options, Some(Trace::default()));
    let elapsed_s = start.elapsed().as_secs_f64();
    let failure = result.as_ref().err();
    match args.format {
        Format::Json => output::json(&Printed {
            command: options.command(args.seed),
            report: result.as_ref().ok().copied(),
            violation: failure.map(|failure| &failure.violation),
            elapsed_s,
        })?,
        Format::Table => {
            let trace = trace.unwrap_or_default();
            let mut text = head;
            for mark in &trace.marks {
                text += &line(mark, &names);
            }
            text += &match &result {
                Ok(report) => format!(
                    "\n{}\nEvery invariant held. Fingerprint {:016x}.",
                    table(report),
                    report.fingerprint
                ),
                Err(failure) => format!("\nBroken: {failure}"),
            };
            output::line(&text)?;
        }
    }
    Ok(result.is_ok())
}

/// Runs many seeds. Gives whether every invariant held in all of them.
fn many(
    args: &MeshArgs,
    seeds: Range<u64>,
    options: &MeshOptions,
    interrupt: &Interrupt,
) -> Result<bool> {
    let count = seeds.end - seeds.start;
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new(count).with_style(style())
    } else {
        ProgressBar::hidden()
    };
    let start = Instant::now();
    let first = seeds.start;
    let result = mesh::run_seeds(seeds, options, |done| {
        bar.set_position(done);
        match interrupt.sleep(Duration::ZERO) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let elapsed_s = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    interrupt.sleep(Duration::ZERO)?;
    let failure = result.as_ref().err();
    match args.format {
        Format::Json => output::json(&Printed {
            command: options.command(failure.map_or(first, |failure| failure.seed)),
            report: result.as_ref().ok().copied(),
            violation: failure.map(|failure| &failure.violation),
            elapsed_s,
        })?,
        Format::Table => output::line(&match &result {
            Ok(report) => format!(
                "{}\nEvery invariant held in {} runs, {:.1} s: {:.0} seeds/s.",
                table(report),
                grouped(count),
                elapsed_s,
                count as f64 / elapsed_s
            ),
            Err(failure) => broken(failure, options)?,
        })?,
    }
    Ok(result.is_ok())
}

/// A failure, with what happened before.
fn broken(failure: &MeshFailure, options: &MeshOptions) -> Result<String> {
    let shape = mesh::shape(failure.seed, options)?;
    let names: Vec<String> = (0..shape.nodes).map(|node| shape.node_name(node)).collect();
    let (_, trace) = mesh::run(failure.seed, shape, options, Some(Trace::default()));
    let marks = trace.unwrap_or_default().marks;
    let mut text = String::new();
    for mark in &marks[marks.len().saturating_sub(LAST_LINES)..] {
        text += &line(mark, &names);
    }
    Ok(text + &format!("\nBroken: {failure}"))
}

/// A mark: when, in round trips, at which node, what.
fn line(mark: &Mark, names: &[String]) -> String {
    let at_rt = mark.at_units as f64 / mesh::ROUND_TRIP_UNITS as f64;
    let node = mark.node.map_or("", |node| &names[usize::from(node)]);
    format!("{at_rt:>9.1}  {node:>4}  {}\n", mark.text)
}

fn table(report: &MeshReport) -> String {
    let mut table = Theme::of_stdout().table(&["what", "how much"]);
    for (what, how_much) in report.figures() {
        table.add_row([
            Cell::new(what),
            Cell::new(how_much).set_alignment(CellAlignment::Right),
        ]);
    }
    table.to_string()
}
