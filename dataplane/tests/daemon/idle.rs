//! A daemon at rest.

use std::time::{Duration, Instant};

use covalent_api::rule::Match;
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Verbs},
    node::{eventually, pair, pair_with},
    streams::numbered,
};

#[test]
fn idle_lanes_sleep() {
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
    let begun = Instant::now();
    let mut after = before.clone();
    // Some hundred times per second. Where other processes use the cores, a lane may be late for
    // its next tick before it could sleep.
    eventually("lanes sleep between ticks", || {
        std::thread::sleep(Duration::from_secs(1));
        after = lanes(&nodes);
        let mut pairs = before.iter().zip(&after);
        pairs.all(|((_, before), (_, after))| after - before >= 5)
    });
    let elapsed_ns = begun.elapsed().as_nanos();
    for ((cpu_before, sleeps_before), (cpu_after, sleeps_after)) in before.into_iter().zip(after) {
        let share = (cpu_after - cpu_before) as f64 / elapsed_ns as f64;
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
    }
}

/// With a tick of one second, a lost wake-up shows as a round trip that lasts until the next tick.
#[test]
fn no_wake_up_is_lost_by_lanes_that_sleep_at_once() {
    const SLOW: Duration = Duration::from_millis(500);
    for idle in ["idle = \"interrupt\"", "spin_us = 1"] {
        let dir = tempfile::tempdir().expect("a directory");
        let more = format!("idle_tick_ms = 1000\n[dataplane]\n{idle}\n");
        let (a, b) = pair_with(dir.path(), &["p0"], &more);
        let mut far = App::attach(&b.config.socket_path());
        let (far_pipe, mut far_rx) = far.rx(None);
        far.bind(far_pipe, Match::Any);
        let (rkey, _memory) = far.register("bank", 64);
        let mut near = App::attach(&a.config.socket_path());
        let (tx_pipe, mut tx) = near.tx("p0");
        let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
        let mut slow = 0;
        for number in 0..1500_u32 {
            if number % 50 == 0 {
                // Long enough for every lane to be asleep, however busy the machine is.
                std::thread::sleep(Duration::from_millis(5));
            }
            let begin = Instant::now();
            near.send(tx_pipe, &mut tx, &numbered(number, 64));
            // While the lane processes this and goes back to sleep, more work arrives, a little
            // later each time.
            let pause = Duration::from_nanos(u64::from(number % 500) * 100);
            while begin.elapsed() < pause {
                std::hint::spin_loop();
            }
            assert!(verbs.post(
                b.guid(),
                Mode::TwoPhase,
                0,
                rkey,
                0,
                Verb::FetchAdd { delta: 1 }
            ));
            assert_eq!(verbs.wait()[0].1.word(), u64::from(number));
            assert_eq!(
                far.receive(far_pipe, &mut far_rx, 1),
                [numbered(number, 64)]
            );
            slow += u32::from(begin.elapsed() > SLOW);
        }
        assert!(
            slow < 3,
            "{slow} of 1500 round trips waited for a tick under {idle}"
        );
        let sleeps = a.status().lanes[0].sleeps;
        assert!(
            sleeps >= 20,
            "the lane slept between: {sleeps} times under {idle}"
        );
    }
}
