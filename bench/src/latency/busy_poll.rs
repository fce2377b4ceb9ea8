//! Busy polling by the kernel, switched on for one measurement: what Documentation/networking/napi.rst asks for.
//!
//! A veth has no receive queue to poll until its GRO is on, so that is switched on too. Everything is undone when the value goes.

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

/// Times that interrupts are put off, and for how many nanoseconds each: the values of the kernel's own example.
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
    /// The receive queue that the last data of the socket came through; 0 if none is known, and so none is polled.
    IncomingNapiId, GetOnly, libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID, libc::c_int
);

/// What has to be said of figures for which the kernel had no queue to poll.
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
        "SO_BUSY_POLL {POLL_US} µs, SO_PREFER_BUSY_POLL, SO_BUSY_POLL_BUDGET {BUDGET} at both ends; GRO of the veth on, {}",
        deferred.join(", ")
    )
}

/// Asks that the calls of `socket` poll.
pub fn ask_for(socket: &impl AsFd) -> Result<()> {
    let asking = "asking for busy polling (Linux 5.11 has it)";
    setsockopt(socket, BusyPoll, &POLL_US).context(asking)?;
    setsockopt(socket, PreferBusyPoll, &1).context(asking)?;
    setsockopt(socket, BusyPollBudget, &BUDGET).context(asking)
}

/// Switched on at both ends of the cable for as long as it lives.
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
        // The namespaces go with this process; all that is lost is that a later measurement has it on, and says so by its figures.
        if let Err(problem) = self.switch(false) {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("covalent-bench: busy polling stays on: {problem:#}\n"),
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

/// Writes how long interrupts are put off. The files show the interfaces of the namespace in which sysfs was mounted, so a thread mounts one for itself.
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
