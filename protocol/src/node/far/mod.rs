//! Exchanges with nodes beyond the neighbors.
//!
//! A path is used like a cable. At each of its ends there is a link of this node on a *virtual
//! port*, with a number from [`PATH_PORTS`] on. It has the same handshake, reflection, slots,
//! latches and resolution as any other link. Its frames pass over the [channels](crate::channel)
//! that the path reserved; the nodes between keep no state of an exchange. A committed exchange was
//! thus committed by the far end itself. When a hop fails, the link fails, as on a cable: open
//! exchanges are queried over another path, or the caller receives that they are in doubt.
//!
//! | file | content |
//! |---|---|
//! | `want` | which paths are requested, and over which neighbor |
//! | `receive` | control messages about channels, and path frames, from neighbors |
//! | `send` | outgoing control messages about channels, and path frames |
//! | `end` | the end of a path, as a link |
//! | `tick` | work at each tick |
//! | `view` | public views of paths |

mod end;
mod receive;
mod send;
mod tick;
mod view;
mod want;

pub use self::view::PathView;
use super::{Node, PATH_PORTS, relay::Relays};
use crate::{
    channel::note::PASS_HEAD_BYTES,
    link::Link,
    wire::{FRAME_RECORDS_MAX, RECORD_BYTES},
};

/// Exchanges that each end may have open on a path.
const PATH_SLOTS: u8 = 8;
/// Latch sets of each path: one for the peer at its other end now, the others for peers of any
/// earlier path.
pub(super) const SETS_PER_PATH: usize = 4;
/// Most records in flight on a path in each direction while no handshakes are in flight.
pub(super) const PATH_WINDOW_RECORDS: u16 = 32;
/// The address that both ends of a path give to it. No frame on a cable has it.
const PATH_MAC: [u8; 6] = [0x02, 0xc0, 0x7a, 0x1e, 0x00, 0x00];
/// Longest payload that a message has for the sake of a path, in bytes.
pub(super) const PASS_BYTES_MAX: usize = PASS_HEAD_BYTES + FRAME_RECORDS_MAX * RECORD_BYTES;

/// The end of a path, or none.
#[derive(Debug, Clone, Copy, Default, Hash)]
pub(super) struct End {
    /// The node at the other end; 0 for none.
    far: u64,
    /// Ticks since the request, until the link is up; then ticks since an exchange was last in
    /// flight.
    ticks: u32,
    /// Exchanges that had ended at the last tick.
    ended: u64,
    /// The tick at which it had its last path.
    freed: u64,
    /// A node on the route has no resources for others while the path exists.
    wanted: bool,
}

#[cfg(feature = "arbitrary-state")]
impl End {
    pub(super) fn scramble(&mut self, draw: &mut crate::draw::Draw, peers: &[crate::peer::Peer]) {
        if draw.flag() {
            return;
        }
        let peer = draw.below(peers.len() as u32 + 1) as usize;
        *self = Self {
            far: peers.get(peer).map_or(0, |peer| peer.guid),
            ticks: draw.below(60),
            ended: draw.long(),
            freed: draw.long(),
            wanted: draw.flag(),
        };
    }
}

impl Node {
    /// Makes the links of the ends of paths.
    pub(super) fn add_paths(&mut self) {
        let ends = self.fabric.as_ref().map_or(0, |fabric| fabric.ends.len());
        let answer_bytes_max =
            usize::from(self.config.message_bytes_max) + super::resolve::ANSWER_BYTES;
        for end in 0..ends as u16 {
            let mut link = Link::new(
                PATH_PORTS + end,
                PATH_MAC,
                PATH_SLOTS.min(self.config.slots),
                answer_bytes_max,
                self.config.first_sequence,
            );
            link.inbound.set_window(PATH_WINDOW_RECORDS);
            self.make_link(link, Relays::new(0), SETS_PER_PATH);
        }
        self.path_links = ends;
    }

    /// Whether a link is the end of a path.
    #[inline]
    pub(super) const fn is_path(&self, at: usize) -> bool {
        at < self.path_links
    }
}
