//! `covalent sim mesh`: a run of a mesh, or many.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use covalent_sim::{
    harness::{Failure, Simulator, Violation},
    mesh::{
        self, CapturedFrame, Exhaustive, Mark, MarkKind, MeshFaults, MeshLoad, MeshMutant,
        MeshOptions, MeshReport, ROUND_TRIP_UNITS, Title, Trace,
    },
    shape::{Form, NODES_MAX, Shape, VALENCE_MAX},
};
use serde::Serialize;

use super::{
    RunArgs,
    many::{Many, Progress},
    print, shape_help,
};
use crate::{
    args::Format,
    capture::{Capture, Seen},
    interrupt::Interrupt,
    output::{self, Cell, Table, Theme, grouped},
};

/// `covalent sim mesh`
#[derive(Debug, Args)]
#[command(
    after_help = "Nodes start and settle. Faults occur one after the other. The mesh settles with \
    the faults that remain, and again when everything is repaired. Time is counted in round trips \
    of a link. A seed determines everything that no option sets. The same seed with the same \
    options gives the same run, with the same fingerprint. Every invariant has a checker that is \
    always on. It reports a broken invariant with the command that replays the run.\n\n\
    A shape file has one cable per line: the names of its two nodes, separated by space. `#` \
    starts a comment.\n\n\
    Classes of faults: cut, silent, one-way, flap, crash, stall, loss, partition; or `all`, or \
    `none`; and liar, which `all` does not include.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim mesh --nodes 8 --shape chords:2 --seed 7            one run, event by event\n  \
    covalent sim mesh --shape torus:25x40 --faults cut --load none   1,000 nodes, cut cables\n  \
    covalent sim mesh --shape rack.txt --faults crash,partition      cables from a file\n  \
    covalent sim mesh --nodes 12 --seeds 0..1000                     many runs, and their rate\n  \
    covalent sim mesh --shape grid:4x4 --load far --seed 7           verbs over several hops\n  \
    covalent sim mesh --nodes 12 --trace run.html                    graph and timeline, HTML\n  \
    covalent sim mesh --nodes 3 --capture run.pcapng                 all frames, for Wireshark\n  \
    covalent sim mesh --exhaustive three                             all 63 triangle failures\n  \
    covalent sim mesh --exhaustive sixteen --case 7                  one case, event by event\n  \
    covalent sim mesh --shape torus --grow 10,100,1000 --plot g.svg  growth with the mesh size\n  \
    covalent sim mesh --mutant hides-restarts --faults crash         finds a deliberate defect"
)]
pub struct MeshArgs {
    /// Which runs, and how they are printed.
    #[command(flatten)]
    pub runs: RunArgs,
    /// Number of nodes. Default: 12, unless the shape sets it.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(2..=NODES_MAX as i64),
    )]
    pub nodes: Option<u16>,
    #[arg(long, value_name = "SHAPE", default_value = "random", help = shape_help())]
    pub shape: Form,
    /// Maximum number of cables at a node.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u8).range(2..=VALENCE_MAX as i64),
    )]
    pub valence: u8,
    /// Classes of faults, separated by commas.
    #[arg(long, value_name = "CLASSES", default_value_t = MeshFaults::ALL)]
    pub faults: MeshFaults,
    /// Total number of faults. Each is repaired later or remains until the first rest.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 40,
        value_parser = clap::value_parser!(u32).range(0..=100_000),
    )]
    pub churn: u32,
    /// Mean time between two faults, in round trips of a link.
    #[arg(
        long,
        value_name = "RT",
        default_value_t = 60,
        value_parser = clap::value_parser!(u32).range(0..=100_000),
    )]
    pub every: u32,
    /// Continuous load of verbs: none, verbs (each node to its neighbors), or far (any node to any
    /// node, over paths).
    #[arg(long, value_name = "LOAD", default_value_t = MeshLoad::Verbs)]
    pub load: MeshLoad,
    /// Variation of the delays of cables, in hundredths of the delay.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=90),
    )]
    pub jitter: u32,
    /// Length of a tick, in round trips of a link.
    #[arg(
        long,
        value_name = "RT",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(20..=10_000),
    )]
    pub pace: u32,
    /// Run every case of a list instead: three (a triangle, 63 failures, at every moment) or
    /// sixteen (a 4×4 grid, every cable and node, alone and in pairs).
    #[arg(
        long,
        value_name = "LIST",
        conflicts_with_all = [
            "seed",
            "seeds",
            "nodes",
            "shape",
            "faults",
            "churn",
            "every",
            "jitter",
            "pace",
        ],
    )]
    pub exhaustive: Option<Exhaustive>,
    /// Run only this case of the list, and print it.
    #[arg(long, value_name = "N", requires = "exhaustive")]
    pub case: Option<u64>,
    /// Write the events of one run to this file, as an HTML page with a timeline.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["seeds", "grow"])]
    pub trace: Option<PathBuf>,
    /// Write every frame of one run to this file, for Wireshark. Each cable is an interface; one
    /// microsecond is 1/32 of a round trip.
    #[arg(long, value_name = "FILE.pcapng", conflicts_with_all = ["seeds", "grow"])]
    pub capture: Option<PathBuf>,
    /// Start of the page and the capture, in round trips of a link.
    #[arg(long, value_name = "RT")]
    pub from: Option<u32>,
    /// End of the page and the capture, in round trips of a link.
    #[arg(long, value_name = "RT")]
    pub to: Option<u32>,
    /// Show only the tree of this node, given by its number, on the page.
    #[arg(long, value_name = "NODE", requires = "trace")]
    pub root: Option<u16>,
    /// Run the seed at each of these sizes, and print how figures grow.
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        conflicts_with_all = ["nodes", "seeds", "exhaustive"],
        value_parser = clap::value_parser!(u16).range(2..=NODES_MAX as i64),
    )]
    pub grow: Vec<u16>,
    /// Write a plot of the growth to this file.
    #[arg(long, value_name = "FILE.svg", requires = "grow")]
    pub plot: Option<PathBuf>,
    /// Break the implementation on purpose: retries-blindly, guesses-in-doubt, hides-restarts,
    /// loses-updates, keeps-words, takes-anybody, deaf-to-lost, never-repeats, deaf-to-denied or
    /// keeps-children.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<MeshMutant>,
}

/// JSON output of one run or of many.
#[derive(Serialize)]
struct Printed<'a> {
    /// The command that makes this run, or the one that failed, again.
    command: String,
    report: Option<&'a MeshReport>,
    violation: Option<&'a Violation>,
    elapsed_s: f64,
}

/// The result of one run, and its trace if recorded.
type Outcome = (Result<MeshReport, Box<Failure>>, Option<Trace>);

/// Runs `covalent sim mesh`. Returns whether every invariant held.
///
/// # Errors
/// Fails if the shape or case is impossible, a file cannot be written, the reader of the output is
/// gone, or the command was requested to stop.
pub fn run(args: &MeshArgs, interrupt: &Interrupt) -> Result<bool> {
    let options = options(args);
    match (args.exhaustive, &args.runs.seeds) {
        (Some(list), _) => listed(args, list, &options, interrupt),
        _ if !args.grow.is_empty() => grown(args, &options, interrupt),
        (None, Some(seeds)) => {
            let seeds = seeds.0.clone();
            // Report an impossible shape before the first run.
            mesh::shape(seeds.start, &options).context("there is no such mesh")?;
            let command = |seed| options.command(seed);
            let all = |progress: &Progress<'_>| mesh::run_seeds(seeds.clone(), &options, progress);
            let rerun = |seed, trace| {
                let shape = mesh::shape(seed, &options)?;
                let names = names(&shape);
                Ok((mesh::run(seed, shape, &options, trace), names))
            };
            many(args, seeds.clone(), &command, &all, &rerun, interrupt)
        }
        (None, None) => {
            let shape = mesh::shape(args.runs.seed, &options).context("there is no such mesh")?;
            let outcome = |trace| mesh::run(args.runs.seed, shape.clone(), &options, trace);
            one(args, &shape, &options.command(args.runs.seed), outcome)
        }
    }
}

/// Runs the cases of a list, or one of them.
fn listed(
    args: &MeshArgs,
    list: Exhaustive,
    options: &MeshOptions,
    interrupt: &Interrupt,
) -> Result<bool> {
    let shape = list.shape();
    let cases = list.cases();
    let command = |case| list.command(case, options);
    if let Some(case) = args.case {
        ensure!(
            case < cases,
            "there is no case {case} of {list}; cure: name one from 0 to {}",
            cases - 1
        );
        let outcome = |trace| mesh::run_case(list, case, options, trace);
        return one(args, &shape, &command(case), outcome);
    }
    let all = |progress: &Progress<'_>| mesh::run_cases(list, 0..cases, options, progress);
    let rerun = |case, trace| Ok((mesh::run_case(list, case, options, trace), names(&shape)));
    many(args, 0..cases, &command, &all, &rerun, interrupt)
}

/// Runs a seed at each size, and draws how figures grow.
fn grown(args: &MeshArgs, options: &MeshOptions, interrupt: &Interrupt) -> Result<bool> {
    let mut reports = Vec::new();
    for &nodes in &args.grow {
        let options = MeshOptions {
            nodes: Some(usize::from(nodes)),
            ..options.clone()
        };
        let shape = mesh::shape(args.runs.seed, &options).context("there is no such mesh")?;
        let (result, _) = mesh::run(args.runs.seed, shape, &options, None);
        match result {
            Ok(report) => reports.push(report),
            Err(failure) => {
                output::line(&format!("Broken: {failure}"))?;
                return Ok(false);
            }
        }
        interrupt.sleep(Duration::ZERO)?;
    }
    match args.runs.format {
        Format::Json => output::json(&reports)?,
        Format::Table => {
            output::line(&growth_table(Theme::of_stdout(), &reports).to_string())?;
        }
    }
    if let Some(path) = &args.plot {
        let svg = mesh::growth(&reports).map_err(|problem| anyhow!("{problem}"))?;
        write(path, &svg)?;
    }
    Ok(true)
}

/// A figure in each line, a size in each column.
fn growth_table(theme: Theme, reports: &[MeshReport]) -> Table {
    let sizes: Vec<String> = reports
        .iter()
        .map(|report| report.nodes.to_string())
        .collect();
    let mut head = vec!["nodes"];
    head.extend(sizes.iter().map(String::as_str));
    let mut table = theme.new_table(head);
    let columns: Vec<_> = reports.iter().map(MeshReport::figures).collect();
    let lines = columns.first().map_or(0, Vec::len);
    for line in 0..lines {
        let what = Cell::new(columns[0][line].0);
        let figures = columns.iter().map(|column| Cell::right(&column[line].1));
        table.add_row(std::iter::once(what).chain(figures));
    }
    table
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| unwritable(path))
}

fn unwritable(path: &Path) -> String {
    format!(
        "{} cannot be written; cure: name a file in a folder that you may write to",
        path.display()
    )
}

/// Frames with an interface for each cable. A unit counts as a microsecond.
fn write_frames(path: &Path, shape: &Shape, frames: &[CapturedFrame]) -> Result<()> {
    let names = shape.cables.iter().map(|cable| {
        let [a, b] = cable.map(|node| shape.node_name(usize::from(node)));
        format!("{a}-{b}")
    });
    let file = fs::File::create(path).with_context(|| unwritable(path))?;
    let mut capture = Capture::new(file, names, 0)?;
    for frame in frames {
        capture.frame(&Seen {
            interface: frame.cable.into(),
            at: Duration::from_micros(frame.at_units),
            frame_bytes: frame.bytes.len() as u32,
            missed: 0,
            sent: None,
            bytes: &frame.bytes,
        })?;
    }
    capture.flush()
}

fn names(shape: &Shape) -> Vec<String> {
    (0..shape.nodes).map(|node| shape.node_name(node)).collect()
}

fn options(args: &MeshArgs) -> MeshOptions {
    let usual = MeshOptions::new();
    let has_node_count = matches!(
        args.shape,
        Form::File(_) | Form::Grid(Some(_)) | Form::Torus(Some(_))
    );
    let nodes = match args.nodes {
        None if has_node_count => None,
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
        load: args.load,
        jitter_percent: args.jitter,
        tick_rt: args.pace,
        mutant: args.mutant,
    }
}

/// Prints one run, of a shape, that a command makes again. Gives whether every invariant held.
fn one(
    args: &MeshArgs,
    shape: &Shape,
    command: &str,
    outcome: impl FnOnce(Option<Trace>) -> Outcome,
) -> Result<bool> {
    let units = |round_trips: u32| u64::from(round_trips) * ROUND_TRIP_UNITS;
    let stretch = (args.from.is_some() || args.to.is_some())
        .then(|| [args.from.map_or(0, units), args.to.map_or(u64::MAX, units)]);
    if let Some(root) = args.root {
        ensure!(
            usize::from(root) < shape.nodes,
            "there is no node {root}; cure: name one from 0 to {}",
            shape.nodes - 1
        );
    }
    let start = Instant::now();
    let mut kept = Trace::of(stretch, args.root);
    kept.frames = args.capture.is_some().then(Vec::new);
    let (result, trace) = outcome(Some(kept));
    let elapsed_s = start.elapsed().as_secs_f64();
    let trace = trace.unwrap_or_default();
    let violation = result.as_ref().err().map(|failure| &failure.violation);
    if let Some(path) = &args.trace {
        let title = Title {
            command,
            report: result.as_ref().ok(),
            violation,
        };
        write(path, &mesh::page(&title, shape, &trace))?;
    }
    if let Some(path) = &args.capture {
        write_frames(path, shape, trace.frames.as_deref().unwrap_or_default())?;
    }
    match args.runs.format {
        Format::Json => output::json(&Printed {
            command: command.to_owned(),
            report: result.as_ref().ok(),
            violation,
            elapsed_s,
        })?,
        Format::Table => {
            let mut text = format!(
                "{command}\n{}, {} nodes, {} cables\n\n",
                shape.name,
                grouped(shape.nodes as u64),
                grouped(shape.cables.len() as u64),
            );
            let names = names(shape);
            for mark in trace.marks.iter().filter(|mark| is_printed(mark)) {
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

/// Runs many. Gives whether every invariant held in all of them.
fn many(
    args: &MeshArgs,
    numbers: Range<u64>,
    command: &dyn Fn(u64) -> String,
    all: &dyn Fn(&Progress<'_>) -> Result<MeshReport, Box<Failure>>,
    rerun: &dyn Fn(u64, Option<Trace>) -> Result<(Outcome, Vec<String>)>,
    interrupt: &Interrupt,
) -> Result<bool> {
    let many = Many::run(numbers.clone(), interrupt, all)?;
    let failure = many.result.as_ref().err();
    match args.runs.format {
        Format::Json => output::json(&Printed {
            command: command(failure.map_or(numbers.start, |failure| failure.seed)),
            report: many.result.as_ref().ok(),
            violation: failure.map(|failure| &failure.violation),
            elapsed_s: many.elapsed_s,
        })?,
        Format::Table => output::line(&many.text("runs", table, |failure| {
            let ((_, trace), names) = rerun(failure.seed, Some(Trace::default()))?;
            let marks = trace.unwrap_or_default().marks;
            Ok(print::last_lines(&marks, |mark| line(mark, &names)))
        })?)?,
    }
    Ok(many.held())
}

/// Returns whether to print a mark. Changes of parents in trees are too many to print; only the
/// page shows them.
const fn is_printed(mark: &Mark) -> bool {
    !matches!(mark.kind, MarkKind::Attached)
}

/// Formats a mark: its time in round trips, its node, and its text.
fn line(mark: &Mark, names: &[String]) -> String {
    let at_rt = mark.at_units as f64 / ROUND_TRIP_UNITS as f64;
    let node = mark.node.map_or("", |node| &names[usize::from(node)]);
    format!("{at_rt:>9.1}  {node:>4}  {}\n", mark.text)
}

fn table(report: &MeshReport) -> String {
    print::figures(Theme::of_stdout(), ["what", "how much"], report.figures())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The widest growth.
    pub fn widest(theme: Theme) -> String {
        let reports = [10, 100, 1000].map(|nodes| MeshReport {
            nodes,
            runs: u64::MAX,
            ..MeshReport::default()
        });
        growth_table(theme, &reports).to_string()
    }
}
