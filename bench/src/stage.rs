//! The test bed: two network namespaces joined by virtual cables. They have no names and vanish
//! with this process, however it exits.

use std::{
    fs::{self, File},
    os::fd::{AsRawFd, OwnedFd},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    net::if_::InterfaceFlags,
    sched::{CloneFlags, setns, unshare},
};

use crate::stop;

/// How long the kernel may take to report a carrier.
const CARRIER_PATIENCE: Duration = Duration::from_secs(5);

/// One network namespace.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    fn new() -> Result<Self> {
        // Use a separate thread, so that this one stays in its namespace.
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("making a network namespace")?;
            Self::current()
        });
        made.join()
            .unwrap_or_else(|_| bail!("the thread that makes a network namespace failed"))
    }

    /// Creates a namespace whose loopback interface is up.
    pub fn with_loopback() -> Result<Self> {
        let namespace = Self::new()?;
        namespace.within(|| ip(&["link", "set", "lo", "up"]))?;
        Ok(namespace)
    }

    /// The calling thread's.
    pub fn current() -> Result<Self> {
        let file =
            File::open("/proc/thread-self/ns/net").context("opening the network namespace")?;
        Ok(Self(file.into()))
    }

    /// Moves the calling thread into the namespace for good.
    pub fn enter(&self) -> Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).context("entering a network namespace")
    }

    /// Runs `work` on the calling thread in the namespace, then returns to the previous one.
    /// Processes that `work` starts stay there.
    pub fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let home = Self::current()?;
        self.enter()?;
        let done = work();
        home.enter()?;
        done
    }

    /// Returns a path by which other programs open the namespace, valid while this value lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Two nodes' namespaces, joined by `cables` virtual cables: `a0`–`b0`, `a1`–`b1`, …
#[derive(Debug)]
pub struct Stage {
    /// One node's.
    pub a: Namespace,
    /// The other's.
    pub b: Namespace,
}

impl Stage {
    /// Builds it, with `queues` queues at both ends of each cable, everything up.
    pub fn build(cables: u32, queues: u32) -> Result<Self> {
        let stage = Self {
            a: Namespace::new()?,
            b: Namespace::new()?,
        };
        let queues = queues.to_string();
        let there = stage.b.path();
        stage.a.within(|| {
            be_quiet()?;
            for cable in 0..cables {
                let (near, far) = (format!("a{cable}"), format!("b{cable}"));
                let sizes = ["numrxqueues", &queues, "numtxqueues", &queues];
                let near_end = ["link", "add", &near];
                let far_end = ["type", "veth", "peer", "name", &far];
                ip(&[&near_end[..], &sizes, &far_end, &sizes].concat())?;
                ip(&["link", "set", &far, "netns", &there])?;
                ip(&["link", "set", &near, "up"])?;
            }
            Ok(())
        })?;
        stage.b.within(|| {
            be_quiet()?;
            for cable in 0..cables {
                ip(&["link", "set", &format!("b{cable}"), "up"])?;
            }
            Ok(())
        })?;
        for (namespace, end) in [(&stage.a, 'a'), (&stage.b, 'b')] {
            namespace.within(|| {
                (0..cables).try_for_each(|cable| wait_for_carrier(&format!("{end}{cable}")))
            })?;
        }
        Ok(stage)
    }
}

impl Stage {
    /// Builds two nodes' namespaces with a third one between them: `a0` connects to the first of
    /// `middle`, `b0` to the second. All interfaces have one queue and are up.
    pub fn build_with_middle(middle: [&str; 2]) -> Result<(Self, Namespace)> {
        let (stage, between) = (
            Self {
                a: Namespace::new()?,
                b: Namespace::new()?,
            },
            Namespace::new()?,
        );
        between.within(be_quiet)?;
        let there = between.path();
        for (namespace, near, far) in [(&stage.a, "a0", middle[0]), (&stage.b, "b0", middle[1])] {
            namespace.within(|| {
                be_quiet()?;
                let queues = ["numrxqueues", "1", "numtxqueues", "1"];
                let near_end = ["link", "add", near];
                let far_end = ["type", "veth", "peer", "name", far];
                ip(&[&near_end[..], &queues, &far_end, &queues].concat())?;
                ip(&["link", "set", far, "netns", &there])?;
                ip(&["link", "set", near, "up"])
            })?;
            between.within(|| ip(&["link", "set", far, "up"]))?;
            namespace.within(|| wait_for_carrier(near))?;
        }
        Ok((stage, between))
    }
}

/// Disables IPv6 autoconfiguration: only the measurement sends on the cables.
fn be_quiet() -> Result<()> {
    for scope in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
        match fs::write(&path, "1") {
            // A kernel without IPv6 is quiet already.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            written => written.with_context(|| format!("writing {path}"))?,
        }
    }
    Ok(())
}

fn wait_for_carrier(interface: &str) -> Result<()> {
    let start = Instant::now();
    loop {
        let up = nix::ifaddrs::getifaddrs()
            .context("listing interfaces")?
            .any(|found| {
                found.interface_name == interface
                    && found.flags.contains(InterfaceFlags::IFF_RUNNING)
            });
        if up {
            return Ok(());
        }
        if start.elapsed() > CARRIER_PATIENCE {
            bail!("interface {interface} got no carrier");
        }
        stop::sleep(Duration::from_millis(1))?;
    }
}

/// Runs `ip` in the calling thread's namespace.
pub fn ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .context("running `ip` (Debian package iproute2)")?;
    if !output.status.success() {
        bail!(
            "ip {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
