//! `covalent sim mesh`: a run of a mesh, or many.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use comfy_table::{Cell, CellAlignment};
use covalent_sim::{
    mesh::{
        self, CapturedFrame, Exhaustive, Mark, MarkKind, MeshFailure, MeshFaults, MeshLoad,
        MeshMutant, MeshOptions, MeshReport, ROUND_TRIP_UNITS, Title, Trace,
    },
    shape::{Form, NODES_MAX, Shape, VALENCE_MAX},
    witness::Violation,
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
    Classes of faults: cut, silent, one-way, flap, crash, stall, loss, partition; or `all`, or `none`; and liar, which is not among all.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim mesh --nodes 8 --shape chords:2 --seed 7            one run, event by event\n  \
    covalent sim mesh --shape torus:25x40 --faults cut --load none   a thousand nodes, cables that are cut\n  \
    covalent sim mesh --shape rack.txt --faults crash,partition      cables of a file, these faults\n  \
    covalent sim mesh --nodes 12 --seeds 0..1000                     many runs, with seeds per second\n  \
    covalent sim mesh --shape grid:4x4 --load far --seed 7           verbs over several hops\n  \
    covalent sim mesh --nodes 12 --trace run.html                    a page with the graph and a time-line\n  \
    covalent sim mesh --nodes 3 --capture run.pcapng                 all frames of a run, for Wireshark\n  \
    covalent sim mesh --exhaustive three                             all 63 failure modes of a triangle\n  \
    covalent sim mesh --exhaustive sixteen --case 7                  one case, event by event\n  \
    covalent sim mesh --shape torus --grow 10,100,1000 --plot g.svg  how figures grow with the mesh\n  \
    covalent sim mesh --mutant hides-restarts --faults crash         built wrong, to see it found"
)]
pub struct MeshArgs {
    /// Which runs, and how they are printed.
    #[command(flatten)]
    pub runs: RunArgs,
    /// Nodes; 12, if the shape does not say how many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=NODES_MAX as i64))]
    pub nodes: Option<u16>,
    #[arg(long, value_name = "SHAPE", default_value = "random", help = shape_help())]
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
    /// Who asks whom for verbs all the time: none, verbs (neighbours each other), or far (everybody anybody, over paths).
    #[arg(long, value_name = "LOAD", default_value_t = MeshLoad::Verbs)]
    pub load: MeshLoad,
    /// By how much the delays of cables differ, in hundredths of the delay.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=90))]
    pub jitter: u32,
    /// Round trips of a link in a pace.
    #[arg(long, value_name = "RT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(20..=10_000))]
    pub pace: u32,
    /// Runs every case of a list instead: three (a triangle, 63 ways to fail, at every moment) or sixteen (a 4×4 grid, every cable and node, alone and
    /// in pairs).
    #[arg(long, value_name = "LIST", conflicts_with_all = ["seed", "seeds", "nodes", "shape", "faults", "churn", "every", "jitter", "pace"])]
    pub exhaustive: Option<Exhaustive>,
    /// One case of the list, which is printed.
    #[arg(long, value_name = "N", requires = "exhaustive")]
    pub case: Option<u64>,
    /// Writes what happened into this file, as a page with a time-line: of one run.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["seeds", "grow"])]
    pub trace: Option<PathBuf>,
    /// Writes every frame of one run into this file, for Wireshark: an interface for each cable, a microsecond for each thirty-second of a round trip.
    #[arg(long, value_name = "FILE.pcapng", conflicts_with_all = ["seeds", "grow"])]
    pub capture: Option<PathBuf>,
    /// Page and capture have nothing from before, in round trips of a link.
    #[arg(long, value_name = "RT")]
    pub from: Option<u32>,
    /// Page and capture have nothing from behind, in round trips of a link.
    #[arg(long, value_name = "RT")]
    pub to: Option<u32>,
    /// The page has the tree of this node alone, by its number.
    #[arg(long, value_name = "NODE", requires = "trace")]
    pub root: Option<u16>,
    /// The same at each of these sizes, and how figures grow.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', conflicts_with_all = ["nodes", "seeds", "exhaustive"], value_parser = clap::value_parser!(u16).range(2..=NODES_MAX as i64))]
    pub grow: Vec<u16>,
    /// Writes how they grow into this file.
    #[arg(long, value_name = "FILE.svg", requires = "grow")]
    pub plot: Option<PathBuf>,
    /// Breaks something on purpose: retries-blindly, guesses-in-doubt, hides-restarts, loses-updates, keeps-words, takes-anybody, deaf-to-lost, never-says-again,
    /// deaf-to-denied or keeps-children.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<MeshMutant>,
}

/// What is printed as JSON, of one run or of many.
#[derive(Serialize)]
struct Printed<'a> {
    /// The command that makes this run, or the one that failed, again.
    command: String,
    report: Option<&'a MeshReport>,
    violation: Option<&'a Violation>,
    elapsed_s: f64,
}

/// What happened in one run.
type Outcome = (Result<MeshReport, Box<MeshFailure>>, Option<Trace>);

/// Runs `covalent sim mesh`. Gives whether every invariant held.
///
/// # Errors
/// There is no such shape or case; a file cannot be written; or nobody reads any more, or the command was asked to end.
pub fn run(args: &MeshArgs, interrupt: &Interrupt) -> Result<bool> {
    let options = options(args);
    match (args.exhaustive, &args.runs.seeds) {
        (Some(list), _) => listed(args, list, &options, interrupt),
        _ if !args.grow.is_empty() => grown(args, &options, interrupt),
        (None, Some(seeds)) => {
            let seeds = seeds.0.clone();
            // A shape that cannot be is told before the first run.
            mesh::shape(seeds.start, &options).context("there is no such mesh")?;
            let command = |seed| options.command(seed);
            let all = |progress: &Progress<'_>| mesh::run_seeds(seeds.clone(), &options, progress);
            let again = |seed, trace| {
                let shape = mesh::shape(seed, &options)?;
                let names = names(&shape);
                Ok((mesh::run(seed, shape, &options, trace), names))
            };
            many(args, seeds.clone(), &command, &all, &again, interrupt)
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
    let again = |case, trace| Ok((mesh::run_case(list, case, options, trace), names(&shape)));
    many(args, 0..cases, &command, &all, &again, interrupt)
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
        Format::Table => output::line(&growth_table(&reports))?,
    }
    if let Some(path) = &args.plot {
        let svg = mesh::growth(&reports).map_err(|problem| anyhow!("{problem}"))?;
        write(path, &svg)?;
    }
    Ok(true)
}

/// A figure in each line, a size in each column.
fn growth_table(reports: &[MeshReport]) -> String {
    let sizes: Vec<String> = reports
        .iter()
        .map(|report| report.nodes.to_string())
        .collect();
    let mut head = vec!["nodes"];
    head.extend(sizes.iter().map(String::as_str));
    let mut table = Theme::of_stdout().table(&head);
    let columns: Vec<_> = reports.iter().map(MeshReport::figures).collect();
    let lines = columns.first().map_or(0, Vec::len);
    for line in 0..lines {
        let what = Cell::new(columns[0][line].0);
        let figures = columns
            .iter()
            .map(|column| Cell::new(&column[line].1).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(what).chain(figures));
    }
    table.to_string()
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
        load: args.load,
        jitter_percent: args.jitter,
        pace_rt: args.pace,
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
    all: &dyn Fn(&Progress<'_>) -> Result<MeshReport, Box<MeshFailure>>,
    again: &dyn Fn(u64, Option<Trace>) -> Result<(Outcome, Vec<String>)>,
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
            let ((_, trace), names) = again(failure.seed, Some(Trace::default()))?;
            let marks = trace.unwrap_or_default().marks;
            Ok(print::last_lines(&marks, |mark| line(mark, &names)))
        })?)?,
    }
    Ok(many.held())
}

/// What trees tell is too much to be printed, and is on the page.
const fn is_printed(mark: &Mark) -> bool {
    !matches!(mark.kind, MarkKind::Hangs)
}

/// A mark: when, in round trips, at which node, what.
fn line(mark: &Mark, names: &[String]) -> String {
    let at_rt = mark.at_units as f64 / ROUND_TRIP_UNITS as f64;
    let node = mark.node.map_or("", |node| &names[usize::from(node)]);
    format!("{at_rt:>9.1}  {node:>4}  {}\n", mark.text)
}

fn table(report: &MeshReport) -> String {
    print::figures(["what", "how much"], report.figures())
}
