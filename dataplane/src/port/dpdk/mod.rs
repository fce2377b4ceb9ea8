//! DPDK's poll-mode drivers: NICs that were taken from the kernel, and DPDK's virtual devices.
//!
//! ```text
//!   wire ─► device ─► rings of queues 0, 1, … ─► buffers of the receive pool ─► lane ─┐
//!                                                                                     │ forward
//!   wire ◄─ device ◄─ ring of queue 0 ◄─ staged ◄─ buffers of the transmit pool ◄─────┘
//! ```
//! A frame that is forwarded to another DPDK port keeps its buffer. Any other frame is copied.
//!
//! One port is one device. Its lane polls all its receive queues and sends on the first queue only,
//! so frames leave in order. DPDK is set up once per process, when the first such port opens.
//!
//! A device has no kernel below it: the lane receives every frame that the device receives.
//! `net_af_xdp` takes all frames from its interface, with an XDP program of DPDK's own.
//! `net_af_packet` receives copies, and the kernel gets each frame too. Drop rules are installed in
//! the device where its driver accepts them. The lane enforces all other rules.
//!
//! A driver that places packets back to back in large buffers fits in here unchanged. An example is
//! multi-packet receive, mlx5's `mprq_en=1` in the device arguments. [`super::Port::rx_burst`]
//! shows bytes and does not promise that a frame has a buffer of its own.
//!
//! Without the cargo feature `dpdk` such a port cannot be opened, and the error gives the remedy.
//!
//! Source: DPDK's programmer's guide, and its `rte_ethdev.h`.

#[cfg(not(feature = "dpdk"))]
mod absent;
// The tests of this and the other modules that call no function of DPDK run in every build.
#[cfg(any(feature = "dpdk", test))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code, reason = "tested alone"))]
mod arguments;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod driver;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod events;
#[cfg(any(feature = "dpdk", test))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code, reason = "tested alone"))]
mod nap;
mod plan;
#[cfg(any(feature = "dpdk", test))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code, reason = "tested alone"))]
mod poll_timer;
#[cfg(feature = "dpdk")]
mod pool;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod receive;
#[cfg(any(feature = "dpdk", test))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code, reason = "tested alone"))]
mod rules;
#[cfg(feature = "dpdk")]
mod shown;
#[cfg(feature = "dpdk")]
mod transmit;
#[cfg(any(feature = "dpdk", test))]
#[cfg_attr(not(feature = "dpdk"), allow(dead_code, reason = "tested alone"))]
mod xstats;

use covalent_config::{RxChecksum, TxChecksum};

pub(super) use self::plan::Plan;

#[cfg(not(feature = "dpdk"))]
pub(super) use self::absent::{check, open};
#[cfg(feature = "dpdk")]
pub(super) use self::port::{check, open};
#[cfg(feature = "dpdk")]
pub use self::{device::ring_pair, eal::version};

/// The configuration of a DPDK port.
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
