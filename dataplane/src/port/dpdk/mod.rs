//! DPDK's poll-mode drivers: NICs that were taken from the kernel, and DPDK's virtual devices.
//!
//! ```text
//!   wire ─► device ─► rings of queues 0, 1, … ─► buffers of the receive pool ─► lane ─┐ a frame that goes on to another DPDK port
//!                                                                                      │ keeps its buffer, any other is copied
//!   wire ◄─ device ◄─ ring of queue 0 ◄─ staged ◄─ buffers of the transmit pool ◄──────┘
//! ```
//! One port is one device; its lane polls all its receive queues and sends on the first queue alone, so frames leave in order. DPDK is set up once
//! for the process, when the first such port is opened.
//!
//! A device has no kernel below: every frame that it receives comes up. `net_af_xdp` takes them all from its interface, with an XDP program
//! of DPDK's own; `net_af_packet` receives copies, and the kernel has each frame as well. Rules that drop are given to the device where its driver takes
//! them; all others hold in the lane.
//!
//! A driver that places packets back to back in large buffers (multi-packet receive, for example mlx5's `mprq_en=1` behind the device's commas) fits in here
//! as it is: [`super::Port::rx_burst`] shows bytes, and nothing in it says that a frame has a buffer of its own.
//!
//! Without the cargo feature `dpdk` such a port cannot be opened, and the error says how to get the rest.
//!
//! Source: DPDK's programmer's guide, and its `rte_ethdev.h`.

#[cfg(not(feature = "dpdk"))]
mod absent;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod driver;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod events;
#[cfg(feature = "dpdk")]
mod look;
#[cfg(feature = "dpdk")]
mod nap;
mod plan;
#[cfg(feature = "dpdk")]
mod pool;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod receive;
#[cfg(feature = "dpdk")]
mod rules;
#[cfg(feature = "dpdk")]
mod shown;
#[cfg(feature = "dpdk")]
mod transmit;
#[cfg(feature = "dpdk")]
mod xstats;

use covalent_api::config::{RxChecksum, TxChecksum};

pub(super) use self::plan::Plan;

#[cfg(not(feature = "dpdk"))]
pub(super) use self::absent::{check, open};
#[cfg(feature = "dpdk")]
pub(super) use self::port::{check, open};
#[cfg(feature = "dpdk")]
pub use self::{device::ring_pair, eal::version};

/// What a DPDK port is configured to be.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "dpdk"),
    expect(dead_code, reason = "a build without DPDK only names the port")
)]
pub(super) struct Wanted<'a> {
    pub(super) port: &'a str,
    pub(super) device: &'a str,
    /// The interface of the kernel that the device sits on.
    pub(super) interface: Option<&'a str>,
    pub(super) queues: u32,
    pub(super) ring_slots: u32,
    pub(super) rx_checksum: RxChecksum,
    pub(super) tx_checksum: TxChecksum,
}
