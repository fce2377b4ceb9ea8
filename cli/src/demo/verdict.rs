//! The last three lines of a demonstration, and the failed checks before them.

use std::path::{Path, PathBuf};

use super::{checks::Check, goals::Goal, medium::Medium, rest::IdleUsage};

/// What the demonstration left on the machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Both nodes, which run until Ctrl-C.
    Nodes,
    /// The nodes did not shut down gracefully. A failed check gives the reason.
    Unclear,
    /// Its directory.
    Directory(PathBuf),
}

impl Left {
    /// Examines what is left after the nodes were stopped and `directory` was removed.
    pub fn after(nodes_ended: bool, directory: &Path) -> Self {
        match (nodes_ended, directory.exists()) {
            (_, true) => Self::Directory(directory.to_owned()),
            (true, false) => Self::Nothing,
            (false, false) => Self::Unclear,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Nodes => "both nodes, until Ctrl-C".to_owned(),
            Self::Unclear => {
                "no files; the failed check above reports the nodes' processes".to_owned()
            }
            Self::Directory(path) => {
                format!("{}, which `covalent demo --clean` removes", path.display())
            }
        }
    }
}

/// The results that the verdict counts.
#[derive(Debug, Clone, Copy)]
pub struct Results<'a> {
    /// The checks.
    pub checks: &'a [Check],
    /// The processes at rest.
    pub rest: &'a [IdleUsage],
    /// The goals against other systems; empty if they were not measured.
    pub goals: &'a [Goal],
    /// The medium.
    pub medium: Medium,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Results<'_> {
    /// Returns the failed checks in full, one line each.
    pub fn failures(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| !check.passed);
        failed
            .map(|check| format!("FAILED: {}: {}", check.check, check.found))
            .collect()
    }

    /// Returns the verdict. `verbose` is whether the table was printed.
    pub fn lines(&self, left: &Left, verbose: bool) -> [String; 3] {
        let passed = self.checks.iter().filter(|check| check.passed).count();
        let checks = format!(
            "checks: {passed} of {} passed over {} in {:.0} s",
            self.checks.len(),
            self.medium,
            self.seconds
        );
        let missed = self.missed();
        let count = self.rest.len() + self.goals.len();
        let mut goals = format!("performance goals: {} of {count} met", count - missed.len());
        if !missed.is_empty() {
            goals = format!("{goals}; missed: {}", missed.join(", "));
        }
        if self.goals.is_empty() {
            goals.push_str("; those against other systems were not measured");
        }
        let results = match verbose {
            true => "in the table above",
            false => "with --verbose or --format json",
        };
        let left = format!("left behind: {}; all results: {results}", left.words());
        [checks, goals, left]
    }

    /// Returns the missed goals, in few words each.
    fn missed(&self) -> Vec<String> {
        let rest = self.rest.iter().filter(|rest| !rest.is_modest());
        let rest = rest.map(|rest| format!("{} of {} at rest", rest.program, rest.node));
        let goals = self.goals.iter().filter(|goal| !goal.met).map(|goal| {
            format!(
                "{} ({:.2} of {})",
                goal.title().replace(", ", " "),
                goal.ratio,
                goal.peer()
            )
        });
        rest.chain(goals).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(check: &'static str, passed: bool) -> Check {
        Check {
            check,
            passed,
            found: format!("found of {check}"),
        }
    }

    fn goal(goal: &str, met: bool) -> Goal {
        Goal {
            goal: goal.to_owned(),
            bare: 1.0,
            covalent: 2.5,
            ratio: 2.5,
            unit: "µs".to_owned(),
            met,
            ratio_to_hand_over: None,
        }
    }

    fn usage(cpu_share: f64) -> IdleUsage {
        IdleUsage {
            node: "a",
            program: "covalentd".to_owned(),
            cpu_share,
            resident_bytes: 1,
        }
    }

    #[test]
    fn three_lines_count_checks_and_goals_and_name_the_missed_ones() {
        let checks = [
            check("one", true),
            check("two", false),
            check("three", true),
        ];
        let goals = [goal("rate", true), goal("rtt", false)];
        let rest = [usage(0.001), usage(0.5)];
        let results = Results {
            checks: &checks,
            rest: &rest,
            goals: &goals,
            medium: Medium::Cable,
            seconds: 12.4,
        };
        assert_eq!(
            results.lines(&Left::Nothing, false),
            [
                "checks: 2 of 3 passed over cable in 12 s",
                "performance goals: 2 of 4 met; missed: covalentd of a at rest, CAS round trip of \
                 an application (2.50 of bare AF_XDP)",
                "left behind: nothing; all results: with --verbose or --format json",
            ]
        );
        assert_eq!(results.failures(), ["FAILED: two: found of two"]);
        let unmeasured = Results {
            goals: &[],
            rest: &rest[..1],
            ..results
        };
        let [_, goals, left] = unmeasured.lines(&Left::Nodes, true);
        assert_eq!(
            goals,
            "performance goals: 1 of 1 met; those against other systems were not measured"
        );
        assert_eq!(
            left,
            "left behind: both nodes, until Ctrl-C; all results: in the table above"
        );
    }

    #[test]
    fn a_directory_or_a_node_that_is_left_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_owned();
        let left = Left::after(true, &path);
        assert!(left.words().contains(&path.display().to_string()));
        drop(directory);
        assert_eq!(Left::after(true, &path), Left::Nothing);
        assert_eq!(Left::after(false, &path), Left::Unclear);
    }
}
