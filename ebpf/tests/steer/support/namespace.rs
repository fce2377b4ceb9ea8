//! A network namespace that exists as long as the threads, processes and sockets in it.

use std::{fs, panic, thread};

use nix::sched::{CloneFlags, unshare};

/// Runs `body` in a thread with its own network namespace. The namespace and all its interfaces
/// disappear with the thread.
pub fn in_new_namespace<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("root may make a network namespace");
            // The tests count frames, and the kernel probes for neighbors and routers over IPv6 at
            // any time.
            let _ = fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            body()
        });
        thread
            .join()
            .unwrap_or_else(|panic| panic::resume_unwind(panic))
    })
}
