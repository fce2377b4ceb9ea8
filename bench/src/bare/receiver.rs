//! A bare socket with the XDP program in front of it.

use std::{os::fd::AsFd, thread::sleep, time::Duration};

use anyhow::{Context, Result};
use covalent_ebpf::{Action, AttachMode, Key, Steering};
use nix::{errno::Errno, net::if_::if_nametoindex};

use super::BareSocket;

/// How long to wait before a queue that is busy is asked for again: the side measured before closed its socket, but the kernel lets go of it later.
const REBIND_PAUSE: Duration = Duration::from_millis(100);

/// How often it is asked for again, as our own port does.
const REBINDS_MAX: u32 = 10;

/// Which frames a socket receives; the kernel gets the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those of one EtherType.
    EtherType(u16),
    /// All.
    Everything,
}

/// A socket that receives the frames that are wanted.
#[derive(Debug)]
pub struct Steered {
    /// The socket.
    pub socket: BareSocket,
    // Detaches when dropped.
    _steering: Steering,
}

impl Steered {
    /// Opens queue 0 of `interface` in the calling thread's namespace for the frames that are `wanted`.
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

/// Opens queue 0 of `interface`, trying again for a while if the kernel has not let go of it yet.
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
