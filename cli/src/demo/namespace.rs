//! A network namespace without a name.
//!
//! It is held by descriptors and by the processes inside, never by a mount under `/run/netns`, so the kernel removes it, with
//! all its interfaces, when the last of them is gone. There is nothing to sweep, whatever ends the demonstration.

use std::{
    fs::{self, File},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns, unshare};

/// The network namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Settings of a new namespace. IPv6 speaks up by itself on every new interface (router solicitations, duplicate address
/// detection), but a node of the demonstration must be silent until somebody sends. And TCP sends a segment again to ask
/// whether it was lost (tail loss probes, RFC 8985) when a busy machine answers late; here "sent again" shall mean "lost".
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"),
    ("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"),
    ("/proc/sys/net/ipv4/tcp_early_retrans", "0"),
];

/// One namespace.
#[derive(Debug)]
pub struct Namespace {
    handle: OwnedFd,
}

impl Namespace {
    /// Makes an empty one. The calling thread stays where it is.
    ///
    /// # Errors
    /// `EPERM` without CAP_SYS_ADMIN.
    pub fn create() -> Result<Self> {
        let made = thread::spawn(|| -> Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
                anyhow!(
                    "cannot make a network namespace ({error})
  cure: run as root (`sudo covalent demo`), or without \
                     privilege over shared memory (`covalent demo --port cable`)"
                )
            })?;
            for (path, value) in SETTINGS {
                // A kernel without IPv6 has no such file and is silent already.
                if fs::exists(path).unwrap_or(false) {
                    fs::write(path, value).with_context(|| format!("cannot write {path}"))?;
                }
            }
            Ok(File::open(OWN_NAMESPACE)
                .context("cannot open the new network namespace")?
                .into())
        })
        .join()
        .map_err(|_| anyhow!("the thread that makes a network namespace panicked"))?;
        Ok(Self { handle: made? })
    }

    /// Runs `work` on a thread of its own inside the namespace and waits for it.
    ///
    /// # Errors
    /// Those of `work`, or when the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter()?;
                    work()
                })
                .join()
                .map_err(|_| anyhow!("a thread inside a network namespace panicked"))?
        })
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn enter(&self) -> Result<()> {
        setns(&self.handle, CloneFlags::CLONE_NEWNET).context("cannot enter a network namespace")
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}
