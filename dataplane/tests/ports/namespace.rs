//! Network namespaces that a test makes and that vanish with it.

use std::{fs, process::Command, thread};

use nix::{
    net::if_::InterfaceFlags,
    sched::{CloneFlags, unshare},
    unistd::geteuid,
};

use crate::pair::until;

/// Runs `test` on a thread in a new network namespace. The namespace has no name: it ends with the
/// thread and the sockets opened in it, even after a panic. Without root the test is skipped with a
/// message.
pub fn in_new_namespace(test: impl FnOnce() + Send) {
    if !geteuid().is_root() {
        eprintln!("skipped: making a network namespace needs root");
        return;
    }
    let outcome = thread::scope(|scope| {
        scope
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
                test();
            })
            .join()
    });
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Creates two interfaces `near0` and `far0`, joined by a virtual cable, both up, with `queues`
/// queues each. Only the test sends on them: no address is configured and IPv6 is off.
pub fn veth_pair(queues: u32) {
    fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    let queues = queues.to_string();
    let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
    ip(&[
        &["link", "add", "near0"],
        &queues[..],
        &["type", "veth", "peer", "name", "far0"],
        &queues[..],
    ]
    .concat());
    ip(&["link", "set", "near0", "up"]);
    ip(&["link", "set", "far0", "up"]);
    // The kernel reports a carrier a moment after the interfaces are up.
    until("both interfaces have a carrier", || {
        carrier("near0") && carrier("far0")
    });
}

fn carrier(interface: &str) -> bool {
    nix::ifaddrs::getifaddrs().unwrap().any(|found| {
        found.interface_name == interface && found.flags.contains(InterfaceFlags::IFF_RUNNING)
    })
}

/// Runs `ip` with these arguments in the namespace of the calling thread.
pub fn ip(arguments: &[&str]) {
    run(Command::new("ip").args(arguments));
}

/// Runs a program with one environment variable set; it must succeed.
pub fn run_with_env(program: &str, arguments: &[&str], variable: &str) {
    run(Command::new(program).args(arguments).env(variable, "1"));
}

fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
