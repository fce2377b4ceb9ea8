//! Cabling faults that the handshakes on a cable reveal.

use crate::LinkRefusal;

/// Number of ports that are distinguished on one cable.
const SOURCES_MAX: usize = 4;
/// Ticks after which an echoed handshake counts as old, because its sender is not received any
/// more.
const OLD_TICKS: u8 = 2;

/// A port that sends handshakes: the GUID of its node and its number there. No node has the GUID 0.
type Source = (u64, u16);

/// The faults that were found, and for how long.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Wiring {
    refusal: Option<LinkRefusal>,
    /// Ticks since the refusal was last found.
    refusal_ticks: u32,
    /// Ticks in which each kind was found.
    counts: [u8; LinkRefusal::KINDS],
    /// Bits of the kinds that were found since the last tick.
    found_since_tick: u8,
    /// Ticks since any fault was found.
    clean_ticks: u32,
    /// A refusal began since the last tick: at most one is reported for each tick.
    reported_since_tick: bool,
    /// The received ports, from `latest` backwards.
    sources: [Source; SOURCES_MAX],
    latest: u8,
    /// Bits of the `sources` that receive this side.
    echoers: u8,
    /// Ticks since a handshake was received, up to [`OLD_TICKS`].
    silent_ticks: u8,
}

impl Wiring {
    pub const fn new() -> Self {
        Self {
            refusal: None,
            refusal_ticks: 0,
            counts: [0; LinkRefusal::KINDS],
            found_since_tick: 0,
            clean_ticks: 0,
            reported_since_tick: false,
            sources: [(0, 0); SOURCES_MAX],
            latest: 0,
            echoers: 0,
            silent_ticks: 0,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::draw::Draw) {
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
        self.refusal_ticks = draw.below(12);
        for count in &mut self.counts {
            *count = draw.below(4) as u8;
        }
        self.found_since_tick = draw.below(256) as u8;
        self.clean_ticks = draw.below(12);
        self.reported_since_tick = draw.flag();
        for source in &mut self.sources {
            if draw.below(4) == 0 {
                *source = (draw.long(), draw.below(4) as u16);
            }
        }
        self.latest = draw.below(SOURCES_MAX as u32) as u8;
        self.echoers = draw.below(1 << SOURCES_MAX) as u8;
        self.silent_ticks = draw.below(u32::from(OLD_TICKS) + 1) as u8;
    }

    /// Why the link does not come up, if it is known.
    pub const fn refusal(&self) -> Option<LinkRefusal> {
        self.refusal
    }

    /// Whether no handshake may bring the link up, from any sender: several ports are received, and
    /// more than one of them receives this side. A port that receives nothing cannot keep the link
    /// down.
    pub const fn is_shared(&self) -> bool {
        matches!(self.refusal, Some(LinkRefusal::Shared)) && self.echoers.count_ones() > 1
    }

    /// Records that a fault was found. Returns whether it has just become the reason why the link
    /// does not come up.
    pub fn find(&mut self, why: LinkRefusal) -> bool {
        let kind = why.kind();
        if self.found_since_tick & 1 << kind == 0 {
            self.found_since_tick |= 1 << kind;
            self.counts[kind] = self.counts[kind].saturating_add(1);
        }
        self.clean_ticks = 0;
        if self.refusal == Some(why) {
            self.refusal_ticks = 0;
            return false;
        }
        // Other faults on a shared cable follow from the sharing.
        if self.counts[kind] < why.ticks()
            || matches!(self.refusal, Some(LinkRefusal::Shared))
            || self.reported_since_tick
        {
            return false;
        }
        self.refusal = Some(why);
        self.refusal_ticks = 0;
        self.reported_since_tick = true;
        true
    }

    /// The peer receives this side, so both halves of the cable lead to the same port. Returns
    /// whether that ends the refusal.
    pub const fn is_not_crossed(&mut self) -> bool {
        self.counts[LinkRefusal::Crossed(0).kind()] = 0;
        let ends = matches!(self.refusal, Some(LinkRefusal::Crossed(_)));
        if ends {
            self.refusal = None;
        }
        ends
    }

    /// A handshake arrived from this port of this node. Returns whether others were received since
    /// its last one: then several ports share the cable. On a cable that was moved, one port
    /// follows the other. `echoes`: the sender receives this side.
    pub fn receive(&mut self, source: Source, echoes: bool) -> bool {
        let known = self.sources.iter().position(|known| *known == source);
        let others = known.is_some_and(|at| at != usize::from(self.latest));
        self.latest = known.unwrap_or_else(|| {
            let next = (usize::from(self.latest) + 1) % SOURCES_MAX;
            self.sources[next] = source;
            self.echoers &= !(1 << next);
            next
        }) as u8;
        self.echoers |= u8::from(echoes) << self.latest;
        others
    }

    /// A handshake was accepted as the peer's.
    pub const fn heed(&mut self) {
        self.silent_ticks = 0;
    }

    /// Whether the handshake that this side echoes was not repeated for some ticks.
    pub const fn is_echo_old(&self) -> bool {
        self.silent_ticks >= OLD_TICKS
    }

    /// The link is up. Returns whether that ends a refusal. Only the count of other received ports
    /// continues, because on a shared cable a link may come up in between.
    pub const fn is_up(&mut self) -> bool {
        let shared = LinkRefusal::Shared.kind();
        let others = self.counts[shared];
        self.counts = [0; LinkRefusal::KINDS];
        self.counts[shared] = others;
        self.silent_ticks = 0;
        self.refusal.take().is_some()
    }

    /// The carrier is gone, and with it the other end. Returns whether that ends a refusal.
    pub const fn clear(&mut self) -> bool {
        let ends = self.refusal.is_some();
        *self = Self::new();
        ends
    }

    /// Processes a tick. Returns whether that ends the refusal: it was not found for more than
    /// `ticks_max` ticks.
    pub fn tick(&mut self, ticks_max: u32) -> bool {
        self.found_since_tick = 0;
        self.reported_since_tick = false;
        if self.silent_ticks < OLD_TICKS {
            self.silent_ticks += 1;
        }
        if self.counts != [0; LinkRefusal::KINDS] {
            self.clean_ticks += 1;
            if self.clean_ticks > ticks_max {
                self.counts = [0; LinkRefusal::KINDS];
                self.clean_ticks = 0;
                self.sources = [(0, 0); SOURCES_MAX];
                self.echoers = 0;
            }
        }
        if self.refusal.is_none() {
            return false;
        }
        self.refusal_ticks += 1;
        let ends = self.refusal_ticks > ticks_max;
        if ends {
            self.refusal = None;
        }
        ends
    }
}
