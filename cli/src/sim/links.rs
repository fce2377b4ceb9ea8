//! `covalent sim`: a run of links and nodes, or many.

use anyhow::Result;
use covalent_sim::{Options, Report, Subject, World, plan::Plan};

use super::{
    SimArgs,
    print::{self, Printed, Recorded},
};
use crate::{interrupt::Interrupt, output::grouped};

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
    let is_shown =
        |subject: &Subject| args.frames || !matches!(subject, Subject::Frame | Subject::Pace);
    print::run(&options, &args.runs, is_shown, interrupt)
}

impl Printed for Options {
    type Subject = Subject;
    const TIME_COLUMNS: usize = 7;

    fn recorded(&self, seed: u64) -> Result<Recorded<Self>> {
        let world = World::new(seed, self, true);
        let plan = world.plan().clone();
        let (result, trace) = world.run(seed);
        let faults = plan.faults();
        Ok(Recorded {
            text: described(seed, &plan),
            nodes: plan.nodes,
            shape: None,
            cables: plan.cables,
            faults: faults.iter().map(|(fault, _)| fault.as_str()).collect(),
            result,
            trace,
        })
    }

    fn figures(report: &Report) -> impl Iterator<Item = (&'static str, u64)> {
        report.figures()
    }
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
