//! `covalent sim hunt`: fresh seeds of all simulators on all cores, for a while.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use clap::Args;
use covalent_sim::{
    hunt::{Bounds, Finding, Hunt, Kind, MESH_NODES, Share, Simulation, Smallest, cores, shrink},
    shape::NODES_MAX,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{
    args::Format,
    interrupt::Interrupt,
    output::{self, Cell, Table, Theme, grouped},
};

/// How often the hunt is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often a line of progress is written where no terminal is.
const LINE: Duration = Duration::from_secs(10);
/// How long runs in flight may take when the time is up.
const GRACE: Duration = Duration::from_secs(60);
/// Seeds tried for each smaller case, at most.
const SHRINK_SEEDS: u64 = 20_000;
/// Maximum number of printed characters of a checker's finding.
const WHAT_MAX: usize = 400;
/// Upper bound of fresh bases, so that seeds are short enough to type.
const BASE_MAX: u64 = 1_000_000_000_000;

/// `covalent sim hunt`
#[derive(Debug, Args)]
#[command(
    after_help = "Each simulator gets the same share of all cores. A seed that breaks an invariant \
    ends the hunt, and so does one whose run panics. Then smaller cases are tried: fewer nodes, \
    fewer classes of faults, fewer events. The smallest that still breaks the same invariant is \
    printed with the command that replays it.\n\n\
    Three of four link seeds select their faults; the fourth has a blind forger, and each other \
    class but `arbitrary` and `lie` with a chance of one third. A mesh seed selects its shape, a \
    torus, a grid or a random one, and has all faults but `liar`. Liars are not hunted: `covalent \
    sim --faults lie --seeds A..B`, `covalent sim mesh --faults liar --seeds A..B`.\n\n\
    Runs that are in flight when the time is up get 60 s more. Exit status: 0 if every invariant \
    held and every run ended, 1 otherwise; 128 plus the number of the signal if one ended it.\n\n\
    Examples:\n  \
    covalent sim hunt --minutes 30                       all simulators\n  \
    covalent sim hunt links --minutes 600 --runs 1000000 a million link simulations\n  \
    covalent sim hunt meshes --nodes 100,1000            meshes of these sizes in turn\n  \
    covalent sim hunt groups --base 123456               starts at this seed\n  \
    covalent sim hunt --keep-going --format json         every finding\n  \
    covalent sim hunt links --mutant retries-blindly     finds a deliberate defect"
)]
pub struct HuntArgs {
    /// Simulators to run: links, groups or meshes. Default: all.
    #[arg(value_name = "SIMULATOR")]
    pub simulations: Vec<Simulation>,
    /// Duration in minutes.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=100_000),
    )]
    pub minutes: u64,
    /// Duration in seconds instead.
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "minutes",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
    )]
    pub seconds: Option<u64>,
    /// Seconds of one core for each simulator instead.
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["minutes", "seconds"],
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
    )]
    pub seconds_each: Option<u64>,
    /// Maximum number of runs of each simulator.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,
    /// Number of nodes of a mesh. Several sizes take turns.
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        default_values_t = [MESH_NODES as u16],
        value_parser = clap::value_parser!(u16).range(4..=NODES_MAX as i64),
    )]
    pub nodes: Vec<u16>,
    /// The first seed of each simulator. Default: a fresh one.
    #[arg(long, value_name = "SEED")]
    pub base: Option<u64>,
    /// Continue after a broken invariant, and print each one.
    #[arg(long)]
    pub keep_going: bool,
    /// Seconds spent on smaller cases of each finding.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(0..=100_000),
    )]
    pub shrink_seconds: u64,
    /// Break the implementation on purpose, under a name that all chosen simulators have.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table, display_order = 900)]
    pub format: Format,
}

/// JSON output of a hunt.
#[derive(Serialize)]
struct Summary {
    elapsed_s: f64,
    simulators: Vec<Searched>,
    findings: Vec<Found>,
    /// Commands of runs that had not ended.
    unfinished: Vec<String>,
    /// The time was not up and not all runs were done.
    interrupted: bool,
}

/// The searched seeds of one simulator.
#[derive(Serialize)]
struct Searched {
    simulator: &'static str,
    /// The first seed, and the one behind the last.
    seeds: [u64; 2],
    runs: u64,
    core_s: f64,
}

/// A finding.
#[derive(Serialize)]
struct Found {
    simulator: &'static str,
    invariant: String,
    what: String,
    /// Runs that broke it.
    times: u64,
    command: String,
    smallest: Small,
}

/// The smallest case of it.
#[derive(Serialize)]
struct Small {
    nodes: usize,
    fault_classes: usize,
    events: u32,
    what: String,
    command: String,
    /// Runs that were tried.
    runs: u64,
}

/// Runs `covalent sim hunt`. Returns whether every invariant held and every run completed.
///
/// # Errors
/// Fails if a simulator has no such mutant, the reader of the output is gone, or the command was
/// requested to stop. In the last case the command has printed its findings so far.
pub fn run(args: &HuntArgs, interrupt: &Interrupt) -> Result<bool> {
    let base = args.base.unwrap_or_else(fresh_base);
    let kinds = kinds(args)?;
    let seconds = match (args.seconds_each, args.seconds) {
        (Some(each), _) => (each * kinds.len() as u64).div_ceil(cores() as u64),
        (None, Some(seconds)) => seconds,
        (None, None) => args.minutes * 60,
    };
    let time = Duration::from_secs(seconds);
    let runs_max = args.runs.unwrap_or(u64::MAX);
    let mut hunt = Hunt::start(kinds, base, runs_max, !args.keep_going);
    let mut progress = Progress::new(time);
    let mut ended = Ok(());
    while hunt.wait(POLL_INTERVAL) {
        progress.show(&hunt);
        ended = interrupt.sleep(Duration::ZERO);
        if hunt.elapsed() >= time || ended.is_err() {
            hunt.close();
        }
        if hunt.elapsed() >= time + GRACE || ended.is_err() {
            break;
        }
    }
    let elapsed_s = hunt.elapsed().as_secs_f64();
    let mut found = Vec::new();
    for finding in hunt.findings() {
        progress.print_line(&format!(
            "broken: {}; tries smaller cases for up to {} s: {}",
            finding.broken.invariant,
            args.shrink_seconds,
            finding.case.command()
        ));
        let bounds = Bounds {
            time: Duration::from_secs(args.shrink_seconds),
            seeds: SHRINK_SEEDS,
        };
        let mut go_on = || interrupt.sleep(Duration::ZERO).is_ok();
        found.push(Found::of(finding, &shrink(finding, bounds, &mut go_on)));
    }
    progress.end();
    let unfinished = hunt.unfinished();
    let summary = Summary {
        elapsed_s,
        simulators: hunt.shares().iter().map(Searched::of).collect(),
        findings: found,
        unfinished: unfinished.into_iter().map(|run| run.command).collect(),
        interrupted: ended.is_err(),
    };
    match args.format {
        Format::Json => output::json(&summary)?,
        Format::Table => output::line(&summary.text())?,
    }
    interrupt.sleep(Duration::ZERO)?;
    Ok(summary.findings.is_empty() && summary.unfinished.is_empty())
}

/// Returns, for each chosen simulator, the kind of run that its seeds produce.
fn kinds(args: &HuntArgs) -> Result<Vec<Kind>> {
    let nodes: Vec<usize> = args.nodes.iter().copied().map(usize::from).collect();
    let chosen = Simulation::ALL
        .into_iter()
        .filter(|simulation| args.simulations.is_empty() || args.simulations.contains(simulation));
    chosen
        .map(|simulation| {
            Kind::of(simulation, &nodes, args.mutant.as_deref()).map_err(|error| {
                anyhow!("{simulation}: {error}; cure: name the simulators that have it")
            })
        })
        .collect()
}

fn fresh_base() -> u64 {
    fastrand::u64(..BASE_MAX)
}

/// How far the hunt is: a line that changes on a terminal, else one now and then.
struct Progress {
    bar: ProgressBar,
    time: Duration,
    next_line: Instant,
}

impl Progress {
    fn new(time: Duration) -> Self {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::new(time.as_secs()).with_style(style())
        } else {
            ProgressBar::hidden()
        };
        Self {
            bar,
            time,
            next_line: Instant::now() + LINE,
        }
    }

    fn show(&mut self, hunt: &Hunt) {
        let elapsed_s = hunt.elapsed().min(self.time).as_secs();
        self.bar.set_position(elapsed_s);
        let counts: Vec<_> = hunt
            .shares()
            .iter()
            .map(|share| format!("{} {}", grouped(share.runs), share.kind.simulation()))
            .collect();
        let counts = counts.join(", ");
        self.bar.set_message(counts.clone());
        if self.bar.is_hidden() && Instant::now() >= self.next_line {
            self.next_line = Instant::now() + LINE;
            self.print_line(&format!(
                "{elapsed_s} of {} s: {counts}",
                self.time.as_secs()
            ));
        }
    }

    fn print_line(&self, text: &str) {
        if self.bar.is_hidden() {
            // Ignore a failed write: the summary follows.
            let _ = writeln!(io::stderr(), "{text}");
        } else {
            self.bar.println(text);
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:24} {pos} of {len} s  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Searched {
    fn of(share: &Share) -> Self {
        Self {
            simulator: share.kind.simulation().as_str(),
            seeds: [share.seeds.start, share.seeds.end],
            runs: share.runs,
            core_s: share.took.as_secs_f64(),
        }
    }
}

impl Found {
    fn of(finding: &Finding, smallest: &Smallest) -> Self {
        Self {
            simulator: finding.case.simulation().as_str(),
            invariant: finding.broken.invariant.clone(),
            what: shortened(&finding.broken.what),
            times: finding.times,
            command: finding.case.command(),
            smallest: Small {
                nodes: smallest.size.nodes,
                fault_classes: smallest.size.faults,
                events: smallest.size.events,
                what: shortened(&smallest.broken.what),
                command: smallest.case.command(),
                runs: smallest.runs,
            },
        }
    }

    fn text(&self) -> String {
        let small = &self.smallest;
        format!(
            "\nBroken: {}: {}\n  replay: {}\n  {} times in this hunt\n  smallest of {} tried: {} \
             nodes, {} classes of faults, {} events: {}\n  replay: {}",
            self.invariant,
            self.what,
            self.command,
            grouped(self.times),
            grouped(small.runs),
            small.nodes,
            small.fault_classes,
            grouped(small.events.into()),
            small.what,
            small.command,
        )
    }
}

/// Shortens a checker's finding, which may fill pages. The replay prints all of it.
fn shortened(what: &str) -> String {
    match what.char_indices().nth(WHAT_MAX) {
        Some((end, _)) => format!("{}…", &what[..end]),
        None => what.to_owned(),
    }
}

impl Summary {
    fn table(&self, theme: Theme) -> Table {
        let mut table = theme.new_table(["simulator", "seeds", "runs", "core seconds"]);
        for searched in &self.simulators {
            let [first, end] = searched.seeds;
            table.add_row([
                Cell::new(searched.simulator),
                Cell::new(format!("{first}..{end}")),
                Cell::right(grouped(searched.runs)),
                Cell::right(format!("{:.1}", searched.core_s)),
            ]);
        }
        table
    }

    fn text(&self) -> String {
        let mut text = self.table(Theme::of_stdout()).to_string();
        for command in &self.unfinished {
            text += &format!("\nnot ended: {command}");
        }
        for found in &self.findings {
            text += &found.text();
        }
        if !self.unfinished.is_empty() {
            let grace_s = GRACE.as_secs();
            text += &format!(
                "\nUndecided: these runs had not completed {grace_s} s after the time was up."
            );
        } else if self.findings.is_empty() {
            let runs = self.simulators.iter().map(|searched| searched.runs).sum();
            text += &format!(
                "\nEvery invariant held in {} runs, {:.1} s.",
                grouped(runs),
                self.elapsed_s
            );
        }
        text
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The widest summary.
    pub fn widest(theme: Theme) -> String {
        let searched = Searched {
            simulator: "meshes",
            seeds: [u64::MAX - 1, u64::MAX],
            runs: u64::MAX,
            core_s: 1e9,
        };
        let summary = Summary {
            elapsed_s: 1.0,
            simulators: vec![searched],
            findings: Vec::new(),
            unfinished: Vec::new(),
            interrupted: false,
        };
        summary.table(theme).to_string()
    }
}
