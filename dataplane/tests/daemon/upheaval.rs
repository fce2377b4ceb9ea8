//! Changes to interfaces and processes while verbs are in flight. No operation blocks forever,
//! every verb is executed once, and the status reports the changes. The link is back when the
//! interface is.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use covalent_api::control::{ControlReply, ControlRequest, InterfaceStatus};
use covalent_protocol::{Mode, verb::Verb};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, gettid},
};

use super::{
    client::{App, Verbs},
    healing::{Place, await_links, with_control},
    namespace::ip,
    node::eventually,
};

/// Verbs in flight.
const WINDOW: u64 = 16;

/// Additions by `a` to a word of `b` until `stops` is set. The old values show whether all were
/// executed once.
fn add_until(stops: &AtomicBool, a: &Place, b: &Place) -> u64 {
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, memory) = owner.register("bank", 64);
    let target = b.client().status().guid.bits();
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut found = BTreeSet::new();
    let (mut posted, mut done) = (0_u64, 0_u64);
    let mut last = Instant::now();
    while done < posted || !stops.load(Ordering::Relaxed) {
        while posted - done < WINDOW && !stops.load(Ordering::Relaxed) {
            let add = Verb::FetchAdd { delta: 1 };
            if !verbs.post(target, Mode::TwoPhase, posted, rkey, 0, add) {
                break;
            }
            posted += 1;
        }
        let ended = verbs.poll();
        if ended.is_empty() {
            assert!(last.elapsed() < Duration::from_secs(60), "verbs hang");
            verbs.app.sleep(Duration::from_millis(5));
        }
        for (_, how) in ended {
            // Doubts end, as each of these did.
            if !how.is_doubt() {
                assert!(found.insert(how.word()), "an addition was executed twice");
                done += 1;
                last = Instant::now();
            }
        }
    }
    assert_eq!(memory.load(0), Some(done));
    assert!(found.into_iter().eq(0..done), "an addition was lost");
    done
}

/// Runs `upheaval` with two linked nodes under load, and sees that verbs go on behind it.
fn under_load(upheaval: impl FnOnce(&Place, &Place) + Send) {
    with_control(|program: &Path, dir| {
        let a = Place::start(program, dir, "a", &["near0"]);
        let b = Place::start(program, dir, "b", &["far0"]);
        await_links([&a, &b], "p0", 0);
        let stops = AtomicBool::new(false);
        thread::scope(|scope| {
            // Also when the upheaval fails, or the load would run on.
            let load = scope.spawn(|| add_until(&stops, &a, &b));
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                until_more_is_executed(&b);
                upheaval(&a, &b);
                until_more_is_executed(&b);
            }));
            stops.store(true, Ordering::Relaxed);
            let done = load.join().expect("every verb was executed once");
            ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert!(done > 0);
        });
    });
}

/// Waits until the node has executed some more additions.
fn until_more_is_executed(node: &Place) {
    let executed = || {
        let status = node.client().status();
        status.verbs.executed.get("fetch_add").copied().unwrap_or(0)
    };
    let before = executed();
    eventually("verbs go on", || executed() > before + 10 * WINDOW);
}

/// Returns control's report on the interface of port `p0`.
fn interface(node: &Place) -> InterfaceStatus {
    let control = node.control.as_ref().expect("it runs");
    match control.call(&ControlRequest::Interfaces) {
        Some(ControlReply::Interfaces { interfaces }) => interfaces[0].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_renamed_interface_is_absent_until_its_name_is_back() {
    under_load(|a, b| {
        for round in 0..3 {
            let epoch = await_links([a, b], "p0", 0);
            ip("link set near0 name other0");
            eventually("control misses it", || interface(a).index.is_none());
            // Its frames go on: the kernel's device is the same.
            until_more_is_executed(b);
            ip("link set other0 name near0");
            eventually("control has it back", || interface(a).index.is_some());
            until_more_is_executed(b);
            let now = await_links([a, b], "p0", 0);
            assert!(now >= epoch, "round {round}");
        }
        assert!(a.port("p0").absent.is_none() && a.port("p0").carrier);
    });
}

/// A network namespace with nothing in it.
struct Elsewhere(Child);

impl Elsewhere {
    fn new() -> Self {
        let child = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdin(Stdio::null())
            .spawn();
        let elsewhere = Self(child.expect("util-linux is installed"));
        let own = std::fs::read_link("/proc/self/ns/net").expect("procfs");
        let theirs = format!("/proc/{}/ns/net", elsewhere.0.id());
        let mine = std::fs::read_link("/proc/thread-self/ns/net").expect("procfs");
        eventually("the namespace is there", || {
            std::fs::read_link(&theirs).is_ok_and(|it| it != own && it != mine)
        });
        elsewhere
    }

    /// Runs `ip` there.
    fn ip(&self, arguments: &str) {
        let status = Command::new("nsenter")
            .arg(format!("--net=/proc/{}/ns/net", self.0.id()))
            .arg("ip")
            .args(arguments.split(' '))
            .status();
        assert!(status.expect("util-linux is installed").success());
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_interface_moved_to_another_namespace_is_absent_until_it_returns() {
    under_load(|a, b| {
        let elsewhere = Elsewhere::new();
        for _ in 0..2 {
            let epoch = await_links([a, b], "p0", 0);
            ip(&format!("link set near0 netns {}", elsewhere.0.id()));
            eventually("the port has no device", || a.port("p0").absent.is_some());
            let reason = a.port("p0").absent.expect("it is reported");
            assert!(reason.contains("near0"), "{reason}");
            eventually("control misses it", || interface(a).index.is_none());
            elsewhere.ip(&format!("link set near0 netns {}", gettid()));
            await_links([a, b], "p0", epoch);
            assert!(a.port("p0").absent.is_none());
            until_more_is_executed(b);
        }
    });
}

#[test]
fn a_changed_mtu_under_load_is_adopted_and_loses_no_verb() {
    under_load(|a, b| {
        for mtu_bytes in [1480, 1500, 1472, 1500] {
            let epoch = await_links([a, b], "p0", 0);
            ip(&format!("link set near0 mtu {mtu_bytes}"));
            a.await_facts("p0", "the port has the new MTU", |facts| {
                facts.mtu_bytes == mtu_bytes
            });
            assert_eq!(a.port("p0").frame_bytes_max, mtu_bytes + 14);
            await_links([a, b], "p0", epoch);
            until_more_is_executed(b);
        }
    });
}

#[test]
fn an_mtu_too_small_for_links_leaves_the_port_open() {
    under_load(|a, b| {
        let sound = a.port("p0").facts;
        ip("link set near0 mtu 1300");
        eventually("control sees it", || interface(a).mtu_bytes == 1300);
        // Long enough for several attempts. The port is not closed for one that cannot be opened.
        thread::sleep(Duration::from_millis(700));
        assert_eq!(a.port("p0").facts, sound);
        assert!(a.port("p0").absent.is_none());
        ip("link set near0 mtu 1500");
        eventually("control sees it", || interface(a).mtu_bytes == 1500);
        until_more_is_executed(b);
        await_links([a, b], "p0", 0);
    });
}

#[test]
fn stopped_processes_resume_where_they_were() {
    under_load(|a, b| {
        for still in [Duration::from_millis(50), Duration::from_millis(1_500)] {
            let epoch = await_links([a, b], "p0", 0);
            // Both of one node, as a machine that is suspended; then both nodes.
            for nodes in [&[a][..], &[a, b]] {
                let signal = |signal| {
                    for node in nodes {
                        for pid in node.processes() {
                            kill(Pid::from_raw(pid.cast_signed()), signal).expect("it runs");
                        }
                    }
                };
                signal(Signal::SIGSTOP);
                thread::sleep(still);
                signal(Signal::SIGCONT);
                until_more_is_executed(b);
            }
            assert!(await_links([a, b], "p0", 0) >= epoch);
            for node in [a, b] {
                node.control.as_ref().expect("it runs").await_agreed();
            }
        }
    });
}
