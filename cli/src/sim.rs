//! `covalent sim`: a run of the simulator, or many.

mod mesh;

use std::{
    io::{self, IsTerminal},
    ops::{ControlFlow, Range},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Subcommand;
use comfy_table::{Cell, CellAlignment};
use covalent_sim::{
    Failure, Options, Report, World,
    fact::Subject,
    node_name,
    plan::Plan,
    run_seeds,
    witness::{Entry, Violation},
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{
    args::{Format, SimArgs},
    interrupt::Interrupt,
    output::{self, Theme, grouped},
};

/// Lines of the trace before a violation that are shown of one seed of many.
const LAST_LINES: usize = 60;

/// The simulations that have options of their own.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Runs a mesh of up to a thousand nodes with time and faults, and prints what happened.
    Mesh(mesh::MeshArgs),
}

/// What is printed of one run as JSON.
#[derive(Serialize)]
struct Run<'a> {
    seed: u64,
    /// The command that makes this run again.
    command: String,
    nodes: usize,
    cables: Vec<[&'static str; 2]>,
    faults: Vec<&'static str>,
    trace: Vec<&'a Entry>,
    report: Option<Report>,
    violation: Option<&'a Violation>,
}

/// What is printed of many runs as JSON.
#[derive(Serialize)]
struct Runs {
    seeds: u64,
    elapsed_s: f64,
    seeds_per_s: f64,
    report: Option<Report>,
    violation: Option<Violation>,
    /// The seed that broke it and the command that replays it.
    failed: Option<(u64, String)>,
}

/// Runs `covalent sim`.
///
/// # Errors
/// When nobody reads any more, or the command was asked to end.
pub fn run(args: &SimArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    match &args.what {
        Some(SimCommand::Mesh(args)) => return mesh::run(args, interrupt),
        None => {}
    }
    let options = Options {
        nodes: args.nodes.map(usize::from),
        topology: args.topology,
        faults: args.faults,
        steps: args.steps,
        mutant: args.mutant,
    };
    let held = match &args.seeds {
        None => one(args, &options)?,
        Some(seeds) => many(args, seeds.0.clone(), &options, interrupt)?,
    };
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints one run. Gives whether every invariant held.
fn one(args: &SimArgs, options: &Options) -> Result<bool> {
    let world = World::new(args.seed, options, true);
    let plan = world.plan().clone();
    let (result, trace) = world.run(args.seed);
    let shown: Vec<&Entry> = trace
        .iter()
        .filter(|entry| args.frames || !matches!(entry.subject, Subject::Frame | Subject::Pace))
        .collect();
    match args.format {
        Format::Json => output::json(&Run {
            seed: args.seed,
            command: options.command(args.seed),
            nodes: plan.nodes,
            cables: names(&plan),
            faults: plan
                .faults()
                .iter()
                .map(|(fault, _)| fault.as_str())
                .collect(),
            trace: shown,
            report: result.as_ref().ok().copied(),
            violation: result.as_ref().err().map(|failure| &failure.violation),
        })?,
        Format::Table => {
            let mut text = described(args.seed, &plan);
            for entry in shown {
                text += &line(entry);
            }
            text += &match &result {
                Ok(report) => format!("\n{}\nEvery invariant held.", table(report)),
                Err(failure) => format!("\nBroken: {failure}"),
            };
            output::line(&text)?;
        }
    }
    Ok(result.is_ok())
}

/// Runs many seeds. Gives whether every invariant held in all of them.
fn many(
    args: &SimArgs,
    seeds: Range<u64>,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<bool> {
    let count = seeds.end - seeds.start;
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new(count).with_style(style())
    } else {
        ProgressBar::hidden()
    };
    let start = Instant::now();
    let result = run_seeds(seeds, options, |done| {
        bar.set_position(done);
        match interrupt.sleep(Duration::ZERO) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    let elapsed_s = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    interrupt.sleep(Duration::ZERO)?;
    let held = result.is_ok();
    let failed = result.as_ref().err();
    match args.format {
        Format::Json => output::json(&Runs {
            seeds: count,
            elapsed_s,
            seeds_per_s: count as f64 / elapsed_s,
            report: result.as_ref().ok().copied(),
            violation: failed.map(|failure| failure.violation.clone()),
            failed: failed.map(|failure| (failure.seed, options.command(failure.seed))),
        })?,
        Format::Table => output::line(&match &result {
            Ok(report) => format!(
                "{}\nEvery invariant held in {} runs, {:.1} s: {:.0} seeds/s.",
                table(report),
                grouped(count),
                elapsed_s,
                count as f64 / elapsed_s
            ),
            Err(failure) => broken(failure, options),
        })?,
    }
    Ok(held)
}

/// A failure, with what happened before.
fn broken(failure: &Failure, options: &Options) -> String {
    let (_, trace) = World::new(failure.seed, options, true).run(failure.seed);
    let mut text = String::new();
    for entry in &trace[trace.len().saturating_sub(LAST_LINES)..] {
        text += &line(entry);
    }
    text + &format!("\nBroken: {failure}")
}

/// What the seed decided.
fn described(seed: u64, plan: &Plan) -> String {
    let cables: Vec<_> = names(plan)
        .iter()
        .map(|[a, b]| format!("{a}-{b}"))
        .collect();
    let faults: Vec<_> = plan
        .faults()
        .iter()
        .map(|(fault, often)| format!("{} {often} ‰", fault.as_str()))
        .collect();
    format!(
        "seed {seed}: {} nodes; cables {}; {} slots; {} events\nfaults: {}\n\n",
        plan.nodes,
        cables.join(" "),
        plan.slots,
        grouped(u64::from(plan.steps)),
        if faults.is_empty() {
            "none".to_owned()
        } else {
            faults.join(", ")
        }
    )
}

fn names(plan: &Plan) -> Vec<[&'static str; 2]> {
    plan.cables.iter().map(|ends| ends.map(node_name)).collect()
}

fn line(entry: &Entry) -> String {
    format!("{:>7}  {}\n", entry.step, entry.text)
}

fn table(report: &Report) -> String {
    let mut table = Theme::of_stdout().table(&["what", "count"]);
    for (what, count) in report.figures() {
        table.add_row([
            Cell::new(what.replace('_', " ")),
            Cell::new(grouped(count)).set_alignment(CellAlignment::Right),
        ]);
    }
    table.to_string()
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos} of {len} seeds, {per_sec}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
