//! What is in a frame, as far as figures and the trace tell frames apart.

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    wire::{frame, message::Message, slice::Kind},
};

/// What is in a frame. If several things are, the one that stands last here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Nothing but balls.
    Ball,
    /// A handshake.
    Handshake,
    /// Requests and their answers.
    Exchange,
    /// Questions about exchanges of failed links, and their answers.
    Question,
}

impl FrameKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ball, Self::Handshake, Self::Exchange, Self::Question];

    /// Its name, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ball => "ball",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
            Self::Question => "question",
        }
    }

    /// What is in a frame that a node gave out, and in how many records.
    #[must_use]
    pub fn of(frame: &[u8]) -> (Self, usize) {
        let records = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap_or_default();
        let mut rest = records;
        let mut kind = Self::Ball;
        while let Ok((message, behind)) = Message::split(rest) {
            kind = kind.max(match message.header.kind {
                Kind::Init => Self::Handshake,
                Kind::Ball => Self::Ball,
                Kind::Resolve | Kind::Resolved | Kind::Relay | Kind::Relayed => Self::Question,
                _ => Self::Exchange,
            });
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        (kind, records.len())
    }
}
