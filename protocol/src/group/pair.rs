//! One other member: envelopes between two incarnations, numbered in each direction across all
//! views.
//!
//! Concurrent `send` verbs are unordered, so the receiver buffers early envelopes. The outcome of
//! an envelope may be unknown, so the receiver drops duplicates. At most [`WINDOW`] envelopes in
//! one direction are in flight and not yet taken.

use alloc::vec::Vec;

use super::{End, contact::Contact, token::Token, wire::BadEnvelope};
use crate::verb::SEND_BYTES_MAX;

/// Most envelopes in flight to one member that it has not taken.
pub const WINDOW: usize = 8;
/// Of these, most that carry a batch or a piece of state. The rest is reserved for changes.
pub const WINDOW_BULK: usize = 6;
/// So many taken envelopes of a member are news for it.
const TAKEN_IS_NEWS: u64 = WINDOW as u64 / 2;

/// One other member, or one that will be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The member's contact.
    pub contact: Contact,
    /// Its rank in the view, if it is in it.
    pub rank: Option<usize>,
    /// The first view with both members. Envelopes of an earlier view belong to an earlier pair.
    pub since: u64,
    /// A former member: it still needs the end of the view.
    pub leftover: bool,
    /// It does not return with this incarnation.
    pub gone: bool,
    /// No path leads to its node.
    pub lost: bool,
    /// The application suspects it. It is reachable and still receives envelopes.
    pub suspected: bool,
    /// The token to present to it. Without a token, only a challenge is sent to it.
    pub token: Token,
    /// It is to be challenged, if its token is not known.
    challenge_is_due: bool,

    /// Number of the next envelope to it, from 1.
    next: u64,
    /// Envelopes to it that ended and were taken, without a gap.
    settled: u64,
    /// Envelopes that it has taken.
    acknowledged: u64,
    /// Those after `settled`, by number.
    sent: [Sent; WINDOW],

    /// Its envelopes that were taken.
    taken: u64,
    /// Number of its taken envelopes, as last reported to it.
    reported: u64,
    /// Its envelopes that were not taken, by number.
    early: [Vec<u8>; WINDOW],

    /// Own rounds that were sent to it in this view.
    pub sent_rounds: u64,
    /// The own row grew since it was sent to it.
    pub row_is_news: bool,
    /// The state of the end of the view grew since it was sent to it.
    pub change_is_news: bool,
    /// The end of the last view must be sent to it before anything else.
    pub owes_end: bool,
    /// The view must be sent to it first.
    pub owes_welcome: bool,
    /// Only keepalives were sent to it since the last tick.
    pub idle: bool,
    /// An unordered envelope must be sent to it.
    pub keepalive_is_due: bool,
    /// An unordered envelope is in flight.
    keepalive_in_flight: bool,
    /// The last one perhaps did not arrive.
    keepalive_is_lost: bool,
}

/// Content of an envelope, which is sent again if the envelope did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Content {
    /// A row.
    #[default]
    Row,
    /// The batch of this round.
    Batch(u64),
    /// The state of the view's end.
    Change,
    /// How the view ended.
    End,
    /// The view, for a member that joined.
    Welcome,
    /// A piece of state, by its place.
    State(usize),
}

/// A sent envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sent {
    /// Its content.
    pub content: Content,
    /// The view in which it was sent.
    pub view: u64,
    /// Own rounds sent up to and including this envelope.
    pub rounds: u64,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Progress {
    /// It ended, and is in the queue.
    #[default]
    Arrived,
    InFlight,
    /// To be sent again.
    Resend,
    /// To be sent again after the next tick.
    Refused,
}

/// Position of a received envelope in the pair's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It was received before.
    Duplicate,
    /// It is the next one.
    Next,
    /// Others come first.
    Early,
}

impl Pair {
    /// A free pair with buffers for early envelopes.
    pub fn with_room() -> Self {
        Self {
            early: [(); WINDOW].map(|()| Vec::with_capacity(SEND_BYTES_MAX)),
            ..Self::without_room()
        }
    }

    /// Whether the pair is free.
    pub fn is_free(&self) -> bool {
        self.contact == Contact::default()
    }

    /// Assigns the pair to `contact`, from the view `since` on.
    pub fn begin(&mut self, contact: Contact, since: u64, lost: bool) {
        self.free();
        (self.contact, self.since, self.lost) = (contact, since, lost);
    }

    /// Frees the pair.
    pub fn free(&mut self) {
        self.early.iter_mut().for_each(Vec::clear);
        let early = core::mem::take(&mut self.early);
        *self = Self {
            early,
            ..Self::without_room()
        };
    }

    fn without_room() -> Self {
        Self {
            contact: Contact::default(),
            rank: None,
            since: 0,
            gone: false,
            lost: false,
            suspected: false,
            token: Token::NONE,
            challenge_is_due: true,
            next: 1,
            settled: 0,
            acknowledged: 0,
            sent: [Sent::default(); WINDOW],
            taken: 0,
            reported: 0,
            early: [const { Vec::new() }; WINDOW],
            sent_rounds: 0,
            row_is_news: false,
            change_is_news: false,
            owes_end: false,
            owes_welcome: false,
            leftover: false,
            idle: true,
            keepalive_is_due: false,
            keepalive_in_flight: false,
            keepalive_is_lost: false,
        }
    }

    /// Whether it belongs to a node that is not yet known to be a member.
    pub fn is_ahead(&self) -> bool {
        !self.is_free() && self.rank.is_none() && !self.leftover
    }

    /// Makes it the pair of a member of the beginning view. Drops envelopes from before its
    /// membership.
    pub fn adopt(&mut self, group: u64, view: u64) {
        self.since = view;
        for early in &mut self.early {
            if place_of(early).is_some_and(|place| place.0 != group || place.1 < view) {
                early.clear();
            }
        }
    }

    /// Whether a buffered envelope is of a later view of the group.
    pub fn keeps_later(&self, group: u64, view: u64) -> bool {
        let kept = self.early.iter().filter_map(|early| place_of(early));
        kept.into_iter()
            .any(|place| place.0 == group && place.1 > view)
    }

    /// A view begins, in which nothing was sent.
    pub const fn begin_view(&mut self) {
        self.owes_welcome = false;
        self.sent_rounds = 0;
        self.row_is_news = false;
        self.change_is_news = false;
    }

    /// Whether the view, or the end of the last one, must be sent to it.
    pub const fn owes_something(&self) -> bool {
        self.owes_end || self.owes_welcome
    }

    /// Whether envelopes can reach it, as far as is known.
    pub const fn is_reached(&self) -> bool {
        !self.gone && !self.lost
    }

    // To it.

    /// Whether a slot is free for an envelope without batch or state.
    pub const fn has_room(&self) -> bool {
        self.next - 1 - self.settled < WINDOW as u64
    }

    /// Whether a slot is free for a row, with one left for a change.
    pub const fn has_row_room(&self) -> bool {
        self.next - 1 - self.settled < WINDOW as u64 - 1
    }

    /// Whether a slot is free for an envelope with a batch or state.
    pub fn has_bulk_room(&self) -> bool {
        let bulk = |sent: &&Sent| matches!(sent.content, Content::Batch(_) | Content::State(_));
        self.has_room() && self.open().filter(bulk).count() < WINDOW_BULK
    }

    /// Whether a row without a batch is in flight.
    pub fn has_row_in_flight(&self) -> bool {
        self.open()
            .any(|sent| sent.content == Content::Row && sent.progress != Progress::Arrived)
    }

    /// Whether the end of a view is being sent to it.
    pub fn awaits_end(&self) -> bool {
        let end = |sent: &Sent| sent.content == Content::End && sent.progress != Progress::Arrived;
        self.owes_end || self.open().any(end)
    }

    /// Whether an envelope with this content may have to be sent again.
    pub fn bears(&self, content: Content) -> bool {
        self.open()
            .any(|sent| sent.content == content && sent.progress != Progress::Arrived)
    }

    fn open(&self) -> impl Iterator<Item = &Sent> {
        (self.settled + 1..self.next).map(|number| &self.sent[slot(number)])
    }

    /// The first envelope to send again.
    pub fn next_resend(&self) -> Option<u64> {
        (self.settled + 1..self.next)
            .find(|&number| self.sent[slot(number)].progress == Progress::Resend)
    }

    /// The content of the envelope with this number, which must be in the window.
    pub const fn sent(&self, number: u64) -> Sent {
        self.sent[slot(number)]
    }

    /// Records that an envelope is sent: a new one, or `number` again. Returns its number.
    pub fn send(&mut self, number: Option<u64>, content: Content, view: u64, rounds: u64) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.reported = self.taken;
            self.next += 1;
            self.next - 1
        });
        self.sent[slot(number)] = Sent {
            content,
            view,
            rounds,
            progress: Progress::InFlight,
        };
        self.idle = false;
        number
    }

    /// An envelope ended. `number` is the low half.
    pub fn on_end(&mut self, number: u32, end: End) {
        if number == 0 {
            self.keepalive_in_flight = false;
            if end != End::Done {
                // The receiver may lack its content: send it again at the next tick.
                self.keepalive_is_lost = true;
            }
            return;
        }
        let found = (self.settled + 1..self.next).find(|&open| open as u32 == number);
        let Some(number) = found else { return };
        let sent = &mut self.sent[slot(number)];
        if sent.progress == Progress::InFlight {
            sent.progress = match end {
                End::Done => Progress::Arrived,
                End::NotExecuted => Progress::Refused,
                End::Unclear => Progress::Resend,
                End::Gone => Progress::Refused,
            };
        }
        self.settle();
    }

    /// Processes a tick: retries envelopes that were refused or not answered.
    pub fn on_tick(&mut self) {
        self.challenge_is_due = self.token.is_none();
        self.keepalive_is_due |= core::mem::take(&mut self.keepalive_is_lost);
        for sent in &mut self.sent {
            if sent.progress == Progress::Refused {
                sent.progress = Progress::Resend;
            }
        }
    }

    /// It reports the number of envelopes it has taken: the low half.
    pub fn on_acknowledged(&mut self, low: u32) -> Result<(), BadEnvelope> {
        let more = low.wrapping_sub(self.acknowledged as u32);
        if more as i32 <= 0 {
            return Ok(());
        }
        let acknowledged = self.acknowledged + u64::from(more);
        if acknowledged >= self.next {
            return Err(BadEnvelope::Violation);
        }
        self.acknowledged = acknowledged;
        self.settle();
        Ok(())
    }

    /// Frees the slots of envelopes that ended and were taken.
    fn settle(&mut self) {
        while self.settled < self.acknowledged {
            let sent = &mut self.sent[slot(self.settled + 1)];
            if sent.progress == Progress::InFlight {
                break;
            }
            *sent = Sent::default();
            self.settled += 1;
        }
    }

    /// Whether it has taken every envelope sent to it.
    pub const fn has_all(&self) -> bool {
        self.acknowledged + 1 == self.next
    }

    // From it.

    /// Number of its envelopes that were taken, to report to it: the low half.
    pub const fn taken(&self) -> u32 {
        self.taken as u32
    }

    /// Whether an unordered envelope must be sent: a keepalive, or the acknowledgment of enough
    /// envelopes.
    pub const fn has_keepalive(&self) -> bool {
        (self.keepalive_is_due || self.taken - self.reported >= TAKEN_IS_NEWS)
            && !self.keepalive_in_flight
    }

    /// Whether it is to be challenged now.
    pub const fn has_challenge(&self) -> bool {
        self.token.is_none() && self.challenge_is_due && !self.keepalive_in_flight
    }

    /// It is challenged, outside of the order.
    pub const fn challenge(&mut self) {
        self.challenge_is_due = false;
        self.keepalive_in_flight = true;
    }

    /// Records that the taken count is reported to it in an unordered envelope.
    pub const fn report_taken(&mut self) {
        self.reported = self.taken;
        self.keepalive_is_due = false;
        self.keepalive_in_flight = true;
    }

    /// Where an envelope of it stands.
    ///
    /// # Errors
    /// [`BadEnvelope::Violation`]: beyond the window.
    pub fn place(&self, number: u32) -> Result<Place, BadEnvelope> {
        let ahead = number.wrapping_sub((self.taken + 1) as u32) as i32;
        match usize::try_from(ahead) {
            Err(_) => Ok(Place::Duplicate),
            Ok(0) => Ok(Place::Next),
            Ok(1..WINDOW) => Ok(Place::Early),
            Ok(_) => Err(BadEnvelope::Violation),
        }
    }

    /// Buffers an envelope until it can be taken. Of two with the same number, the one of the later
    /// view stays: the other was sent to a previous member here.
    pub fn keep(&mut self, number: u32, bytes: &[u8]) {
        let early = &mut self.early[number as usize % WINDOW];
        let view = |bytes: &[u8]| place_of(bytes).map(|place| place.1);
        if early.is_empty() || view(bytes) > view(early) {
            early.clear();
            early.extend_from_slice(bytes);
        }
    }

    /// The next envelope, if it was kept.
    pub fn kept(&self) -> Option<&[u8]> {
        let next = &self.early[slot(self.taken + 1)];
        (!next.is_empty()).then_some(&next[..])
    }

    /// Takes the next one's bytes out of their place, to be given back by [`Pair::return_room`].
    pub fn take_kept(&mut self) -> (usize, Vec<u8>) {
        let place = slot(self.taken + 1);
        (place, core::mem::take(&mut self.early[place]))
    }

    /// The next envelope was taken.
    pub const fn take(&mut self) {
        self.taken += 1;
    }

    /// Returns the buffer of a taken envelope, even if the pair was freed meanwhile.
    pub fn return_room(&mut self, place: usize, mut bytes: Vec<u8>) {
        bytes.clear();
        self.early[place] = bytes;
    }

    /// Bytes that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.early.iter().map(Vec::len).sum()
    }
}

/// Group and view of an envelope that is kept.
fn place_of(bytes: &[u8]) -> Option<(u64, u64)> {
    let (_, rest) = bytes.split_at_checked(8)?;
    let (group, rest) = rest.split_first_chunk()?;
    let (view, _) = rest.split_first_chunk()?;
    Some((u64::from_le_bytes(*group), u64::from_le_bytes(*view)))
}

const fn slot(number: u64) -> usize {
    (number % WINDOW as u64) as usize
}
