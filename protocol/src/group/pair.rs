//! One other member: envelopes between two lives, numbered in each direction through all views.
//!
//! `send` verbs that are open at the same time are in no order, so the receiver holds what came early; and an end may be unclear, so what
//! came before is dropped. Of one to the other at most [`WINDOW`] are under way that it has not taken.

use alloc::vec::Vec;

use super::{End, contact::Contact, token::Token, wire::BadEnvelope};
use crate::verb::SEND_BYTES_MAX;

/// Most envelopes under way to one member that it has not taken.
pub const WINDOW: usize = 8;
/// Of them, most that bear a batch or a piece of state: a change always finds room.
pub const WINDOW_BULK: usize = 6;
/// So many taken envelopes of a member are news for it.
const TAKEN_IS_NEWS: u64 = WINDOW as u64 / 2;

/// One other member, or one that will be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Who.
    pub contact: Contact,
    /// Its rank in the view, if it is in it.
    pub rank: Option<usize>,
    /// The view that both were in first; what is of an earlier one is of an earlier pair.
    pub since: u64,
    /// It was a member and did not stay: it has still to hear how the view ended.
    pub leftover: bool,
    /// It does not return under this life.
    pub gone: bool,
    /// No path leads to its node.
    pub lost: bool,
    /// The application wants it to go. It can be reached, and is told.
    pub suspected: bool,
    /// What is shown to it. Without a token it is sent nothing but a challenge.
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
    /// As it was told.
    told: u64,
    /// Its envelopes that were not taken, by number.
    early: [Vec<u8>; WINDOW],

    /// Own rounds that were said to it in this view.
    pub said_rounds: u64,
    /// The own row grew since it was said to it.
    pub row_is_news: bool,
    /// What is said of the end of the view grew since.
    pub change_is_news: bool,
    /// It must be told the end of the last view before anything else.
    pub owes_end: bool,
    /// It must be told the view first of all.
    pub owes_welcome: bool,
    /// Nothing but balls was said to it since the last tick.
    pub quiet: bool,
    /// Something outside of the order is to be said to it.
    pub ball_is_due: bool,
    /// Such an envelope is under way.
    ball_under_way: bool,
    /// The last one perhaps did not arrive.
    ball_is_lost: bool,
}

/// What an envelope bears that is said again if it did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum What {
    /// A row.
    #[default]
    Row,
    /// The batch of this round.
    Batch(u64),
    /// What is said of the view's end.
    Change,
    /// How the view ended.
    End,
    /// The view, to one who joined.
    Welcome,
    /// A piece of state, by its place.
    State(usize),
}

/// One envelope that was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sent {
    /// What it bears.
    pub what: What,
    /// In which view it was said.
    pub view: u64,
    /// Own rounds that had been said with it and before it.
    pub rounds: u64,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Progress {
    /// It ended, and is in the queue.
    #[default]
    Arrived,
    UnderWay,
    /// To be said again.
    Again,
    /// To be said again after the next tick.
    Refused,
}

/// Where an envelope that came stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It came before.
    Duplicate,
    /// It is the next one.
    Next,
    /// Others come first.
    Early,
}

impl Pair {
    /// One that is free, with room for what comes early.
    pub fn with_room() -> Self {
        Self {
            early: [(); WINDOW].map(|()| Vec::with_capacity(SEND_BYTES_MAX)),
            ..Self::without_room()
        }
    }

    /// Whether it is nobody's.
    pub fn is_free(&self) -> bool {
        self.contact == Contact::default()
    }

    /// Makes it that of `contact`, from the view `since` on.
    pub fn begin(&mut self, contact: Contact, since: u64, lost: bool) {
        self.free();
        (self.contact, self.since, self.lost) = (contact, since, lost);
    }

    /// Makes it nobody's.
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
            told: 0,
            early: [const { Vec::new() }; WINDOW],
            said_rounds: 0,
            row_is_news: false,
            change_is_news: false,
            owes_end: false,
            owes_welcome: false,
            leftover: false,
            quiet: true,
            ball_is_due: false,
            ball_under_way: false,
            ball_is_lost: false,
        }
    }

    /// Whether it is of one who is no member yet, as far as is known.
    pub fn is_ahead(&self) -> bool {
        !self.is_free() && self.rank.is_none() && !self.leftover
    }

    /// It is the pair of this member of a view that begins. What came before it was a member is of no worth.
    pub fn adopt(&mut self, group: u64, view: u64) {
        self.since = view;
        for early in &mut self.early {
            if place_of(early).is_some_and(|place| place.0 != group || place.1 < view) {
                early.clear();
            }
        }
    }

    /// Whether what is kept is of a later view of the group.
    pub fn keeps_later(&self, group: u64, view: u64) -> bool {
        let kept = self.early.iter().filter_map(|early| place_of(early));
        kept.into_iter()
            .any(|place| place.0 == group && place.1 > view)
    }

    /// A view begins, in which nothing was said.
    pub const fn begin_view(&mut self) {
        self.owes_welcome = false;
        self.said_rounds = 0;
        self.row_is_news = false;
        self.change_is_news = false;
    }

    /// Whether it must be told the view, or the end of the last one.
    pub const fn owes_something(&self) -> bool {
        self.owes_end || self.owes_welcome
    }

    /// Whether envelopes can reach it, as far as is known.
    pub const fn is_reached(&self) -> bool {
        !self.gone && !self.lost
    }

    // To it.

    /// Whether there is room for an envelope that bears no batch and no state.
    pub const fn has_room(&self) -> bool {
        self.next - 1 - self.settled < WINDOW as u64
    }

    /// Whether there is room for a row, beside which a change still finds some.
    pub const fn has_row_room(&self) -> bool {
        self.next - 1 - self.settled < WINDOW as u64 - 1
    }

    /// Whether there is room for one that does.
    pub fn has_bulk_room(&self) -> bool {
        let bulk = |sent: &&Sent| matches!(sent.what, What::Batch(_) | What::State(_));
        self.has_room() && self.open().filter(bulk).count() < WINDOW_BULK
    }

    /// Whether a row that bears nothing is under way.
    pub fn has_row_under_way(&self) -> bool {
        self.open()
            .any(|sent| sent.what == What::Row && sent.progress != Progress::Arrived)
    }

    /// Whether it is told right now how a view ended.
    pub fn hears_end(&self) -> bool {
        let end = |sent: &Sent| sent.what == What::End && sent.progress != Progress::Arrived;
        self.owes_end || self.open().any(end)
    }

    /// Whether an envelope with this may have to be said again.
    pub fn bears(&self, what: What) -> bool {
        self.open()
            .any(|sent| sent.what == what && sent.progress != Progress::Arrived)
    }

    fn open(&self) -> impl Iterator<Item = &Sent> {
        (self.settled + 1..self.next).map(|number| &self.sent[slot(number)])
    }

    /// The first envelope that is to be said again.
    pub fn again(&self) -> Option<u64> {
        (self.settled + 1..self.next)
            .find(|&number| self.sent[slot(number)].progress == Progress::Again)
    }

    /// What the envelope of this number, one in the window, bears.
    pub const fn sent(&self, number: u64) -> Sent {
        self.sent[slot(number)]
    }

    /// An envelope is said: a new one, or the one of `number` again. Returns its number.
    pub fn say(&mut self, number: Option<u64>, what: What, view: u64, rounds: u64) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.told = self.taken;
            self.next += 1;
            self.next - 1
        });
        self.sent[slot(number)] = Sent {
            what,
            view,
            rounds,
            progress: Progress::UnderWay,
        };
        self.quiet = false;
        number
    }

    /// An envelope ended. `number` is the low half.
    pub fn on_end(&mut self, number: u32, end: End) {
        if number == 0 {
            self.ball_under_way = false;
            if end != End::Done {
                // What it told may be unknown to the other: at the next tick it is said again.
                self.ball_is_lost = true;
            }
            return;
        }
        let found = (self.settled + 1..self.next).find(|&open| open as u32 == number);
        let Some(number) = found else { return };
        let sent = &mut self.sent[slot(number)];
        if sent.progress == Progress::UnderWay {
            sent.progress = match end {
                End::Done => Progress::Arrived,
                End::NotExecuted => Progress::Refused,
                End::Unclear => Progress::Again,
                End::Gone => Progress::Refused,
            };
        }
        self.settle();
    }

    /// A tick: what was refused or not answered is tried once more.
    pub fn on_tick(&mut self) {
        self.challenge_is_due = self.token.is_none();
        self.ball_is_due |= core::mem::take(&mut self.ball_is_lost);
        for sent in &mut self.sent {
            if sent.progress == Progress::Refused {
                sent.progress = Progress::Again;
            }
        }
    }

    /// It says how many envelopes it has taken: the low half.
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

    /// Gives the room of envelopes back that ended and were taken.
    fn settle(&mut self) {
        while self.settled < self.acknowledged {
            let sent = &mut self.sent[slot(self.settled + 1)];
            if sent.progress == Progress::UnderWay {
                break;
            }
            *sent = Sent::default();
            self.settled += 1;
        }
    }

    /// Whether it has taken all that was said to it.
    pub const fn has_all(&self) -> bool {
        self.acknowledged + 1 == self.next
    }

    // From it.

    /// How many of its envelopes were taken, to be told to it: the low half.
    pub const fn taken(&self) -> u32 {
        self.taken as u32
    }

    /// Whether something is to be said outside of the order: a ball, or that so much was taken.
    pub const fn has_ball(&self) -> bool {
        (self.ball_is_due || self.taken - self.told >= TAKEN_IS_NEWS) && !self.ball_under_way
    }

    /// Whether it is to be challenged now.
    pub const fn has_challenge(&self) -> bool {
        self.token.is_none() && self.challenge_is_due && !self.ball_under_way
    }

    /// It is challenged, outside of the order.
    pub const fn challenge(&mut self) {
        self.challenge_is_due = false;
        self.ball_under_way = true;
    }

    /// It is told what was taken, outside of the order.
    pub const fn tell_taken(&mut self) {
        self.told = self.taken;
        self.ball_is_due = false;
        self.ball_under_way = true;
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

    /// Keeps an envelope until it can be taken. Of two under one number that of the later view stays: the other one was said to who was here before.
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

    /// Gives the room of an envelope that was taken back, whatever became of the pair.
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
