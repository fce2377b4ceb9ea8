//! The epoch of a link: which one, in which state, and with which peer.
//!
//! The peer is known exactly while the link is up. The number of an epoch that the peer may hold is
//! never proposed again: each end of an epoch, and of an agreement on one, advances it. Ends of
//! paths begin each path behind all epochs of their node.

use super::{handshake::Handshake, wiring::Wiring};

/// Where a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// No carrier.
    Down,
    /// Carrier, and the two ends are agreeing on an epoch.
    Init,
    /// Both ends hold the same epoch.
    Up,
}

impl LinkState {
    /// `down`, `init` or `up`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Init => "init",
            Self::Up => "up",
        }
    }
}

/// The other end of the link, as its handshake reported it.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Attachment {
    /// Index of the peer.
    pub peer: usize,
    /// Index of the latches of the peer's port.
    pub set: usize,
    /// The peer's index of its port.
    pub port: u16,
    pub mac: [u8; 6],
    /// Short hash that distinguishes the name that the peer sent here.
    pub name: u16,
    /// Slots that the peer has.
    pub slots: u8,
    /// Slots that this side may use now, granted by the peer.
    pub granted: u8,
    /// Receive buffers of the peer, in records.
    pub window_records: u16,
}

/// See the module.
#[derive(Clone, Hash)]
pub(crate) struct Epochs {
    state: LinkState,
    /// The epoch in force, or proposed while in handshake.
    number: u32,
    attachment: Option<Attachment>,
    pub handshake: Handshake,
    pub wiring: Wiring,
    /// Upper half of the peer's clock, from its last keepalive in this epoch.
    pub received_era: u32,
    /// Upper half of this side's clock, from its last keepalive in this epoch; 0 is known without
    /// one.
    pub sent_era: u32,
    /// Exchanges that had ended when the epoch in force began.
    ended_before: u64,
}

impl Epochs {
    /// No carrier. The first proposal is the epoch behind `first`.
    pub const fn new(first: u32) -> Self {
        Self {
            state: LinkState::Down,
            number: first.wrapping_add(1),
            attachment: None,
            handshake: Handshake::new(),
            wiring: Wiring::new(),
            received_era: 0,
            sent_era: 0,
            ended_before: 0,
        }
    }

    #[inline]
    pub const fn state(&self) -> LinkState {
        self.state
    }

    /// The epoch in force, or proposed while in handshake.
    #[inline]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The peer, exactly while the link is up.
    #[inline]
    pub const fn attachment(&self) -> Option<Attachment> {
        self.attachment
    }

    /// The peer reports other limits.
    pub const fn attachment_mut(&mut self) -> Option<&mut Attachment> {
        self.attachment.as_mut()
    }

    /// Proposes an epoch `ahead` of the first one. Nothing was proposed yet.
    pub const fn skip(&mut self, ahead: u32) {
        self.number = self.number.wrapping_add(ahead);
    }

    /// A carrier came: the handshake begins. A returning carrier limits its own rate.
    pub const fn raise(&mut self) {
        self.state = LinkState::Init;
        self.handshake.tick();
        self.handshake.restart();
    }

    /// A path came, whose first epoch is `number`.
    pub const fn raise_at(&mut self, number: u32) {
        self.number = number;
        self.raise();
    }

    /// The carrier or the path went away during the handshake. The peer may already hold the epoch
    /// that was being agreed on.
    pub const fn abandon(&mut self) {
        self.state = LinkState::Down;
        self.number = self.number.wrapping_add(1);
    }

    /// The carrier went away after the link failed.
    pub const fn lower(&mut self) {
        self.state = LinkState::Down;
    }

    /// Starts the handshake over with a new proposal, because a peer may hold the last one.
    pub const fn renew(&mut self) {
        self.number = self.number.wrapping_add(1);
        self.handshake.restart();
    }

    /// Takes over the later proposal of the peer.
    pub const fn adopt(&mut self, number: u32) {
        self.number = number;
    }

    /// The two ends agreed with this peer. [`Self::enter`] follows.
    pub const fn attach(&mut self, attachment: Attachment) {
        self.attachment = Some(attachment);
    }

    /// The epoch begins, after as many exchanges of the link as `ended`.
    pub fn enter(&mut self, ended: u64) {
        self.state = LinkState::Up;
        self.received_era = 0;
        self.sent_era = 0;
        self.ended_before = ended;
        self.handshake.enter_epoch(self.number);
    }

    /// The epoch is about to end: [`Self::fail`] follows. Returns the peer that it was with.
    pub const fn detach(&mut self) -> Option<Attachment> {
        self.attachment.take()
    }

    /// The epoch ended. `progressed`: it was good for something.
    pub const fn fail(&mut self, progressed: bool) {
        self.state = LinkState::Init;
        self.number = self.number.wrapping_add(1);
        self.handshake.fail(progressed);
    }

    /// Records that a handshake was sent.
    pub const fn handshake_sent(&mut self) {
        self.handshake.sent(self.number);
    }

    /// Whether one of `ended` exchanges of the link ended in the epoch in force.
    pub const fn ended_any(&self, ended: u64) -> bool {
        ended > self.ended_before
    }
}

#[cfg(feature = "arbitrary-state")]
impl Epochs {
    pub(crate) fn scramble(&mut self, draw: &mut crate::draw::Draw) {
        self.number = draw.sequence();
        self.handshake.scramble(draw);
        self.wiring.scramble(draw);
    }

    /// Returns to the handshake, as if the link had never been up.
    pub(crate) const fn forget(&mut self) {
        self.state = LinkState::Init;
    }
}

#[cfg(test)]
impl Epochs {
    /// A link that is up with this peer.
    pub(crate) const fn up_with(&mut self, attachment: Attachment) {
        self.state = LinkState::Up;
        self.attachment = Some(attachment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Attachment = Attachment {
        peer: 0,
        set: 0,
        port: 0,
        mac: [0; 6],
        name: 0,
        slots: 1,
        granted: 1,
        window_records: 32,
    };

    #[test]
    fn an_epoch_that_a_peer_may_hold_is_never_proposed_again() {
        let mut epochs = Epochs::new(u32::MAX - 2);
        let mut held = epochs.number();
        let ends: [fn(&mut Epochs); 3] = [
            |epochs| epochs.abandon(),
            |epochs| epochs.renew(),
            |epochs| {
                epochs.attach(PEER);
                epochs.enter(0);
                assert!(epochs.detach().is_some());
                epochs.fail(false);
                epochs.lower();
            },
        ];
        for end in ends {
            epochs.raise();
            end(&mut epochs);
            epochs.raise();
            assert_eq!(epochs.number(), held.wrapping_add(1));
            held = epochs.number();
        }
        assert_eq!(epochs.number(), 1, "the numbers wrap");
    }

    #[test]
    fn the_peer_is_known_exactly_while_the_link_is_up() {
        let mut epochs = Epochs::new(0);
        epochs.raise();
        assert!(epochs.attachment().is_none());
        epochs.attach(PEER);
        epochs.enter(0);
        assert_eq!(epochs.state(), LinkState::Up);
        assert!(epochs.attachment().is_some());
        assert!(epochs.detach().is_some());
        epochs.fail(true);
        assert_eq!(epochs.state(), LinkState::Init);
        assert!(epochs.attachment().is_none());
    }
}
