//! What is in a frame, as far as figures and the trace tell frames apart.

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    channel::note::PassHead,
    tree::note::{NOTE_BYTES_MAX, Note},
    wire::{frame, message::Message, slice::Kind},
};

/// What is in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Which.
    pub kind: FrameKind,
    /// In how many records.
    pub records: usize,
    /// Adverts of a root.
    pub adverts: u64,
    /// Requests that the listener come nearer to a root.
    pub seeks: u64,
    /// Denials of such requests.
    pub denials: u64,
}

impl Content {
    /// What is in a frame that a node gave out.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        let mut rest = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap_or_default();
        let mut this = Self {
            kind: FrameKind::Ball,
            records: rest.len(),
            adverts: 0,
            seeks: 0,
            denials: 0,
        };
        while !rest.is_empty()
            && let Ok((message, behind)) = Message::split(rest)
        {
            let kind = match message.header.kind {
                Kind::Init => FrameKind::Handshake,
                Kind::Ball => FrameKind::Ball,
                Kind::Resolve | Kind::Resolved | Kind::Relay | Kind::Relayed => FrameKind::Question,
                Kind::Note => this.note(&message),
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
        each_note(frame, |note| {
            if let Note::Advert(items) = note {
                items.for_each(|item| each(item.root));
            }
        });
    }

    /// Calls `each` with every root of whose tree a frame says something that may change it, by its GUID.
    pub(super) fn each_root(frame: &[u8], mut each: impl FnMut(u64)) {
        each_note(frame, |note| match note {
            Note::Advert(items) | Note::Seek(items) => items.for_each(|item| each(item.root)),
            Note::Denied(roots) => roots.for_each(&mut each),
            Note::Digest(_) | Note::Tell(_) | Note::Called(_) => {}
        });
    }

    fn note(&mut self, message: &Message<'_>) -> FrameKind {
        let mut space = [0; NOTE_BYTES_MAX];
        match message.copy_payload(&mut space).map(Note::read) {
            Some(Ok(Note::Seek(items))) => {
                self.seeks += items.count() as u64;
                FrameKind::Seek
            }
            Some(Ok(Note::Denied(roots))) => {
                self.denials += roots.count() as u64;
                FrameKind::Denied
            }
            Some(Ok(Note::Advert(items))) => {
                self.adverts += items.count() as u64;
                FrameKind::Advert
            }
            // It goes with each pace beside the ball, and says nothing new.
            Some(Ok(Note::Digest(_))) => FrameKind::Ball,
            _ => FrameKind::Called,
        }
    }
}

fn each_note(frame: &[u8], mut each: impl FnMut(Note<'_>)) {
    let mut rest = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap_or_default();
    let mut space = [0; NOTE_BYTES_MAX];
    while !rest.is_empty()
        && let Ok((message, behind)) = Message::split(rest)
    {
        if message.header.kind == Kind::Note
            && let Some(Ok(note)) = message.copy_payload(&mut space).map(Note::read)
        {
            each(note);
        }
        rest = behind;
    }
}

/// What passes, of a path that is as quiet as a cable: balls alone count as balls.
fn passed(message: &Message<'_>) -> FrameKind {
    let mut space = [0; NOTE_BYTES_MAX];
    let payload = message.copy_payload(&mut space).unwrap_or_default();
    let split = PassHead::split(payload).filter(|_| message.header.shape.is_whole());
    let mut rest = split.map_or(&[][..], |(_, records)| records.as_chunks().0);
    let mut kind = FrameKind::Ball;
    if rest.is_empty() {
        return FrameKind::Exchange;
    }
    while !rest.is_empty()
        && let Ok((message, behind)) = Message::split(rest)
    {
        kind = kind.max(match message.header.kind {
            Kind::Ball => FrameKind::Ball,
            Kind::Init => FrameKind::Handshake,
            Kind::Resolve | Kind::Resolved => FrameKind::Question,
            _ => FrameKind::Exchange,
        });
        rest = behind;
    }
    kind
}

/// What is in a frame. If several things are, the one that stands last here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Nothing but balls, and digests beside them.
    Ball,
    /// A handshake.
    Handshake,
    /// Requests and their answers.
    Exchange,
    /// Questions about exchanges of failed links, and their answers.
    Question,
    /// What roots are called, and of channels.
    Called,
    /// How near the speaker is to roots.
    Advert,
    /// That the speaker does not come nearer.
    Denied,
    /// That the listener come nearer.
    Seek,
}

impl FrameKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Ball,
        Self::Handshake,
        Self::Exchange,
        Self::Question,
        Self::Called,
        Self::Advert,
        Self::Denied,
        Self::Seek,
    ];

    /// Its name, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ball => "ball",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
            Self::Question => "question",
            Self::Called => "called",
            Self::Advert => "advert",
            Self::Denied => "denied",
            Self::Seek => "seek",
        }
    }
}
