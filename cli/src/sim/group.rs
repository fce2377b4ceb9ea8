//! `covalent sim group`: a run of groups, or many.

use std::{
    io::{self, IsTerminal},
    ops::{ControlFlow, Range},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use covalent_sim::{
    group::{
        Failure, Mutant, Options, Report, World,
        fact::Subject,
        figures::{Cause, measure_all, shape_of},
        options::Faults,
        plan::Plan,
        run_seeds,
        witness::{Entry, Violation},
    },
    node_name,
    shape::Form,
};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{LAST_LINES, style};
use crate::{
    args::{Format, SeedRange},
    interrupt::Interrupt,
    output::{self, Theme, grouped},
};

/// `covalent sim group`
#[derive(Debug, Args)]
#[command(
    after_help = "Each node has an application that is a member of one group. A seed decides everything that is not told here: nodes, cables, \
    faults, messages, and how long everything takes. The same seed with the same options is the same run. Every invariant has a checker that is \
    always on; one that is broken is named, with the command that replays it.\n\n\
    Classes of faults: late, duplicate, unclear, refuse, cut, partition, kill, crash, midway, halt, accuse, flap, full, suspect; or `all`, or `none`.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim group --seed 7                              one run, event by event\n  \
    covalent sim group --seed 7 --nodes 5 --shape ring       as many nodes, cabled so\n  \
    covalent sim group --seed 7 --faults kill,partition      these faults\n  \
    covalent sim group --seed 7 --envelopes                  every envelope as well\n  \
    covalent sim group --seeds 0..10000                      many runs, with seeds per second\n  \
    covalent sim group --figures --nodes 8                   how long a change of views takes\n  \
    covalent sim group --seeds 0..100 --mutant acks-before-held  built wrong, to see it found"
)]
pub struct GroupArgs {
    /// The seed of the run to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Runs these seeds, the last one not included, and prints what they did together.
    #[arg(long, value_name = "A..B", conflicts_with_all = ["seed", "envelopes"])]
    pub seeds: Option<SeedRange>,
    /// Nodes, each with one member.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub nodes: Option<u8>,
    /// What is cabled to what: line, ring, chords:N, full, grid or grid:WxH, torus or torus:WxH, random or random:DEGREE, or a file with a cable in each line.
    #[arg(long, value_name = "SHAPE")]
    pub shape: Option<Form>,
    /// Classes of faults, with commas between, each of which occurs rarely or often.
    #[arg(long, value_name = "CLASSES")]
    pub faults: Option<Faults>,
    /// Breaks something on purpose.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<Mutant>,
    /// Prints every envelope too.
    #[arg(long)]
    pub envelopes: bool,
    /// Measures how long it takes from the first evidence that somebody is gone until all others have the view without it.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "envelopes", "faults", "mutant"])]
    pub figures: bool,
    /// How it is printed.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What is printed of one run as JSON.
#[derive(Serialize)]
struct Run<'a> {
    seed: u64,
    /// The command that makes this run again.
    command: String,
    nodes: usize,
    shape: &'a str,
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

/// Runs `covalent sim group`.
///
/// # Errors
/// There is no such shape; or nobody reads any more, or the command was asked to end.
pub fn run(args: &GroupArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let options = Options {
        nodes: args.nodes.map(usize::from),
        shape: args.shape.clone(),
        faults: args.faults,
        mutant: args.mutant,
    };
    let held = match &args.seeds {
        None if args.figures => figures(args, interrupt)?,
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
fn one(args: &GroupArgs, options: &Options) -> Result<bool> {
    let world = World::new(args.seed, options, true).context("there is no such world")?;
    let plan = world.plan().clone();
    let (result, trace) = world.run(args.seed);
    let shown: Vec<&Entry> = trace
        .iter()
        .filter(|entry| args.envelopes || entry.subject != Subject::Envelope)
        .collect();
    match args.format {
        Format::Json => output::json(&Run {
            seed: args.seed,
            command: options.command(args.seed),
            nodes: plan.shape.nodes,
            shape: &plan.shape.name,
            cables: names(&plan),
            faults: plan.faults.classes().map(|fault| fault.as_str()).collect(),
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

/// Nodes of the groups whose changes are measured, if it is not said how many.
const FIGURE_NODES: [usize; 4] = [3, 4, 8, 16];
/// Times that each member of a group goes.
const FIGURE_TIMES: u64 = 10;

/// What is printed of changes of views as JSON.
#[derive(Serialize)]
struct Figures {
    nodes: usize,
    shape: String,
    cause: &'static str,
    round_trips_p50: f64,
    round_trips_max: f64,
    envelopes_per_member_p50: f64,
    envelopes_per_member_max: f64,
}

/// Prints how long changes of views take. Gives whether every invariant held.
fn figures(args: &GroupArgs, interrupt: &Interrupt) -> Result<bool> {
    let nodes = match args.nodes {
        Some(nodes) => vec![usize::from(nodes)],
        None => FIGURE_NODES.to_vec(),
    };
    let form = args.shape.clone().unwrap_or(Form::Full);
    let mut all = Vec::new();
    for nodes in nodes {
        let shape = shape_of(&form, nodes, args.seed).context("there is no such world")?;
        for cause in Cause::ALL {
            interrupt.sleep(Duration::ZERO)?;
            let passages = match measure_all(&shape, cause, FIGURE_TIMES) {
                Ok(passages) => passages,
                Err(problem) => {
                    output::line(&format!("Broken: {problem}"))?;
                    return Ok(false);
                }
            };
            all.push(Figures {
                nodes,
                shape: shape.name.clone(),
                cause: cause.as_str(),
                round_trips_p50: passages.round_trips(50),
                round_trips_max: passages.round_trips(100),
                envelopes_per_member_p50: passages.envelopes(50),
                envelopes_per_member_max: passages.envelopes(100),
            });
        }
    }
    match args.format {
        Format::Json => output::json(&all)?,
        Format::Table => {
            let headers = [
                "nodes",
                "shape",
                "cause",
                "round trips p50",
                "most",
                "envelopes of each p50",
                "most",
            ];
            let mut table = Theme::of_stdout().table(&headers);
            for figures in &all {
                table.add_row([
                    figures.nodes.to_string(),
                    figures.shape.clone(),
                    figures.cause.to_owned(),
                    format!("{:.2}", figures.round_trips_p50),
                    format!("{:.2}", figures.round_trips_max),
                    format!("{:.1}", figures.envelopes_per_member_p50),
                    format!("{:.1}", figures.envelopes_per_member_max),
                ]);
            }
            output::line(&format!(
                "From the first evidence that a member is gone to the view of the last one who is left, {FIGURE_TIMES} times each member, idle and under load:\n{table}"
            ))?;
        }
    }
    Ok(true)
}

/// Runs many seeds. Gives whether every invariant held in all of them.
fn many(
    args: &GroupArgs,
    seeds: Range<u64>,
    options: &Options,
    interrupt: &Interrupt,
) -> Result<bool> {
    // A shape that cannot be is told before the first run.
    World::new(seeds.start, options, false).context("there is no such world")?;
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
            Err(failure) => broken(failure, options)?,
        })?,
    }
    Ok(held)
}

/// A failure, with what happened before.
fn broken(failure: &Failure, options: &Options) -> Result<String> {
    let (_, trace) = World::new(failure.seed, options, true)?.run(failure.seed);
    let mut text = String::new();
    for entry in &trace[trace.len().saturating_sub(LAST_LINES)..] {
        text += &line(entry);
    }
    Ok(text + &format!("\nBroken: {failure}"))
}

/// What the seed decided.
fn described(seed: u64, plan: &Plan) -> String {
    let cables: Vec<_> = names(plan)
        .iter()
        .map(|[a, b]| format!("{a}-{b}"))
        .collect();
    let deeds: Vec<_> = plan.deeds.iter().map(|deed| deed.fault.as_str()).collect();
    format!(
        "seed {seed}: {} nodes, {}; cables {}; up to {} messages\nfaults: {}; done: {}\n\n",
        plan.shape.nodes,
        plan.shape.name,
        cables.join(" "),
        plan.messages_max,
        plan.faults,
        if deeds.is_empty() {
            "nothing".to_owned()
        } else {
            deeds.join(", ")
        }
    )
}

fn names(plan: &Plan) -> Vec<[&'static str; 2]> {
    let cables = plan.cables();
    cables.iter().map(|ends| ends.map(node_name)).collect()
}

fn line(entry: &Entry) -> String {
    format!("{:>8}  {}\n", entry.at, entry.text)
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
