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
