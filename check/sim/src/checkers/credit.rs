//! Nothing can overflow.

use std::collections::{HashMap, HashSet};

use covalent_protocol::{ExchangeId, Mode};

use super::{Checker, Links, Scene, Verdict, forbid};
use crate::{
    book::NodeIncarnation,
    fact::Fact,
    records::{self, Content},
};

/// Number of `window_records` that messages may use. Keepalives use the rest: they carry the
/// reflection that frees the window.
const fn message_window(window_records: usize) -> usize {
    window_records * 192 / 250
}

/// The records of an epoch in flight in one direction never exceed what the receiver issued in its
/// handshakes. No message leaves when the share of messages is exceeded, however long the direction
/// stalls. No port of a peer has more requests kept than it was granted slots.
///
/// While registers are arbitrary, no node knows how many records are in flight. From convergence
/// on, every node does.
#[derive(Debug)]
pub struct Credit {
    slots: usize,
    /// Records that each node issued in its handshakes, the same at every port.
    issued: HashMap<usize, usize>,
    /// Slots of requests kept, by node, peer and the peer's port.
    kept: HashMap<(NodeIncarnation, u64, u16), HashSet<u8>>,
}

impl Credit {
    /// Links grant `slots` slots.
    #[must_use]
    pub fn new(slots: u8) -> Self {
        Self {
            slots: usize::from(slots),
            issued: HashMap::new(),
            kept: HashMap::new(),
        }
    }

    fn keep(&mut self, at: NodeIncarnation, id: &ExchangeId) -> Verdict {
        let kept = self.kept.entry((at, id.peer, id.port)).or_default();
        let taken = !kept.insert(id.slot);
        forbid(taken || kept.len() > self.slots, || {
            format!(
                "{at} keeps {id:?} beside {} others of that port, which was granted {} slots",
                kept.len(),
                self.slots
            )
        })
    }

    fn settle(&mut self, at: NodeIncarnation, id: &ExchangeId) {
        if let Some(kept) = self.kept.get_mut(&(at, id.peer, id.port)) {
            kept.remove(&id.slot);
        }
    }
}

impl Checker<Links> for Credit {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Sent {
                from,
                frame,
                in_flight,
                ..
            } => {
                let Some(content) = Content::of(frame) else {
                    return Ok(());
                };
                if let Some(issued) = records::window_records(frame) {
                    self.issued.insert(from.node, usize::from(issued));
                }
                if content.handshake || scene.book.is_unsettled() {
                    return Ok(());
                }
                let far = scene.cables[from.cable][1 - from.end];
                let window = self.issued.get(&far).copied().unwrap_or_default();
                let messages_in_flight = if content.keepalives < content.records {
                    // All of them were there when the last message was written.
                    in_flight.saturating_sub(content.keepalives)
                } else {
                    0
                };
                let most = message_window(window);
                forbid(*in_flight > window || messages_in_flight > most, || {
                    format!(
                        "{in_flight} records of epoch {} are in flight from {from}, the last {} of \
                         them keepalives; the window is {window}, and {most} before a message",
                        content.epoch, content.keepalives
                    )
                })
            }
            Fact::Admitted {
                at,
                id,
                mode: Mode::TwoPhase,
                ..
            } => self.keep(*at, id),
            Fact::Executed { at, id, .. } | Fact::Reversed { at, id, .. } => {
                self.settle(*at, id);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use covalent_protocol::{
        DEFAULT_ETHERTYPE, FRAME_BYTES_MAX,
        wire::{
            frame::FrameWriter,
            record::{Header, NO_PIGGYBACK, Shape},
            slice::Kind,
        },
    };

    use super::*;
    use crate::{book::Book, cable::FrameOutcome, fact::Place};

    fn frame(kinds: &[Kind]) -> Vec<u8> {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut writer = FrameWriter::new(&mut buffer).expect("the buffer is a frame long");
        for kind in kinds {
            let header = Header {
                kind: *kind,
                yours: 0,
                epoch: 5,
                record_sequence: 0,
                slot_sequence: 0,
                slot: 0,
                piggyback: NO_PIGGYBACK,
                clock: 0,
                shape: Shape::whole(0),
            };
            header.write(&[], writer.next_record().expect("there is room"));
        }
        let len = writer.finish([2; 6], [2; 6], DEFAULT_ETHERTYPE);
        buffer[..len].to_vec()
    }

    #[test]
    fn records_beyond_the_credit_are_found() {
        let book = Book::new(2, &[]);
        let scene = Scene {
            book: &book,
            regions: &[],
            cables: &[[0, 1]],
            call: 0,
            receiving: false,
        };
        let see = |issued: Option<usize>, kinds: &[Kind], in_flight| {
            let frame = frame(kinds);
            let fact = Fact::Sent {
                from: Place {
                    cable: 0,
                    end: 0,
                    node: 0,
                    port: 0,
                },
                frame: &frame,
                frame_outcome: FrameOutcome::InFlight,
                in_flight,
                announced: true,
            };
            let mut credit = Credit::new(1);
            credit.issued.extend(issued.map(|issued| (1, issued)));
            credit.see(&fact, &scene).is_ok()
        };
        let (request, keepalive) = (Kind::Request, Kind::Keepalive);
        for (window, messages) in [(250, 192), (32, 24)] {
            let issued = Some(window);
            assert!(see(issued, &[request], messages));
            assert!(!see(issued, &[request], messages + 1));
            // A keepalive in the same frame does not count against the share of messages.
            assert!(see(issued, &[request, keepalive], messages + 1));
            assert!(!see(issued, &[request, keepalive], messages + 2));
            assert!(!see(issued, &[keepalive, request], messages + 1));
            assert!(see(issued, &[keepalive], window));
            assert!(!see(issued, &[keepalive], window + 1));
        }
        assert!(!see(None, &[request], 1), "no credit was issued");
        assert!(see(None, &[Kind::Init], 1000), "handshakes need no credit");
    }

    #[test]
    fn more_requests_than_slots_are_found() {
        let book = Book::new(2, &[]);
        let scene = Scene {
            book: &book,
            regions: &[],
            cables: &[],
            call: 0,
            receiving: true,
        };
        let mut credit = Credit::new(1);
        let at = book.node_incarnation(1);
        let id = |slot| ExchangeId {
            peer: 1,
            port: 0,
            epoch: 0,
            slot,
            sequence: 0,
        };
        let mut admit = |slot| {
            credit.see(
                &Fact::Admitted {
                    at,
                    id: &id(slot),
                    mode: Mode::TwoPhase,
                    payload: &[],
                    wrote: false,
                },
                &scene,
            )
        };
        assert_eq!(admit(0), Ok(()));
        assert!(admit(0).is_err(), "a slot keeps one request");
        assert!(admit(1).is_err(), "there is one slot");
    }
}
