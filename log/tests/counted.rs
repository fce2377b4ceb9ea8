//! Lines that come again are counted. A process by itself, for the table of lines is the whole process's.

mod support;

use std::{
    thread,
    time::{Duration, Instant},
};

use covalent_log::{Counted, Lanes, WINDOW};
use support::Written;
use tracing_subscriber::{Registry, layer::SubscriberExt, util::SubscriberInitExt};

#[test]
fn what_differs_in_numbers_alone_is_written_once_and_counted() {
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
    let told = |level: &str| {
        let lines = written.lines().into_iter();
        let lines = lines.filter(|line| line["level"] == level);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(told("INFO").len(), 2, "{:?}", told("INFO"));
    assert_eq!(told("WARN").len(), 4, "{:?}", told("WARN"));
    assert_eq!(told("DEBUG").len(), 1_000);

    // The thread tells how often, without anything else being said.
    let deadline = Instant::now() + WINDOW + Duration::from_secs(10);
    while told("INFO").len() + told("WARN").len() < 8 {
        assert!(Instant::now() < deadline, "{:?}", told("INFO"));
        thread::sleep(Duration::from_millis(20));
    }
    let again = &told("INFO")[2];
    assert_eq!(again["message"], "link up port=p0: again");
    assert_eq!(again["times"], 999);
    let again = &told("WARN")[4];
    assert_eq!(
        again["message"],
        "link down port=p0 reason=carrier lost: again"
    );
    assert_eq!(again["times"], 999);
    // Its time is over: it is written again.
    tracing::info!(port = "p0", epoch = 1_000, "link up");
    assert_eq!(told("INFO").len(), 4);
    drop(writing);
}
