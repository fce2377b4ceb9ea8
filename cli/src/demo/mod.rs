//! `covalent demo`: two nodes on this machine, everything for real, with checks.

mod application;
mod args;
mod checks;
mod cut;
mod exposition;
mod goals;
mod http;
mod losses;
mod medium;
mod named_interfaces;
mod namespace;
mod narrator;
mod nodes;
mod patience;
mod refusals;
mod report;
mod rest;
mod streams;
mod telemetry;
mod transfer;
mod verbs;
mod verdict;
mod veth;
mod workplace;

#[cfg(test)]
pub use self::report::tests::widest;
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

pub use self::args::{DemoArgs, PortChoice};
use self::{
    goals::Goal,
    losses::Losses,
    medium::{Medium, Privilege},
    narrator::Narrator,
    nodes::Nodes,
    refusals::Refusals,
    report::{PortInEffect, Report, per_second},
    telemetry::{Figures, PipeDrops},
    transfer::Transfer,
    verbs::Work,
    verdict::{Left, Results},
    workplace::Workplace,
};
use crate::{
    args::Format,
    interrupt::{Interrupt, Interrupted},
    output::{self, Theme},
    program, status,
};

/// The programs that take part. All are looked for before anything is made.
const PROGRAMS: [&str; 5] = [
    "covalentd",
    "covalent-control",
    "covalent-echo",
    "covalent-replay",
    "covalent-bank",
];

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Scale {
    stream_seconds: u64,
    work: Work,
    rest: Duration,
    bench_seconds: u64,
}

impl Scale {
    fn of(args: &DemoArgs) -> Self {
        let (stream_seconds, fetch_adds, rest, bench_seconds) = if args.quick {
            (1, 100_000, 1, 1)
        } else {
            (5, 1_000_000, 2, 3)
        };
        let fetch_adds = args.fetch_adds.unwrap_or(fetch_adds);
        Self {
            stream_seconds: args.seconds.unwrap_or(stream_seconds),
            work: Work {
                fetch_adds,
                transfers: fetch_adds / 20,
                locks: fetch_adds / 100,
            },
            rest: Duration::from_secs(rest),
            bench_seconds,
        }
    }
}

/// Runs the demonstration.
///
/// # Errors
/// Fails if the demonstration could not be completed. Failed checks are no error: the summary
/// reports them, and the exit status is 1.
pub fn run(args: &DemoArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let narrator = Narrator::new(args.format);
    if args.clean {
        return clean(&narrator);
    }
    patience::set(args.patience);
    if args.port == PortChoice::Cable && !args.interfaces.is_empty() {
        bail!(
            "interfaces were named, but a cable in memory has none\n  cure: leave out `--port \
             cable` or `--interfaces`"
        );
    }
    let choice = medium::choose(
        args.port,
        !args.interfaces.is_empty(),
        &Privilege::of_this_process(),
    );
    narrator.print_line(&choice.explanation)?;
    for path in workplace::sweep()? {
        narrator.print_line(&format!(
            "removed {}, left by a demonstration that was killed",
            path.display()
        ))?;
    }
    for name in PROGRAMS {
        program::find(name)?;
    }
    // Declared first, so that it is dropped last, after all processes below.
    let workplace = Workplace::create()?;
    let demonstration = Demonstration {
        args,
        scale: Scale::of(args),
        narrator,
        workplace,
        interrupt,
    };
    demonstration.run(choice.medium)
}

fn clean(narrator: &Narrator) -> Result<ExitCode> {
    let swept = workplace::sweep()?;
    for path in &swept {
        narrator.print_line(&format!("removed {}", path.display()))?;
    }
    if swept.is_empty() {
        narrator.print_line("nothing was left behind")?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Demonstration<'a> {
    args: &'a DemoArgs,
    scale: Scale,
    narrator: Narrator,
    workplace: Workplace,
    interrupt: &'a Interrupt,
}

impl Demonstration<'_> {
    fn run(self, medium: Medium) -> Result<ExitCode> {
        let began = Instant::now();
        let mut nodes = self.start(medium)?;
        let mut report = self.exercise(&mut nodes)?;
        let (staying, ended) = if self.args.keep_going {
            (Some(nodes), true)
        } else {
            // Before the performance is measured: that should have the machine for itself.
            let end = nodes.end();
            report.checks.push(checks::ended(&end));
            (None, end.is_ok())
        };
        if let Some(measured) = self.goals(medium)? {
            report
                .checks
                .push(checks::measured(&measured, &report.rest));
            report.goals = measured.unwrap_or_default();
        }
        self.finish(&mut report, began)?;
        if let Some(nodes) = staying {
            conclude(self.args, &self.narrator, &report, &Left::Nodes)?;
            self.keep_running(&nodes)?;
            nodes.end()?;
        } else {
            let Self {
                args,
                narrator,
                workplace,
                ..
            } = self;
            let directory = workplace.path().to_owned();
            drop(workplace);
            conclude(args, &narrator, &report, &Left::after(ended, &directory))?;
        }
        Ok(ExitCode::from(u8::from(!report.ok)))
    }

    fn start(&self, medium: Medium) -> Result<Nodes> {
        let step = self.narrator.step("nodes")?;
        let nodes = Nodes::start(
            self.workplace.path(),
            medium,
            &self.args.interfaces,
            self.args.cut_with.as_deref(),
            self.interrupt,
        )?;
        step.done("both links are up")?;
        for node in nodes.each() {
            let lanes: Vec<String> = node.status()?.lanes.iter().map(status::lane).collect();
            self.narrator
                .print_line(&format!("  node {}: {}", node.name(), lanes.join("; ")))?;
        }
        for port in in_effect(&nodes)? {
            self.narrator.print_line(&format!("  {}", port.words()))?;
        }
        Ok(nodes)
    }

    /// Runs all parts of the demonstration, in order.
    fn exercise(&self, nodes: &mut Nodes) -> Result<Report> {
        let captures = streams::captures(self.args.captures.as_deref())?;
        self.narrator.print_line(&if captures.is_empty() {
            "captures: the built-in sample; --captures DIR replays those of a folder".to_owned()
        } else {
            let folders: Vec<String> = captures
                .iter()
                .map(|folder| folder.display().to_string())
                .collect();
            format!("captures: {}", folders.join(", "))
        })?;
        let transfer = nodes
            .namespaces()
            .map(|[a, b]| Transfer::start(a, b))
            .transpose()?;
        if transfer.is_none() {
            self.narrator
                .print_line("kernel TCP: not applicable: no kernel interface under these ports")?;
        }
        let start = Figures::fetch(nodes)?;
        let mut pipe_drops = PipeDrops::default();
        let streams = streams::run(
            nodes,
            &captures,
            self.scale.stream_seconds,
            &mut pipe_drops,
            &self.narrator,
            self.interrupt,
        )?;
        let middle = Figures::fetch(nodes)?;
        let verbs = verbs::run(
            nodes,
            self.scale.work,
            &mut pipe_drops,
            &self.narrator,
            self.interrupt,
        )?;
        let end = Figures::fetch(nodes)?;
        let kernel_tcp = transfer.map(Transfer::finish).transpose()?;
        let rest = self.rest(nodes)?;

        let refusals = Refusals::of(&end);
        let mut checks = checks::streams(&streams, &start, &middle);
        checks.push(checks::refusals(&streams, &refusals));
        checks.extend(kernel_tcp.as_ref().map(checks::transfer));
        checks.extend(checks::verbs(&verbs, self.scale.work, &end));
        checks.extend(checks::cut(&verbs, &end));
        let before_cut = verbs.before_cut.as_ref().unwrap_or(&middle);
        let losses = Losses::of(&start, before_cut, &end, pipe_drops.causes());
        checks.push(checks::drops(&losses));
        checks.push(checks::records(&losses));
        Ok(Report {
            medium: nodes.medium,
            ports: in_effect(nodes)?,
            streams_mpps: per_second(&start, &middle, |node| node.rx_packets) / 1e6,
            streams,
            kernel_tcp,
            verbs_per_s: per_second(&middle, &end, |node| node.verbs_completed),
            verbs,
            telemetry: vec![end.a, end.b],
            losses,
            refusals,
            rest,
            goals: Vec::new(),
            checks,
            ok: false,
            seconds: 0.0,
        })
    }

    fn rest(&self, nodes: &Nodes) -> Result<Vec<rest::IdleUsage>> {
        let step = self.narrator.step("at rest")?;
        let rest = rest::watch(nodes, self.scale.rest, self.interrupt)?;
        let most = rest.iter().map(|rest| rest.cpu_share).fold(0.0, f64::max);
        step.done(&format!(
            "no process takes more than {:.2} % of a core",
            most * 100.0
        ))?;
        Ok(rest)
    }

    /// The performance goals; none where they do not apply.
    fn goals(&self, medium: Medium) -> Result<Option<Result<Vec<Goal>>>> {
        let reason = match medium {
            _ if self.args.no_bench => return Ok(None),
            Medium::Cable | Medium::Dpdk => "they are about AF_XDP",
            Medium::AfXdp if cfg!(debug_assertions) => "this is a debug build",
            Medium::AfXdp => {
                let measured = goals::measure(
                    self.workplace.path(),
                    self.scale.bench_seconds,
                    &self.narrator,
                    self.interrupt,
                );
                return match measured {
                    Err(error) if error.is::<Interrupted>() => Err(error),
                    measured => Ok(Some(measured)),
                };
            }
        };
        self.narrator
            .print_line(&format!("goals: not measured: {reason}"))?;
        Ok(None)
    }

    fn finish(&self, report: &mut Report, began: Instant) -> Result<()> {
        report.ok = report.checks.iter().all(|check| check.passed);
        report.seconds = began.elapsed().as_secs_f64();
        if self.args.format == Format::Json {
            return output::json(report);
        }
        if !self.args.verbose {
            return Ok(());
        }
        self.narrator.print_line(
            "Packets, bytes, verbs, drops, failures and the gap come from /metrics of both nodes:",
        )?;
        self.narrator
            .print_line(&report.table(Theme::of_stdout()).to_string())
    }

    /// Leaves the nodes running until a signal comes.
    fn keep_running(&self, nodes: &Nodes) -> Result<()> {
        self.narrator
            .print_line("The nodes go on; Ctrl-C ends them. Meanwhile, from another terminal:")?;
        for node in nodes.each() {
            self.narrator.print_line(&format!(
                "  covalent status --socket {}",
                node.socket().display()
            ))?;
            if let Some((_, pid)) = node
                .processes()
                .first()
                .filter(|_| nodes.namespaces().is_some())
            {
                self.narrator.print_line(&format!(
                    "  nsenter --net=/proc/{pid}/ns/net ip -stats link"
                ))?;
            }
        }
        loop {
            match self.interrupt.sleep(Duration::from_secs(1)) {
                Ok(()) => {}
                Err(Interrupted(_)) => return Ok(()),
            }
        }
    }
}

/// Prints the failed checks and the verdict. A report in JSON has both.
fn conclude(args: &DemoArgs, narrator: &Narrator, report: &Report, left: &Left) -> Result<()> {
    if args.format == Format::Json {
        return Ok(());
    }
    let results = Results {
        checks: &report.checks,
        rest: &report.rest,
        goals: &report.goals,
        medium: report.medium,
        seconds: report.seconds,
    };
    let verdict = results.lines(left, args.verbose);
    for line in results.failures().iter().chain(&verdict) {
        narrator.print_line(line)?;
    }
    Ok(())
}

fn in_effect(nodes: &Nodes) -> Result<Vec<PortInEffect>> {
    let mut ports = Vec::new();
    for node in nodes.each() {
        ports.extend(PortInEffect::of(&node.status()?));
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn make_run_builds_the_programs_that_the_demonstration_starts() {
        let makefile = include_str!("../../../Makefile");
        let built: BTreeSet<&str> = makefile
            .lines()
            .find_map(|line| line.strip_prefix("DEMO_PROGRAMS = "))
            .expect("the Makefile lists the programs")
            .split(' ')
            .collect();
        // Itself, and the one that measures the goals.
        let started: BTreeSet<&str> = PROGRAMS
            .into_iter()
            .chain(["covalent", "covalent-bench"])
            .collect();
        assert_eq!(built, started);
    }
}
