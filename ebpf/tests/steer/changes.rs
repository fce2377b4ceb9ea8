//! Rules change while frames run. Each frame sees the old rules or the new ones, and is counted
//! once.

use std::{
    os::fd::AsFd,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use covalent_ebpf::{Action, Key, Steering};

use crate::{
    require_root,
    support::{
        frames::{UDP, udp},
        test_run::{How, test_run},
    },
};

const ROUNDS: u32 = 600;
const BURST: u32 = 64;

/// Calls `change` with each round's number while another thread runs bursts of the frame. Returns
/// the number of frames run.
fn while_frames_run(
    steering: &mut Steering,
    frame: &[u8],
    mut change: impl FnMut(&mut Steering, u32),
) -> u64 {
    let program = steering.as_fd().try_clone_to_owned().unwrap();
    let (done, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                test_run(
                    program.as_fd(),
                    frame,
                    How {
                        repeat: BURST,
                        ..How::default()
                    },
                )
                .unwrap();
                ran.fetch_add(u64::from(BURST), Ordering::Release);
            }
        });
        for round in 0..ROUNDS {
            change(steering, round);
            // Let frames run between the changes too, under the rules of even and of odd rounds.
            let seen = ran.load(Ordering::Acquire);
            while round % 25 == 0 && ran.load(Ordering::Acquire) < seen + u64::from(BURST) {
                thread::yield_now();
            }
        }
        done.store(true, Ordering::Release);
    });
    ran.into_inner()
}

fn keys() -> [Key; 3] {
    let dst = "10.2.0.2".parse().unwrap();
    let src = "10.1.0.1".parse().unwrap();
    [
        Key::FiveTuple {
            proto: UDP,
            src,
            src_port: 1000,
            dst,
            dst_port: 2000,
        },
        Key::Port {
            proto: UDP,
            dst_port: 2000,
        },
        Key::Prefix { dst, len: 24 },
    ]
}

#[test]
fn a_rule_that_changes_its_action_is_never_missing() {
    require_root!();
    let frame = udp("10.1.0.1", 1000, "10.2.0.2", 2000);
    for key in keys() {
        let mut steering = Steering::load().unwrap();
        steering.insert(&key, Action::Kernel).unwrap();
        let ran = while_frames_run(&mut steering, &frame, |steering, round| {
            let action = if round % 2 == 0 {
                Action::Dataplane
            } else {
                Action::Kernel
            };
            steering.insert(&key, action).unwrap();
        });
        let counters = steering.counters().unwrap();
        assert_eq!(counters.frames(), ran, "{key:?}");
        assert_eq!(
            counters.default.to_kernel, 0,
            "{key:?}: frames fell past the rule"
        );
        assert!(
            counters.no_socket > 0 && counters.to_kernel() > counters.no_socket,
            "{key:?}: {counters:?}"
        );
    }
}

#[test]
fn rules_change_and_every_frame_is_counted_once() {
    require_root!();
    let frame = udp("10.1.0.1", 1000, "10.2.0.2", 2000);
    let mut steering = Steering::load().unwrap();
    let [tuple, port, prefix] = keys();
    let ran = while_frames_run(&mut steering, &frame, |steering, round| match round % 6 {
        0 => steering.insert(&prefix, Action::Kernel).unwrap(),
        1 => steering.insert(&port, Action::Kernel).unwrap(),
        2 => steering.insert(&tuple, Action::Kernel).unwrap(),
        3 => assert!(steering.remove(&tuple).unwrap()),
        4 => assert!(steering.remove(&port).unwrap()),
        _ => assert!(steering.remove(&prefix).unwrap()),
    });
    let counters = steering.counters().unwrap();
    assert_eq!(counters.frames(), ran);
    let decided = [
        counters.five_tuple,
        counters.port,
        counters.prefix,
        counters.default,
    ];
    assert_eq!(
        decided
            .iter()
            .map(|verdicts| verdicts.to_kernel)
            .sum::<u64>(),
        ran,
        "{counters:?}"
    );
}
