//! The cost of control: idle with a daemon, an established link and an agreement, and after many
//! reloads of a large file.

use std::{env, fs, path::PathBuf, thread, time::Duration};

use covalent_api::{
    control::{ControlReply, ControlRequest},
    rule::{Action, Match, Rule, Transport},
};
use nix::{
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};

use super::{
    control::{Control, program, write},
    live_ports::await_link,
    node::Node,
};

/// How long it is looked at.
const A_WHILE: Duration = Duration::from_secs(1);

/// As many as a file may have.
const RULES: u16 = 4096;

/// Reloads of it: some in every test, and this many in a soak.
const RELOADS: u32 = 100;
const RELOADS_USUAL: u32 = 20;

/// The current resource use of the process.
struct Cost {
    resident_kib: u64,
    threads: usize,
    /// By its own clock, since it began.
    cpu: Duration,
}

fn cost(control: &Control) -> Cost {
    let pid = control.pid();
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let status = fs::read_to_string(proc.join("status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok());
    let clock = clock_getcpuclockid(Pid::from_raw(pid.cast_signed())).expect("it runs");
    Cost {
        resident_kib: resident.expect("a size"),
        threads: fs::read_dir(proc.join("task")).expect("it runs").count(),
        cpu: clock_gettime(clock).expect("it runs").into(),
    }
}

/// Fails if anything wakes the process. The bound on its CPU time is five times the promised value,
/// to cover work that the system does on its behalf.
fn assert_at_rest(control: &Control, when: &str) {
    let before = cost(control);
    thread::sleep(A_WHILE);
    let after = cost(control);
    let cpu = after.cpu.saturating_sub(before.cpu);
    eprintln!(
        "{when}: {} KiB, {cpu:?} of CPU time in {A_WHILE:?}",
        after.resident_kib
    );
    assert!(
        after.resident_kib < 50 * 1024,
        "{when}: {} KiB",
        after.resident_kib
    );
    assert_eq!(after.threads, 1, "{when}: one thread is enough");
    assert!(cpu < A_WHILE / 20, "{when}: {cpu:?}");
}

#[test]
fn idle_control_costs_almost_nothing_after_many_large_reloads() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let [a, _b] = ["a", "b"].map(|name| {
        let mut node = Node::new(dir.path(), name, &["p0"], "");
        node.config.control.metrics_listen = ([127, 0, 0, 1], 0).into();
        node.start()
    });
    let mut config = a.config.clone();
    let file = dir.path().join("a.toml");
    write(&file, &config);
    let control = Control::start(&program, &file);
    control.await_agreed();
    await_link(&mut a.client(), "p0");
    config.dataplane.spin_us = 9;
    control.reload(&config);
    assert_at_rest(&control, "with a link, behind a reload");

    config.steer = (1..=RULES)
        .map(|dst_port| Rule {
            matches: Match::Port {
                transport: Transport::Udp,
                dst_port,
            },
            action: Action::Drop,
        })
        .collect();
    let reloads = match env::var_os("SOAK_SECONDS") {
        Some(_) => RELOADS,
        None => RELOADS_USUAL,
    };
    for round in 0..reloads {
        config.dataplane.spin_us = 10 + round % 50;
        control.reload(&config);
    }
    assert_at_rest(
        &control,
        &format!("after {reloads} reloads of a large file"),
    );
    let agreed = control.call(&ControlRequest::Agreed);
    let is_shared = matches!(
        agreed,
        Some(ControlReply::Agreed {
            is_shared: true,
            ..
        })
    );
    assert!(is_shared, "{agreed:?}");
}
