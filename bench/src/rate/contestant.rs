//! The contestants.

use anyhow::Result;

use super::{
    bare,
    dpdk::Driver,
    lane::{self, Running},
    packet_ring,
    results::Results,
    turn::{BURST, Slice, Turn},
};
use crate::{
    against::{self, Candidate},
    bare::packet_ring as ring,
    host::Host,
    kept::Kept as _,
    report::Description,
};

/// The contestant that the goals apply to.
pub const OURS: &str = "covalent-port";

/// The reference of the goals.
pub const BARE: &str = "af_xdp";

/// The same, with coalescing.
pub const BARE_GATHERING: &str = "af_xdp-gathering";

/// Default budget of a busy poll of DPDK's driver.
const BUSY_BUDGET: u32 = 64;

/// All contestants, in the order of the output.
pub const ALL: [Contestant; 8] = [
    Contestant::Lane,
    Contestant::Bare,
    Contestant::BareGathering,
    Contestant::Dpdk(Driver::Xdp),
    Contestant::Dpdk(Driver::XdpLooking),
    Contestant::Dpdk(Driver::XdpBusyPoll(BUSY_BUDGET)),
    Contestant::PacketRing,
    Contestant::Dpdk(Driver::Packet),
];

/// Returns the contestants that `--against` names, and ours.
///
/// # Errors
/// No contestant has a given name.
pub fn chosen(wanted: &[String]) -> Result<Vec<Contestant>> {
    let candidates = ALL.map(|contestant| Candidate {
        name: contestant.name(),
        is_ours: contestant == Contestant::Lane,
    });
    let names = against::chosen(wanted, Results::NAME, &candidates)?;
    Ok(ALL
        .into_iter()
        .filter(|contestant| names.contains(&contestant.name()))
        .collect())
}

/// One way of receiving from a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contestant {
    /// `covalentd` and an application.
    Lane,
    /// An AF_XDP socket and nothing around it.
    Bare,
    /// The same, with a pause between two polls to coalesce frames.
    BareGathering,
    /// DPDK.
    Dpdk(Driver),
    /// A kernel `AF_PACKET` ring.
    PacketRing,
}

impl Contestant {
    /// Returns its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => OURS,
            Self::Bare => BARE,
            Self::BareGathering => BARE_GATHERING,
            Self::Dpdk(driver) => driver.name(),
            Self::PacketRing => "af_packet",
        }
    }

    /// Returns its description, or the reason why it cannot take part.
    pub fn describe(self, turn: &Turn<'_>) -> Result<Description> {
        let slots = turn.ring_slots;
        let of_this_program = |what: &str, tuning: String| Description {
            what: what.to_owned(),
            version: concat!("covalent-bench ", env!("CARGO_PKG_VERSION")).to_owned(),
            tuning,
            commands: Vec::new(),
        };
        match self {
            Self::Dpdk(driver) => driver.describe(turn),
            Self::Lane => Ok(of_this_program(
                "a lane of covalentd copies each frame into a pipe, and an application looks at a \
                 byte of it there",
                format!(
                    "rings of {slots} descriptors, bursts of {BURST}, lane polling; pipe of {} \
                     KiB, bound to every frame and emptied each {} ms",
                    lane::PIPE_BYTES >> 10,
                    lane::APPLICATION_INTERVAL.as_millis()
                ),
            )),
            Self::Bare => Ok(of_this_program(
                "an AF_XDP socket that counts descriptors, gives the chunks back and looks at no \
                 frame; covalentd's XDP program before it",
                format!("rings of {slots} descriptors, bursts of {BURST}, polling without a pause"),
            )),
            Self::BareGathering => Ok(of_this_program(
                "the same, which looks at its ring no sooner than some time after it found frames, \
                 as a lane does in a stream",
                format!(
                    "rings of {slots} descriptors, bursts of {BURST}, polling, {} µs between two \
                     looks",
                    bare::COALESCE.as_micros()
                ),
            )),
            Self::PacketRing => Ok(Description {
                version: format!("Linux {}", Host::observed().kernel),
                ..of_this_program(
                    "a TPACKET_V3 ring of a kernel AF_PACKET socket, without an XDP program: the \
                     kernel copies each frame into the ring and \
                     then drops it in its network stack; the receiver walks over the headers and \
                     looks at no frame",
                    format!(
                        "ring of {} KiB in blocks of {} KiB, handed over when full or after {} ms, \
                         polling",
                        packet_ring::ring_bytes(slots) >> 10,
                        ring::BLOCK_BYTES >> 10,
                        ring::BLOCK_PATIENCE_MS
                    ),
                )
            }),
        }
    }

    /// One slice, and how the daemon ran in it if that took part.
    pub fn slice(self, turn: &Turn<'_>) -> Result<(Slice, Option<Running>)> {
        Ok(match self {
            Self::Lane => {
                let (slice, running) = lane::slice(turn)?;
                (slice, Some(running))
            }
            Self::Bare => (bare::slice(turn, None)?, None),
            Self::BareGathering => (bare::slice(turn, Some(bare::COALESCE))?, None),
            Self::Dpdk(driver) => (driver.slice(turn)?, None),
            Self::PacketRing => (packet_ring::slice(turn)?, None),
        })
    }
}
