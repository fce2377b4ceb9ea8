//! The demonstration, whole.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use support::{covalent, entries, media};

#[test]
fn a_quick_demonstration_passes_all_its_checks_on_every_medium() {
    for &medium in media() {
        let temporary = tempfile::tempdir().unwrap();
        let output = covalent(temporary.path())
            .args([
                "demo",
                "--quick",
                "--no-bench",
                "--format",
                "json",
                "--port",
                medium,
            ])
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{medium}: {error}\n{printed}"));
        let failed: Vec<&Value> = report["checks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|check| check["passed"] != true)
            .collect();
        assert!(failed.is_empty(), "{medium}: {failed:#?}\n{printed}");
        assert!(
            output.status.success() && report["ok"] == true,
            "{medium}: {printed}"
        );

        assert_eq!(report["medium"], medium);
        assert_eq!(report["kernel_tcp"].is_null(), medium == "cable");
        assert_eq!(report["verbs"]["host"]["counter"], 100_000);
        let first = printed.lines().next().unwrap();
        assert!(
            first.contains(if medium == "cable" {
                "in-memory cables"
            } else {
                "AF_XDP"
            }),
            "{first}"
        );
        assert!(
            !printed.contains('\u{1b}'),
            "no terminal, no escape sequences: {printed}"
        );
        assert!(entries(temporary.path()).is_empty());
    }
}

#[test]
fn a_demonstration_ends_with_three_lines_and_prints_the_table_on_request() {
    for verbose in [false, true] {
        let temporary = tempfile::tempdir().unwrap();
        let mut command = covalent(temporary.path());
        command.args(["demo", "--quick", "--no-bench", "--port", "cable"]);
        if verbose {
            command.arg("--verbose");
        }
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{printed}");
        let has_table =
            ["details", "stream round trip", "failover gap"].map(|words| printed.contains(words));
        assert_eq!(has_table, [verbose; 3], "{printed}");

        let lines: Vec<&str> = printed.lines().collect();
        let (before, verdict) = lines.split_at(lines.len() - 3);
        let count = verdict[0]
            .strip_prefix("checks: ")
            .and_then(|rest| rest.split_once(" passed over cable in "))
            .and_then(|(count, _)| count.split_once(" of "));
        let (passed, all) = count.unwrap();
        assert_eq!(passed, all, "{printed}");
        assert!(all.parse::<u32>().unwrap() > 10, "{printed}");
        assert!(verdict[1].starts_with("performance goals: "), "{printed}");
        assert!(verdict[1].contains(" of 4 met"), "{printed}");
        assert!(
            verdict[2].starts_with("left behind: nothing; "),
            "{printed}"
        );
        assert_eq!(verdict[2].contains("--verbose"), !verbose, "{printed}");
        assert!(!before.iter().any(|line| line.starts_with("FAILED")));
        assert!(entries(temporary.path()).is_empty());
    }
}
