//! What the handshakes on a cable show of how it is laid.

use crate::LinkRefusal;

/// Ports that are told from each other on one cable.
const SOURCES_MAX: usize = 4;
/// Paces after which what is echoed counts as old: whoever said it is not heard any more.
const OLD_PACES: u8 = 2;

/// A port that says handshakes: the GUID of its node and its number there. Nobody has the GUID 0.
type Source = (u64, u16);

/// What was found wrong, and for how long.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Wiring {
    refusal: Option<LinkRefusal>,
    /// Paces since the refusal was found last.
    refusal_paces: u32,
    /// Paces in which each kind was found.
    counts: [u8; LinkRefusal::KINDS],
    /// Bits of the kinds that were found since the last tick.
    found_since_tick: u8,
    /// Paces since anything was found.
    quiet_paces: u32,
    /// A refusal began since the last tick: no more are told than there are paces.
    told_since_tick: bool,
    /// Who was heard, from `latest` backwards.
    sources: [Source; SOURCES_MAX],
    latest: u8,
    /// Bits of those in `sources` that hear this side.
    echoers: u8,
    /// Paces since a handshake was heard, up to [`OLD_PACES`].
    unheard_paces: u8,
}

impl Wiring {
    pub const fn new() -> Self {
        Self {
            refusal: None,
            refusal_paces: 0,
            counts: [0; LinkRefusal::KINDS],
            found_since_tick: 0,
            quiet_paces: 0,
            told_since_tick: false,
            sources: [(0, 0); SOURCES_MAX],
            latest: 0,
            echoers: 0,
            unheard_paces: 0,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::node::arbitrary::Draw) {
        let number = draw.below(1 << 16) as u16;
        let guid = draw.long();
        self.refusal = match draw.below(16) {
            0 => Some(LinkRefusal::OwnPort(number)),
            1 => Some(LinkRefusal::OwnGuid),
            2 => Some(LinkRefusal::TwinGuid(guid)),
            3 => Some(LinkRefusal::Version(number as u8)),
            4 => Some(LinkRefusal::Crossed(guid)),
            5 | 6 => Some(LinkRefusal::Shared),
            7 => Some(LinkRefusal::NoRoom),
            _ => None,
        };
        self.refusal_paces = draw.below(12);
        for count in &mut self.counts {
            *count = draw.below(4) as u8;
        }
        self.found_since_tick = draw.below(256) as u8;
        self.quiet_paces = draw.below(12);
        self.told_since_tick = draw.flag();
        for source in &mut self.sources {
            if draw.below(4) == 0 {
                *source = (draw.long(), draw.below(4) as u16);
            }
        }
        self.latest = draw.below(SOURCES_MAX as u32) as u8;
        self.echoers = draw.below(1 << SOURCES_MAX) as u8;
        self.unheard_paces = draw.below(u32::from(OLD_PACES) + 1) as u8;
    }

    /// Why the link does not come up, if it is known.
    pub const fn refusal(&self) -> Option<LinkRefusal> {
        self.refusal
    }

    /// Whether no handshake may bring the link up, whoever says it: several ports are heard, and
    /// more than one of them hears this side. Who is heard and hears nothing keeps no link from
    /// coming up.
    pub const fn is_shared(&self) -> bool {
        matches!(self.refusal, Some(LinkRefusal::Shared)) && self.echoers.count_ones() > 1
    }

    /// This was found. Tells whether it is now the reason for which the link does not come up, and was not before.
    pub fn find(&mut self, why: LinkRefusal) -> bool {
        let kind = why.kind();
        if self.found_since_tick & 1 << kind == 0 {
            self.found_since_tick |= 1 << kind;
            self.counts[kind] = self.counts[kind].saturating_add(1);
        }
        self.quiet_paces = 0;
        if self.refusal == Some(why) {
            self.refusal_paces = 0;
            return false;
        }
        // What else is found on a cable that several share follows from that.
        if self.counts[kind] < why.paces()
            || matches!(self.refusal, Some(LinkRefusal::Shared))
            || self.told_since_tick
        {
            return false;
        }
        self.refusal = Some(why);
        self.refusal_paces = 0;
        self.told_since_tick = true;
        true
    }

    /// The peer hears this side, so the two halves of the cable are one. Tells whether that ends the refusal.
    pub const fn is_not_crossed(&mut self) -> bool {
        self.counts[LinkRefusal::Crossed(0).kind()] = 0;
        let ends = matches!(self.refusal, Some(LinkRefusal::Crossed(_)));
        if ends {
            self.refusal = None;
        }
        ends
    }

    /// A handshake came from this port of this node. Tells whether others were heard since the last
    /// one of it: then there is more than one on this cable, while a cable that was moved has one
    /// after the other. `hears` says whether it hears this side.
    pub fn hear(&mut self, source: Source, hears: bool) -> bool {
        let known = self.sources.iter().position(|known| *known == source);
        let others = known.is_some_and(|at| at != usize::from(self.latest));
        self.latest = known.unwrap_or_else(|| {
            let next = (usize::from(self.latest) + 1) % SOURCES_MAX;
            self.sources[next] = source;
            self.echoers &= !(1 << next);
            next
        }) as u8;
        self.echoers |= u8::from(hears) << self.latest;
        others
    }

    /// What a handshake said was taken for the peer's.
    pub const fn heed(&mut self) {
        self.unheard_paces = 0;
    }

    /// Whether what this side echoes was not said again for some paces.
    pub const fn is_echo_old(&self) -> bool {
        self.unheard_paces >= OLD_PACES
    }

    /// The link is up. Tells whether that ends a refusal. Only that others were heard counts on: on a cable that several share a link comes
    /// up between.
    pub const fn is_up(&mut self) -> bool {
        let shared = LinkRefusal::Shared.kind();
        let others = self.counts[shared];
        self.counts = [0; LinkRefusal::KINDS];
        self.counts[shared] = others;
        self.unheard_paces = 0;
        self.refusal.take().is_some()
    }

    /// The carrier is gone, and with it whoever was there. Tells whether that ends a refusal.
    pub const fn clear(&mut self) -> bool {
        let ends = self.refusal.is_some();
        *self = Self::new();
        ends
    }

    /// A pace passed. Tells whether that ends the refusal: it was not found for more than `paces_max` paces.
    pub fn tick(&mut self, paces_max: u32) -> bool {
        self.found_since_tick = 0;
        self.told_since_tick = false;
        if self.unheard_paces < OLD_PACES {
            self.unheard_paces += 1;
        }
        if self.counts != [0; LinkRefusal::KINDS] {
            self.quiet_paces += 1;
            if self.quiet_paces > paces_max {
                self.counts = [0; LinkRefusal::KINDS];
                self.quiet_paces = 0;
                self.sources = [(0, 0); SOURCES_MAX];
                self.echoers = 0;
            }
        }
        if self.refusal.is_none() {
            return false;
        }
        self.refusal_paces += 1;
        let ends = self.refusal_paces > paces_max;
        if ends {
            self.refusal = None;
        }
        ends
    }
}
