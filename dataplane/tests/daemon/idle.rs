//! A daemon at rest.

use std::time::Duration;

use super::node::pair;

#[test]
fn lanes_at_rest_sleep() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut nodes = Vec::new();
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    nodes.push(a);
    nodes.push(b);
    let lanes = |nodes: &[super::node::Node]| -> Vec<(u64, u64)> {
        nodes
            .iter()
            .map(|node| node.status().lanes[0].clone())
            .map(|lane| (lane.cpu_ns, lane.sleeps))
            .collect()
    };
    let before = lanes(&nodes);
    let second = Duration::from_secs(1);
    std::thread::sleep(second);
    for ((cpu_before, sleeps_before), (cpu_after, sleeps_after)) in
        before.into_iter().zip(lanes(&nodes))
    {
        let share = (cpu_after - cpu_before) as f64 / second.as_nanos() as f64;
        eprintln!(
            "a resting lane took {:.2} % of a core and slept {} times",
            share * 100.0,
            sleeps_after - sleeps_before
        );
        assert!(
            share < 0.10,
            "a resting lane took {:.1} % of a core",
            share * 100.0
        );
        assert!(
            sleeps_after - sleeps_before >= 50,
            "it sleeps between paces"
        );
    }
}
