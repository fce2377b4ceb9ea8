//! Another thread writes the lines of a lane. A separate process, because logging is global to the
//! process.

mod support;

use std::thread;

use covalent_log::{Lanes, mark_thread_as_lane};
use support::Written;
use tracing_subscriber::{Registry, layer::SubscriberExt, util::SubscriberInitExt};

#[test]
fn lines_of_a_lane_are_written_by_another_thread() {
    let written = Written::default();
    let into = written.clone();
    let json = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_thread_names(true)
        .with_writer(move || into.clone());
    let (lanes, waiting) = Lanes::new();
    Registry::default().with(lanes).with(json).init();
    let lane = thread::Builder::new().name("lane-3".to_owned());
    let lane = lane.spawn(|| {
        tracing::info!("logged before it is a lane");
        mark_thread_as_lane();
        tracing::error!(file = "x", reason = ?Some(1), "the journal has ended");
    });
    lane.expect("a thread").join().expect("it ends");
    tracing::info!("logged elsewhere");
    assert_eq!(written.lines().len(), 2, "it waits for its thread");
    // All is written when this is gone.
    drop(waiting.write().expect("a thread"));
    let lines = written.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let of = |message: &str| {
        let mut found = lines.iter().filter(|line| line["message"] == message);
        let line = found
            .next()
            .unwrap_or_else(|| panic!("{message}: {lines:?}"));
        assert!(found.next().is_none(), "{message} twice");
        line
    };
    let handed_over = of("the journal has ended file=x reason=Some(1)");
    assert_eq!(handed_over["threadName"], "log");
    assert_eq!(handed_over["lane"], "lane-3");
    assert_eq!(handed_over["level"], "ERROR");
    assert_eq!(of("logged before it is a lane")["threadName"], "lane-3");
    of("logged elsewhere");
}
