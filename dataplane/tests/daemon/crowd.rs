//! A session with as many pipes as there may be.

use covalent_api::request::{PipeKind, Reply, Request};

use super::{client::App, node::Node};

/// As many as one session may have.
const PIPES: u64 = 4096;
/// Maximum pipes that a lane reports in one round.
const PER_ROUND_MAX: u64 = 32;

#[test]
fn a_lane_reports_thousands_of_pipes_over_many_rounds() {
    let dir = tempfile::tempdir().expect("a directory");
    let more = "[dataplane]\npipes_per_session_max = 4096\nsession_memory_max_mib = 512\n";
    let node = Node::new(dir.path(), "a", &["p0"], more).start();
    let mut app = App::attach(&node.config.socket_path());
    let open = Request::OpenPipe {
        kind: PipeKind::Tx,
        capacity_bytes: 64 * 1024,
        port: Some("p0".to_owned()),
        completions: None,
    };
    for _ in 0..PIPES {
        let (reply, _) = app.client.call(&open);
        assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
        app.client.done(&Request::Mapped);
    }
    let before = node.status();
    let after = node.status();
    assert_eq!(after.pipes.len() as u64 + after.omitted, PIPES);
    assert!(after.pipes.len() > 100, "as many as there is room for");
    let [before, after] = [before, after].map(|mut status| status.lanes.remove(0));
    eprintln!(
        "a status of {PIPES} pipes took {} rounds; longest round so far {} ns",
        after.busy_loops - before.busy_loops,
        after.longest_round_ns
    );
    assert!(after.busy_loops - before.busy_loops >= PIPES / PER_ROUND_MAX);
}
