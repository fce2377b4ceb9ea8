//! Time, and what happens in it.
//!
//! Time counts in units: a round trip of a link takes [`ROUND_TRIP_UNITS`]. There is no other
//! clock.

/// Units that a frame is in flight on a cable without jitter.
pub const FRAME_UNITS: u64 = 16;
/// Units of one round trip of a link: a node replies in the unit in which it receives.
pub const ROUND_TRIP_UNITS: u64 = 2 * FRAME_UNITS;

/// One thing that is going to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The oldest frame in flight to an end of a cable arrives.
    Arrive {
        /// The cable.
        cable: u16,
        /// The receiving end.
        end: u8,
    },
    /// A node ticks.
    Tick {
        /// The node.
        node: u16,
    },
    /// A node may have received nothing for a while.
    Quiet {
        /// The node.
        node: u16,
    },
    /// The fault with this number of the plan happens.
    Fault(u32),
    /// Nodes submit requests.
    Submit,
    /// The tree of a root is checked.
    Sample,
    /// The oldest frame in flight on the liar's cable arrives.
    ArriveBeside {
        /// Whether the liar receives it.
        at_liar: bool,
    },
    /// The liar ticks.
    TickBeside,
    /// The liar sends something.
    Lie,
}
