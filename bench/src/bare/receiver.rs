//! A bare socket with the XDP program in front of it.

use std::{os::fd::AsFd, thread::sleep, time::Duration};

use anyhow::{Context, Result};
use covalent_ebpf::{Action, AttachMode, Key, Steering};
use nix::{errno::Errno, net::if_::if_nametoindex};

use super::BareSocket;

/// Delay before retrying a busy queue: the previous side has closed its socket, but the kernel
/// releases the queue later.
const REBIND_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of retries, the same as in our own port.
const REBINDS_MAX: u32 = 10;

/// Which frames a socket receives; the kernel gets the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Frames of one EtherType.
    EtherType(u16),
    /// All.
    Everything,
}

/// A socket that receives the selected frames.
#[derive(Debug)]
pub struct Steered {
    /// The socket.
    pub socket: BareSocket,
    // Detaches when dropped.
    _steering: Steering,
}

impl Steered {
    /// Opens queue 0 of `interface` in the calling thread's namespace for the frames that `wanted`
    /// selects.
    pub fn open(interface: &str, wanted: Wanted, slots: u32, burst: u32) -> Result<Self> {
        let socket = open_patiently(interface, slots, burst)?;
        let mut steering = Steering::load().context("loading the XDP program")?;
        match wanted {
            Wanted::EtherType(ethertype) => {
                steering.insert(&Key::EtherType(ethertype), Action::Dataplane)
            }
            Wanted::Everything => steering.set_default(Action::Dataplane),
        }
        .context("steering")?;
        steering.set_socket(0, socket.as_fd()).context("steering")?;
        let index = if_nametoindex(interface).with_context(|| format!("finding {interface}"))?;
        steering
            .attach(index, interface, AttachMode::Native)
            .context("attaching the XDP program")?;
        Ok(Self {
            socket,
            _steering: steering,
        })
    }
}

/// Opens queue 0 of `interface`. Retries for a while if the kernel has not released the queue yet.
pub fn open_patiently(interface: &str, slots: u32, burst: u32) -> Result<BareSocket> {
    let mut rebinds = 0;
    loop {
        match BareSocket::open(interface, slots, burst) {
            Err(error)
                if error.raw_os_error() == Some(Errno::EBUSY as i32) && rebinds < REBINDS_MAX =>
            {
                rebinds += 1;
                sleep(REBIND_PAUSE);
            }
            opened => {
                return opened
                    .with_context(|| format!("opening a bare AF_XDP socket on {interface}"));
            }
        }
    }
}
