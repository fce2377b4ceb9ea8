//! A test that stops running must be noticed: `scripts/test-report` fails for every skip that
//! `scripts/skips` does not allow.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::Path,
    process::{self, Command},
    thread,
};

const LIST: &str = "# A comment.\n1 always there is no cable\nany always ignored: a child\n";

/// Runs the report on these lines of a log. Returns whether it succeeds, and its output.
fn report(list: &str, log: &str) -> (bool, String) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = format!("skips-{}-{:?}", process::id(), thread::current().id());
    let (log_path, list_path) = (place.join(format!("{own}.log")), place.join(own));
    fs::write(&log_path, log).unwrap();
    fs::write(&list_path, list).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-report");
    let output = Command::new(script)
        .args([&log_path, &list_path])
        .output()
        .unwrap();
    fs::remove_file(log_path).unwrap();
    fs::remove_file(list_path).unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&printed).into_owned(),
    )
}

/// Returns the output of `cargo test -- --show-output` for passed tests, each with its own output.
fn log(texts: &[&str]) -> String {
    let mut log = String::from("test child ... ignored, a child of the other tests\n");
    log += "test broken ... FAILED\n\nsuccesses:\n\n";
    for (number, texts) in texts.iter().enumerate() {
        log += &format!("---- test{number} stdout ----\n{texts}\n\n");
    }
    log + "successes:\n    test0\n\nfailures:\n\ntest result: FAILED. 5 passed; 1 failed; 1 \
        ignored; 0 measured; 0 filtered out\n"
}

#[test]
fn permitted_skips_are_counted_and_reported() {
    let (passed, printed) = report(
        LIST,
        &log(&["skipped: there is no cable here", "all is well"]),
    );
    assert!(passed, "{printed}");
    assert!(
        printed.contains("skipped (1): there is no cable here"),
        "{printed}"
    );
    assert!(
        printed.ends_with("4 passed, 1 failed, 1 skipped, 1 that only other tests or people run\n"),
        "{printed}"
    );
    assert!(printed.contains("failed: broken\n"), "{printed}");
}

#[test]
fn a_test_with_two_skip_reasons_is_skipped_once() {
    let list = "any always there is no\nany always ignored:\n";
    let both = "skipped: there is no cable\nskipped: there is no root";
    let (passed, printed) = report(list, &log(&[both]));
    assert!(
        passed && printed.contains("4 passed, 1 failed, 1 skipped"),
        "{printed}"
    );
}

#[test]
fn unlisted_skips_fail_the_run() {
    let cable = "skipped: there is no cable";
    for (list, texts) in [
        (LIST, &["skipped: there is no chromium"][..]),
        (LIST, &[cable, cable]),
        (
            "1 no-root there is no cable\nany always ignored:\n1 one-core there is no cable\n",
            &[cable, cable],
        ),
        ("any always there is no cable\n", &[cable]),
    ] {
        let (passed, printed) = report(list, &log(texts));
        assert!(
            !passed && printed.contains("NOT TO BE SKIPPED"),
            "{printed}"
        );
    }
}

#[test]
fn an_incomplete_line_of_the_list_is_refused() {
    for list in [
        "1 always\n",
        "1 sometimes there is no cable\n",
        "many always there is no cable\n",
    ] {
        let (passed, printed) = report(list, &log(&[]));
        assert!(!passed && printed.contains("line 1 of"), "{printed}");
    }
}
