//! Kernel busy polling, enabled for one measurement as Documentation/networking/napi.rst describes.
//!
//! A veth has no receive queue to poll until its GRO is on, so this also enables GRO. Dropping the
//! value restores all settings.

use std::{fs, os::fd::AsFd, path::Path, thread};

use anyhow::{Context, Result, bail};
use nix::{
    getsockopt_impl,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    setsockopt_impl, sockopt_impl,
    sys::socket::{getsockopt, setsockopt},
};

use crate::stage::{Namespace, Stage};

/// How long a call polls before it sleeps, in microseconds.
const POLL_US: libc::c_int = 1000;

/// Frames that one poll takes at most.
const BUDGET: libc::c_int = 64;

/// How often interrupts are deferred, and the flush timeout in nanoseconds: the values of the
/// kernel's own example.
const DEFERRED: [(&str, &str); 2] = [
    ("napi_defer_hard_irqs", "2"),
    ("gro_flush_timeout", "200000"),
];

sockopt_impl!(
    /// For how many microseconds a call polls the interface.
    BusyPoll, SetOnly, libc::SOL_SOCKET, libc::SO_BUSY_POLL, libc::c_int
);
sockopt_impl!(
    /// Polling takes precedence of interrupts.
    PreferBusyPoll, SetOnly, libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, libc::c_int
);
sockopt_impl!(
    /// How many frames one poll takes.
    BusyPollBudget, SetOnly, libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, libc::c_int
);

sockopt_impl!(
    /// The receive queue of the socket's last data. 0 means unknown, so no queue is polled.
    IncomingNapiId, GetOnly, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, libc::c_int
);

/// The note for figures for which the kernel had no queue to poll.
pub const NO_EFFECT: &str = "busy polling HAD NO EFFECT: SO_INCOMING_NAPI_ID is 0";

/// Whether the kernel knows which queue to poll for `socket`, which has received something.
pub fn polls(socket: &impl AsFd) -> Result<bool> {
    let queue = getsockopt(socket, IncomingNapiId).context("asking which queue is polled")?;
    Ok(queue != 0)
}

/// The tuning, in words.
pub fn words() -> String {
    let deferred: Vec<String> = DEFERRED
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    format!(
        "SO_BUSY_POLL {POLL_US} µs, SO_PREFER_BUSY_POLL, SO_BUSY_POLL_BUDGET {BUDGET} at both \
         ends; GRO of the veth on, {}",
        deferred.join(", ")
    )
}

/// Enables busy polling on `socket`.
pub fn enable(socket: &impl AsFd) -> Result<()> {
    let action = "asking for busy polling (Linux 5.11 has it)";
    setsockopt(socket, BusyPoll, &POLL_US).context(action)?;
    setsockopt(socket, PreferBusyPoll, &1).context(action)?;
    setsockopt(socket, BusyPollBudget, &BUDGET).context(action)
}

/// Busy polling at both ends of the cable, disabled on drop.
pub struct BusyPolling<'a>(&'a Stage);

impl<'a> BusyPolling<'a> {
    /// Switches it on.
    ///
    /// # Errors
    /// `ethtool` is missing, or the kernel refuses.
    pub fn on(stage: &'a Stage) -> Result<Self> {
        let polling = Self(stage);
        polling.switch(true)?;
        Ok(polling)
    }

    fn switch(&self, on: bool) -> Result<()> {
        for (namespace, interface) in [(&self.0.a, "a0"), (&self.0.b, "b0")] {
            namespace.within(|| gro(interface, on))?;
            defer(namespace, interface, on)?;
        }
        Ok(())
    }
}

impl Drop for BusyPolling<'_> {
    fn drop(&mut self) {
        // The namespaces vanish with this process. On failure, only a later measurement of this run
        // keeps busy polling.
        if let Err(problem) = self.switch(false) {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("covalent-bench: cannot switch busy polling off: {problem:#}\n"),
            );
        }
    }
}

fn gro(interface: &str, on: bool) -> Result<()> {
    let state = if on { "on" } else { "off" };
    let output = std::process::Command::new("ethtool")
        .args(["-K", interface, "gro", state])
        .output()
        .context("running `ethtool`\n  cure: apt-get install ethtool")?;
    if !output.status.success() {
        bail!(
            "ethtool -K {interface} gro {state}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Sets the interrupt deferral. sysfs shows the interfaces of the namespace in which it was
/// mounted, so a thread mounts its own sysfs.
fn defer(namespace: &Namespace, interface: &str, on: bool) -> Result<()> {
    let place = tempfile::tempdir().context("making a directory for sysfs")?;
    let written = thread::scope(|scope| {
        scope
            .spawn(|| {
                namespace.enter()?;
                write_in_own_sysfs(place.path(), interface, on)
            })
            .join()
    });
    written.unwrap_or_else(|_| bail!("the thread that writes to sysfs failed"))
}

fn write_in_own_sysfs(place: &Path, interface: &str, on: bool) -> Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).context("making a mount namespace")?;
    mount(
        NOTHING,
        "/",
        NOTHING,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOTHING,
    )
    .context("keeping mounts to oneself")?;
    mount(
        Some("sysfs"),
        place,
        Some("sysfs"),
        MsFlags::empty(),
        NOTHING,
    )
    .context("mounting sysfs")?;
    let written = DEFERRED.iter().try_for_each(|(name, value)| {
        let path = place.join("class/net").join(interface).join(name);
        let value = if on { value } else { "0" };
        fs::write(&path, value).with_context(|| format!("writing {name} of {interface}"))
    });
    umount2(place, MntFlags::MNT_DETACH).context("unmounting sysfs")?;
    written
}
