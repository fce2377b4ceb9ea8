//! The performance goals, measured by `covalent-bench` against bare AF_XDP and kernel UDP in the
//! same run.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::narrator::Narrator;
use crate::{
    interrupt::Interrupt,
    process::{Launch, Process},
    program,
};

/// Extra time for a measurement: each of its several sides has its own start and stop.
const GRACE: Duration = Duration::from_secs(60);

/// About how long all sides take besides measuring.
const OVERHEAD: Duration = Duration::from_secs(2);

const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The result of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// `rate`, or one of the round trips: `rtt_lane`, `rtt_lane_udp`, `rtt`, `rtt_udp`.
    pub goal: String,
    /// The other system's figure.
    pub bare: f64,
    /// Ours.
    pub covalent: f64,
    /// Ours divided by the other system's.
    pub ratio: f64,
    /// Of both figures.
    pub unit: String,
    /// Whether the goal is met.
    pub met: bool,
    /// For the round trip of an application: ours divided by that of a bare echo requested by a
    /// second thread. That thread waits as an application does.
    #[serde(default)]
    pub ratio_to_hand_over: Option<f64>,
}

impl Goal {
    /// Returns the subject of the goal.
    pub fn title(&self) -> String {
        match self.goal.as_str() {
            "rate" => "64 B frames into a pipe".to_owned(),
            "rtt_lane" | "rtt_lane_udp" => "CAS round trip, in the lane's thread".to_owned(),
            "rtt" | "rtt_udp" => "CAS round trip, of an application".to_owned(),
            other => other.to_owned(),
        }
    }

    /// Returns the name of the other system.
    pub fn peer(&self) -> &'static str {
        match self.goal.as_str() {
            "rtt_lane_udp" | "rtt_udp" => "kernel UDP",
            _ => "bare AF_XDP",
        }
    }

    /// Returns the required ratio.
    pub fn bound(&self) -> &'static str {
        match self.goal.as_str() {
            "rate" => "goal: at least 0.97",
            "rtt_lane" => "goal: at most 1.25",
            "rtt" => "goal: at most 2.00",
            "rtt_lane_udp" | "rtt_udp" => "goal: at most 0.50",
            _ => "no goal",
        }
    }

    /// Returns an additional finding; empty if there is none.
    pub fn aside(&self) -> String {
        self.ratio_to_hand_over.map_or_else(String::new, |ratio| {
            format!(" ({ratio:.2} of a bare echo requested by a second thread)")
        })
    }
}

/// The part of `covalent-bench`'s output that concerns the goals.
#[derive(Deserialize)]
struct Output {
    goals: Vec<Measured>,
}

/// A goal as `covalent-bench` writes it (`bench/src/report.rs`).
#[derive(Deserialize)]
struct Measured {
    goal: String,
    measured: f64,
    met: bool,
    sides: Sides,
    /// For the round trip of an application, beside a bare echo requested by a second thread.
    aside: Option<Sides>,
}

/// The medians that a goal compares.
#[derive(Deserialize)]
struct Sides {
    covalent: f64,
    beside: f64,
    unit: String,
}

impl From<Measured> for Goal {
    fn from(measured: Measured) -> Self {
        Self {
            goal: measured.goal,
            bare: measured.sides.beside,
            covalent: measured.sides.covalent,
            ratio: measured.measured,
            unit: measured.sides.unit,
            met: measured.met,
            ratio_to_hand_over: measured.aside.map(|aside| aside.covalent / aside.beside),
        }
    }
}

/// The arguments of `covalent-bench` for each measurement, and the number of sides that take turns.
const MEASUREMENTS: [(&[&str], u64); 2] = [
    (&["rate", "--against", "af_xdp", "--sizes", "64"], 2),
    (
        &[
            "latency",
            "--ping-pong",
            "--sizes",
            "8",
            "--against",
            "af_xdp,af_xdp-handed-over,udp,covalent-cas,covalent-lane-cas",
        ],
        5,
    ),
];

/// Makes both measurements, `seconds` for each side.
///
/// # Errors
/// When a measurement breaks off.
pub fn measure(
    workplace: &Path,
    seconds: u64,
    narrator: &Narrator,
    interrupt: &Interrupt,
) -> Result<Vec<Goal>> {
    let step = narrator.step("goals")?;
    let mut goals = Vec::new();
    for (done, (suite, sides)) in MEASUREMENTS.into_iter().enumerate() {
        let name = suite[0];
        let mut launch = Launch::new(
            format!("covalent-bench {name}"),
            program::find("covalent-bench")?,
        )
        .log_to(workplace.join(format!("bench-{name}.log")))
        // If it is killed, its leftovers are in a directory that is removed or swept.
        .env("TMPDIR", workplace);
        for word in suite {
            launch = launch.arg(*word);
        }
        let mut bench = launch
            .arg("--format")
            .arg("json")
            .arg("--seconds")
            .arg(seconds.to_string())
            .start()?;
        let began = Instant::now();
        let measuring = Duration::from_secs(sides * seconds);
        while bench.try_exit()?.is_none() {
            // `covalent-bench` reports no progress, so estimate it from the known duration.
            let part = began
                .elapsed()
                .div_duration_f64(measuring + OVERHEAD)
                .min(0.99);
            let text = format!("{name}: other systems and Covalent in turn");
            step.at((done as f64 + part) / MEASUREMENTS.len() as f64, &text)?;
            if began.elapsed() > measuring + GRACE {
                bail!("{} does not end", bench.name());
            }
            interrupt.sleep(RECHECK_INTERVAL)?;
        }
        goals.extend(result(bench)?);
    }
    let met = goals.iter().filter(|goal| goal.met).count();
    step.done(&format!("{met} of {} performance goals met", goals.len()))?;
    Ok(goals)
}

/// Parses the last line of output. A missed goal also sets a failing exit status; the summary
/// reports it.
fn result(mut bench: Process) -> Result<Vec<Goal>> {
    let status = bench.wait_or_kill(Duration::ZERO)?;
    let lines = bench.remaining_lines(Duration::from_secs(2));
    let last = lines.last().ok_or_else(|| bench.failure(status))?;
    parse(last).with_context(|| {
        format!(
            "{} wrote a line that cannot be parsed: {last}",
            bench.name()
        )
    })
}

/// The goals of a result.
fn parse(result: &str) -> serde_json::Result<Vec<Goal>> {
    let output: Output = serde_json::from_str(result)?;
    Ok(output.goals.into_iter().map(Goal::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_result_with_any_exit_status() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let run = |script: &str| {
            let mut process = Launch::new("bench", "/bin/sh".into())
                .log_to(directory.path().join("bench.log"))
                .arg("-c")
                .arg(script)
                .start()
                .expect("the shell starts");
            while process.try_exit().expect("known").is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            result(process)
        };
        let goal = run(
            r#"echo hello; echo '{"name":"rate","goals":[{"goal":"rate","measured":0.8,"at_least":0.97,"met":false,"sides":{"covalent":0.8,"beside":1.0,"peer":"af_xdp","unit":"Mpps"}}]}'; exit 1"#,
        );
        let goals = goal.expect("a result");
        assert_eq!(goals.len(), 1);
        assert_eq!((goals[0].ratio, goals[0].aside().as_str()), (0.8, ""));
        let goals = run(
            r#"echo '{"name":"latency","figures":[],"goals":[{"goal":"rtt_lane_udp","measured":0.25,"met":true,"sides":{"covalent":5.0,"beside":20.0,"unit":"µs"}},{"goal":"rtt","measured":2.5,"met":false,"sides":{"covalent":10.0,"beside":4.0,"unit":"µs"},"aside":{"covalent":10.0,"beside":5.7,"unit":"µs"}}]}'; exit 1"#,
        )
        .expect("a result");
        let outcomes: Vec<_> = goals.iter().map(|goal| (goal.peer(), goal.met)).collect();
        assert_eq!(outcomes, [("kernel UDP", true), ("bare AF_XDP", false)]);
        assert_ne!(goals[0].title(), goals[1].title());
        assert_eq!(
            goals[1].aside(),
            " (1.75 of a bare echo requested by a second thread)"
        );
        let message = run("echo 'no AF_XDP' >&2; exit 2")
            .expect_err("no result")
            .to_string();
        assert!(message.contains("no AF_XDP"), "{message}");
    }

    #[test]
    fn the_goals_of_kept_results_are_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results");
        for (result, names) in [
            ("rate.json", ["rate"].as_slice()),
            (
                "latency.json",
                &["rtt_lane", "rtt_lane_udp", "rtt", "rtt_udp"],
            ),
        ] {
            let text = std::fs::read_to_string(folder.join(result)).expect("a kept result");
            let goals = parse(&text).expect("goals");
            for name in names {
                let goal = goals.iter().find(|goal| goal.goal == *name);
                let goal = goal.expect("judged");
                assert!((goal.ratio - goal.covalent / goal.bare).abs() < 1e-9);
                assert_ne!(goal.bound(), "no goal");
                let is_of_an_application = ["rtt", "rtt_udp"].contains(name);
                assert_eq!(goal.ratio_to_hand_over.is_some(), is_of_an_application);
            }
        }
    }
}
