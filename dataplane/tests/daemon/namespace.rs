//! A network namespace with a virtual cable in it, gone with the test.

use std::{panic::resume_unwind, process::Command, thread};

use nix::{
    sched::{CloneFlags, unshare},
    unistd::geteuid,
};

/// Runs `test` on a thread in a new network namespace with the interfaces `near0` and `far0`,
/// joined and up. IPv6 is off, so there is no other traffic. Daemons that the test starts are in
/// the namespace too. Without root the test is skipped with a message.
pub fn with_veth(test: impl FnOnce() + Send) {
    if !is_root() {
        return;
    }
    let run = || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("root");
        ip(
            "link add near0 numrxqueues 2 numtxqueues 2 type veth peer name far0 numrxqueues 2 \
             numtxqueues 2",
        );
        ip("link set near0 up");
        ip("link set far0 up");
        test();
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        resume_unwind(panic);
    }
}

/// Whether this process can create namespaces and become other users. Prints a message if not.
pub fn is_root() -> bool {
    let root = geteuid().is_root();
    if !root {
        eprintln!("skipped: a network namespace or another user needs root");
    }
    root
}

/// Runs `ip` with these arguments in the namespace of the calling thread.
pub fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("iproute2 is installed");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
