//! Contents of a frame, as far as figures and the trace distinguish them.

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    channel::note::PassHead,
    tree::note::{CONTROL_MESSAGE_BYTES_MAX, ControlMessage},
    wire::{frame, message::Message, slice::Kind},
};

/// Contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Which.
    pub kind: FrameKind,
    /// In how many records.
    pub records: usize,
    /// Adverts of a root.
    pub adverts: u64,
    /// Requests that the listener come nearer to a root.
    pub searches: u64,
    /// Denials of such requests.
    pub denials: u64,
}

impl Content {
    /// Classifies a frame that a node sent.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        let mut rest = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap_or_default();
        let mut this = Self {
            kind: FrameKind::Keepalive,
            records: rest.len(),
            adverts: 0,
            searches: 0,
            denials: 0,
        };
        while !rest.is_empty()
            && let Ok((message, behind)) = Message::split(rest)
        {
            let kind = match message.header.kind {
                Kind::Init => FrameKind::Handshake,
                Kind::Keepalive => FrameKind::Keepalive,
                Kind::Resolve | Kind::Resolved | Kind::Relay | Kind::Relayed => FrameKind::Question,
                Kind::ControlMessage => this.note(&message),
                Kind::Pass => passed(&message),
                _ => FrameKind::Exchange,
            };
            this.kind = this.kind.max(kind);
            rest = behind;
        }
        this
    }

    /// Calls `each` with every root that a frame has an advert of, by its GUID.
    pub(super) fn each_advert(frame: &[u8], mut each: impl FnMut(u64)) {
        each_control_message(frame, |note| {
            if let ControlMessage::Advert(items) = note {
                items.for_each(|item| each(item.root));
            }
        });
    }

    /// Calls `each` with the GUID of every root whose tree a frame may change.
    pub(super) fn each_root(frame: &[u8], mut each: impl FnMut(u64)) {
        each_control_message(frame, |note| match note {
            ControlMessage::Advert(items) | ControlMessage::Search(items) => {
                items.for_each(|item| each(item.root))
            }
            ControlMessage::Denied(roots) => roots.for_each(&mut each),
            ControlMessage::Digest(_) | ControlMessage::Resync(_) | ControlMessage::Called(_) => {}
        });
    }

    fn note(&mut self, message: &Message<'_>) -> FrameKind {
        let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
        match message.copy_payload(&mut space).map(ControlMessage::read) {
            Some(Ok(ControlMessage::Search(items))) => {
                self.searches += items.count() as u64;
                FrameKind::Search
            }
            Some(Ok(ControlMessage::Denied(roots))) => {
                self.denials += roots.count() as u64;
                FrameKind::Denied
            }
            Some(Ok(ControlMessage::Advert(items))) => {
                self.adverts += items.count() as u64;
                FrameKind::Advert
            }
            // It accompanies the keepalive of each tick and carries no news.
            Some(Ok(ControlMessage::Digest(_))) => FrameKind::Keepalive,
            _ => FrameKind::Called,
        }
    }
}

fn each_control_message(frame: &[u8], mut each: impl FnMut(ControlMessage<'_>)) {
    let mut rest = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap_or_default();
    let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
    while !rest.is_empty()
        && let Ok((message, behind)) = Message::split(rest)
    {
        if message.header.kind == Kind::ControlMessage
            && let Some(Ok(note)) = message.copy_payload(&mut space).map(ControlMessage::read)
        {
            each(note);
        }
        rest = behind;
    }
}

/// Classifies a forwarded frame. Keepalives alone count as keepalives, so that an idle path is as
/// quiet as a cable.
fn passed(message: &Message<'_>) -> FrameKind {
    let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
    let payload = message.copy_payload(&mut space).unwrap_or_default();
    let split = PassHead::split(payload).filter(|_| message.header.shape.is_whole());
    let mut rest = split.map_or(&[][..], |(_, records)| records.as_chunks().0);
    let mut kind = FrameKind::Keepalive;
    if rest.is_empty() {
        return FrameKind::Exchange;
    }
    while !rest.is_empty()
        && let Ok((message, behind)) = Message::split(rest)
    {
        kind = kind.max(match message.header.kind {
            Kind::Keepalive => FrameKind::Keepalive,
            Kind::Init => FrameKind::Handshake,
            Kind::Resolve | Kind::Resolved => FrameKind::Question,
            _ => FrameKind::Exchange,
        });
        rest = behind;
    }
    kind
}

/// Kind of a frame. A frame with several kinds counts as the last of them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Only keepalives, and digests with them.
    Keepalive,
    /// A handshake.
    Handshake,
    /// Requests and their answers.
    Exchange,
    /// Questions about exchanges of failed links, and their answers.
    Question,
    /// Names of roots, and control messages of channels.
    Called,
    /// How near the speaker is to roots.
    Advert,
    /// That the speaker does not come nearer.
    Denied,
    /// That the listener come nearer.
    Search,
}

impl FrameKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Keepalive,
        Self::Handshake,
        Self::Exchange,
        Self::Question,
        Self::Called,
        Self::Advert,
        Self::Denied,
        Self::Search,
    ];

    /// Its name, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keepalive => "keepalive",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
            Self::Question => "question",
            Self::Called => "called",
            Self::Advert => "advert",
            Self::Denied => "denied",
            Self::Search => "search",
        }
    }
}
