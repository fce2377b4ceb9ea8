//! `covalent sim group`: a run of groups, or many.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use covalent_sim::{
    group::{
        Mutant, Options, Report, World,
        fact::Subject,
        figures::{Cause, measure_all, shape_of},
        options::Faults,
        plan::Plan,
    },
    shape::Form,
};
use serde::Serialize;

use super::{
    RunArgs,
    print::{self, Printed, Recorded},
    shape_help,
};
use crate::{
    args::Format,
    interrupt::Interrupt,
    output::{self, Cell, Table, Theme},
};

/// `covalent sim group`
#[derive(Debug, Args)]
#[command(
    after_help = "Each node has an application that is a member of one group. A seed determines \
    everything that no option sets: nodes, cables, faults, messages, and how long everything \
    takes. The same seed with the same options gives the same run. Every invariant has a checker \
    that is always on. It reports a broken invariant with the command that replays the run.\n\n\
    Classes of faults: late, duplicate, unclear, refuse, cut, partition, kill, crash, midway, \
    halt, accuse, flap, full, join, suspect, leave, forge; or `all`, or `none`.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim group --seed 7                              one run, event by event\n  \
    covalent sim group --seed 7 --nodes 5 --shape ring       five nodes in a ring\n  \
    covalent sim group --seed 7 --faults kill,partition      these faults\n  \
    covalent sim group --seed 7 --envelopes                  every envelope as well\n  \
    covalent sim group --seeds 0..10000                      many runs, with seeds per second\n  \
    covalent sim group --figures --nodes 8                   how long a change of views takes\n  \
    covalent sim group --seeds 0..100 --mutant acks-before-held  finds a deliberate defect"
)]
pub struct GroupArgs {
    /// Which runs, and how they are printed.
    #[command(flatten)]
    pub runs: RunArgs,
    /// Number of nodes, each with one member.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub nodes: Option<u8>,
    #[arg(long, value_name = "SHAPE", help = shape_help())]
    pub shape: Option<Form>,
    /// Classes of faults, separated by commas. Each occurs rarely or often.
    #[arg(long, value_name = "CLASSES")]
    pub faults: Option<Faults>,
    /// Maximum total number of faults, excluding faults of envelopes.
    #[arg(long, value_name = "N")]
    pub churn: Option<u32>,
    /// Break the implementation on purpose.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<Mutant>,
    /// Also print every envelope.
    #[arg(long, conflicts_with = "seeds")]
    pub envelopes: bool,
    /// Measure the time from the first evidence that a member is gone until all others have the
    /// view without it.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "envelopes", "faults", "churn", "mutant"])]
    pub figures: bool,
}

/// Runs `covalent sim group`. Returns whether every invariant held.
///
/// # Errors
/// Fails if the shape is impossible, the reader of the output is gone, or the command was requested
/// to stop.
pub fn run(args: &GroupArgs, interrupt: &Interrupt) -> Result<bool> {
    let options = Options {
        nodes: args.nodes.map(usize::from),
        shape: args.shape.clone(),
        faults: args.faults,
        churn: args.churn,
        mutant: args.mutant,
    };
    if args.figures {
        return figures(args, interrupt);
    }
    let is_shown = |subject: &Subject| args.envelopes || *subject != Subject::Envelope;
    print::run(&options, &args.runs, is_shown, interrupt)
}

impl Printed for Options {
    type Subject = Subject;
    const TIME_COLUMNS: usize = 8;

    fn recorded(&self, seed: u64) -> Result<Recorded<Self>> {
        let world = World::new(seed, self, true).context("there is no such world")?;
        let plan = world.plan().clone();
        let (result, trace) = world.run(seed);
        Ok(Recorded {
            text: described(seed, &plan),
            nodes: plan.shape.nodes,
            cables: plan.cables(),
            shape: Some(plan.shape.name),
            faults: plan.faults.iter().map(|fault| fault.as_str()).collect(),
            result,
            trace,
        })
    }

    fn figures(report: &Report) -> impl Iterator<Item = (&'static str, u64)> {
        report.figures()
    }
}

/// Sizes of the groups whose view changes are measured, if no size is given.
const FIGURE_NODES: [usize; 4] = [3, 4, 8, 16];
/// Times that each member of a group goes.
const FIGURE_TIMES: u64 = 10;

/// JSON output of the measured view changes.
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
        let shape = shape_of(&form, nodes, args.runs.seed).context("there is no such world")?;
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
    match args.runs.format {
        Format::Json => output::json(&all)?,
        Format::Table => {
            let table = figures_table(Theme::of_stdout(), &all);
            output::line(&format!(
                "From the first evidence that a member is gone to the view of the last remaining \
                 member, {FIGURE_TIMES} times each member, idle and under load:\n{table}"
            ))?;
        }
    }
    Ok(true)
}

fn figures_table(theme: Theme, all: &[Figures]) -> Table {
    let mut table = theme.new_table([
        "nodes",
        "shape",
        "cause",
        "round trips p50",
        "most",
        "envelopes of each p50",
        "most",
    ]);
    for figures in all {
        table.add_row([
            Cell::new(figures.nodes),
            Cell::new(&figures.shape),
            Cell::new(figures.cause),
            Cell::right(format!("{:.2}", figures.round_trips_p50)),
            Cell::right(format!("{:.2}", figures.round_trips_max)),
            Cell::right(format!("{:.1}", figures.envelopes_per_member_p50)),
            Cell::right(format!("{:.1}", figures.envelopes_per_member_max)),
        ]);
    }
    table
}

/// Describes the choices of the seed.
fn described(seed: u64, plan: &Plan) -> String {
    let deeds: Vec<_> = plan.deeds.iter().map(|deed| deed.fault.as_str()).collect();
    format!(
        "seed {seed}: {} nodes, {}; cables {}; up to {} messages\nfaults: {}; done: {}\n\n",
        plan.shape.nodes,
        plan.shape.name,
        print::cable_list(&plan.cables()),
        plan.messages_max,
        plan.faults,
        if deeds.is_empty() {
            "nothing".to_owned()
        } else {
            deeds.join(", ")
        }
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The widest figures.
    pub fn widest(theme: Theme) -> String {
        let figures = Figures {
            nodes: 16,
            shape: "random:16:24:18446744073709551615".into(),
            cause: Cause::ALL.map(Cause::as_str)[0],
            round_trips_p50: 123_456.78,
            round_trips_max: 123_456.78,
            envelopes_per_member_p50: 123_456.7,
            envelopes_per_member_max: 123_456.7,
        };
        figures_table(theme, &[figures]).to_string()
    }
}
