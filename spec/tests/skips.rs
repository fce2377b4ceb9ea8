//! A test that stops running must not go unseen: `scripts/test-report` fails for what `scripts/skips` does not allow.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::Path,
    process::{self, Command},
    thread,
};

const LIST: &str = "# A comment.\n1 always there is no cable\nany always ignored: a child\n";

/// Whether the report goes well, and what it says of these lines of a log.
fn report(list: &str, log: &str) -> (bool, String) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = format!("skips-{}-{:?}", process::id(), thread::current().id());
    let (log_path, list_path) = (place.join(format!("{own}.log")), place.join(own));
    fs::write(&log_path, log).unwrap();
    fs::write(&list_path, list).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/test-report");
    let output = Command::new(script)
        .args([&log_path, &list_path])
        .output()
        .unwrap();
    fs::remove_file(log_path).unwrap();
    fs::remove_file(list_path).unwrap();
    let told = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&told).into_owned(),
    )
}

/// What `cargo test -- --show-output` writes of tests that passed, each with what it said.
fn log(said: &[&str]) -> String {
    let mut log = String::from("test child ... ignored, a child of the other tests\n");
    log += "test broken ... FAILED\n\nsuccesses:\n\n";
    for (number, said) in said.iter().enumerate() {
        log += &format!("---- test{number} stdout ----\n{said}\n\n");
    }
    log + "successes:\n    test0\n\nfailures:\n\ntest result: FAILED. 5 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out\n"
}

#[test]
fn what_may_be_skipped_is_counted_and_told() {
    let (went, told) = report(
        LIST,
        &log(&["skipped: there is no cable here", "all is well"]),
    );
    assert!(went, "{told}");
    assert!(
        told.contains("skipped (1): there is no cable here"),
        "{told}"
    );
    assert!(
        told.ends_with("4 passed, 1 failed, 1 skipped, 1 that only other tests or people run\n"),
        "{told}"
    );
    assert!(told.contains("failed: broken\n"), "{told}");
}

#[test]
fn a_test_that_says_two_reasons_is_skipped_once() {
    let list = "any always there is no\nany always ignored:\n";
    let both = "skipped: there is no cable\nskipped: there is no root";
    let (went, told) = report(list, &log(&[both]));
    assert!(
        went && told.contains("4 passed, 1 failed, 1 skipped"),
        "{told}"
    );
}

#[test]
fn more_of_a_reason_or_another_one_fails_the_run() {
    let cable = "skipped: there is no cable";
    for (list, said) in [
        (LIST, &["skipped: there is no chromium"][..]),
        (LIST, &[cable, cable]),
        (
            "1 no-root there is no cable\nany always ignored:\n1 one-core there is no cable\n",
            &[cable, cable],
        ),
        ("any always there is no cable\n", &[cable]),
    ] {
        let (went, told) = report(list, &log(said));
        assert!(!went && told.contains("NOT TO BE SKIPPED"), "{told}");
    }
}

#[test]
fn a_line_of_the_list_that_says_nothing_is_refused() {
    for list in [
        "1 always\n",
        "1 sometimes there is no cable\n",
        "many always there is no cable\n",
    ] {
        let (went, told) = report(list, &log(&[]));
        assert!(!went && told.contains("line 1 of"), "{told}");
    }
}
