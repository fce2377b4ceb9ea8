//! Repeated lines are counted. A separate process, because the table of lines is global to the
//! process.

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use covalent_log::{Counted, Lanes, WINDOW};
use support::Written;
use tracing_subscriber::{Registry, layer::SubscriberExt, util::SubscriberInitExt};

#[test]
fn lines_that_differ_only_in_numbers_are_written_once_and_counted() {
    let written = Written::default();
    let into = written.clone();
    let json = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(move || into.clone());
    let (lanes, waiting) = Lanes::new();
    let counted = Counted::before(&lanes);
    Registry::default()
        .with(counted)
        .with(lanes)
        .with(json)
        .init();
    let writing = waiting.write().expect("a thread");
    for epoch in 0..1_000 {
        tracing::info!(port = "p0", epoch, "link up");
        tracing::warn!(port = "p0", reason = "carrier lost", "link down");
        tracing::debug!("not counted");
    }
    tracing::info!(port = "p1", epoch = 7, "link up");
    tracing::warn!(port = "p0", reason = "peer silent", "link down");
    // Which lane is no mere number.
    tracing::warn!(lane = 0, "floats");
    tracing::warn!(lane = 1, "floats");
    let lines_at = |level: &str| {
        let lines = written.lines().into_iter();
        let lines = lines.filter(|line| line["level"] == level);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(lines_at("INFO").len(), 2, "{:?}", lines_at("INFO"));
    assert_eq!(lines_at("WARN").len(), 4, "{:?}", lines_at("WARN"));
    assert_eq!(lines_at("DEBUG").len(), 1_000);

    // The thread writes the counts without further log lines.
    let deadline = Instant::now() + WINDOW + Duration::from_secs(10);
    while lines_at("INFO").len() + lines_at("WARN").len() < 8 {
        assert!(Instant::now() < deadline, "{:?}", lines_at("INFO"));
        thread::sleep(Duration::from_millis(20));
    }
    let repeat = &lines_at("INFO")[2];
    assert_eq!(repeat["message"], "link up port=p0: again");
    assert_eq!(repeat["times"], 999);
    let repeat = &lines_at("WARN")[4];
    assert_eq!(
        repeat["message"],
        "link down port=p0 reason=carrier lost: again"
    );
    assert_eq!(repeat["times"], 999);
    // Its time is over: it is written again.
    tracing::info!(port = "p0", epoch = 1_000, "link up");
    assert_eq!(lines_at("INFO").len(), 4);
    drop(writing);
}
