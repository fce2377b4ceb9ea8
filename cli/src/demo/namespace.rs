//! A network namespace without a name.
//!
//! Descriptors and the processes inside hold it, never a mount under `/run/netns`. The kernel
//! removes it, with all its interfaces, when the last holder is gone. Nothing remains, however the
//! demonstration stops.

use std::{
    fs::{self, File},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
};

use anyhow::{Context, Result, anyhow};
use nix::sched::{CloneFlags, setns, unshare};

/// The network namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Settings of a new namespace. IPv6 transmits by itself on every new interface (router
/// solicitations, duplicate address detection), but an idle demonstration node must be silent. TCP
/// retransmits to probe for losses (tail loss probes, RFC 8985) when a busy machine replies late;
/// here a retransmission must mean a loss.
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
    /// Creates an empty namespace. The calling thread does not enter it.
    ///
    /// # Errors
    /// Fails with `EPERM` without CAP_SYS_ADMIN.
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

    /// Runs `work` on a separate thread inside the namespace and waits for it.
    ///
    /// # Errors
    /// Returns the errors of `work`, or fails if the namespace cannot be entered.
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
