//! `covalent sim`: a run of links and nodes, or many.

use anyhow::Result;
use covalent_sim::{
    Options, Report, World,
    fact::Subject,
    harness::{Entry, Simulator},
    plan::Plan,
    run_seeds,
};

use super::{
    SimArgs,
    many::Many,
    print::{self, Run},
};
use crate::{
    args::Format,
    interrupt::Interrupt,
    output::{self, grouped},
};

/// Runs the simulation of links. Returns whether every invariant held.
///
/// # Errors
/// Fails if the reader of the output is gone, or if the command was requested to stop.
pub fn run(args: &SimArgs, interrupt: &Interrupt) -> Result<bool> {
    let options = Options {
        nodes: args.nodes.map(usize::from),
        topology: args.topology,
        faults: args.faults,
        steps: args.steps,
        mutant: args.mutant,
    };
    match &args.runs.seeds {
        None => one(args, &options),
        Some(_) => many(args, &options, interrupt),
    }
}

/// Prints one run. Gives whether every invariant held.
fn one(args: &SimArgs, options: &Options) -> Result<bool> {
    let world = World::new(args.runs.seed, options, true);
    let plan = world.plan().clone();
    let (result, trace) = world.run(args.runs.seed);
    let shown: Vec<&Entry<Subject>> = trace
        .iter()
        .filter(|entry| args.frames || !matches!(entry.subject, Subject::Frame | Subject::Pace))
        .collect();
    match args.runs.format {
        Format::Json => output::json(&Run {
            seed: args.runs.seed,
            command: options.command(args.runs.seed),
            nodes: plan.nodes,
            shape: None,
            cables: print::cable_names(&plan.cables),
            faults: plan
                .faults()
                .iter()
                .map(|(fault, _)| fault.as_str())
                .collect(),
            trace: shown,
            report: result.as_ref().ok(),
            violation: result.as_ref().err().map(|failure| &failure.violation),
        })?,
        Format::Table => {
            let mut text = described(args.runs.seed, &plan);
            for entry in shown {
                text += &line(entry);
            }
            text += &print::end(&result, table);
            output::line(&text)?;
        }
    }
    Ok(result.is_ok())
}

/// Runs many seeds. Gives whether every invariant held in all of them.
fn many(args: &SimArgs, options: &Options, interrupt: &Interrupt) -> Result<bool> {
    let many = Many::run(args.runs.numbers(), interrupt, |progress| {
        run_seeds(args.runs.numbers(), options, progress)
    })?;
    match args.runs.format {
        Format::Json => output::json(&many.json(|failure| {
            let command = options.command(failure.seed);
            (failure.seed, &failure.violation, command)
        }))?,
        Format::Table => output::line(&many.text("seeds", table, |failure| {
            let (_, trace) = World::new(failure.seed, options, true).run(failure.seed);
            Ok(print::last_lines(&trace, line))
        })?)?,
    }
    Ok(many.held())
}

/// Describes the choices of the seed.
fn described(seed: u64, plan: &Plan) -> String {
    let faults: Vec<_> = plan
        .faults()
        .iter()
        .map(|(fault, often)| format!("{} {often} ‰", fault.as_str()))
        .collect();
    format!(
        "seed {seed}: {} nodes; cables {}; {} slots; {} events\nfaults: {}\n\n",
        plan.nodes,
        print::cable_list(&plan.cables),
        plan.slots,
        grouped(u64::from(plan.steps)),
        if faults.is_empty() {
            "none".to_owned()
        } else {
            faults.join(", ")
        }
    )
}

fn line(entry: &Entry<Subject>) -> String {
    format!("{:>7}  {}\n", entry.when, entry.text)
}

fn table(report: &Report) -> String {
    print::counts(report.figures())
}
