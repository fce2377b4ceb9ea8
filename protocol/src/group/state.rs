//! Transfer of the application's state from the oldest voter to members without it.

use alloc::vec::Vec;

use super::{
    Group, MulticastError, Phase,
    contact::{Incarnation, MEMBERS_MAX, Members},
    pair::{Content, Pair},
    wire::{BadEnvelope, STATE_BYTES_MAX},
};

/// Pieces that are kept for each member.
const PIECES: usize = 2;

/// State that is given, or comes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// By rank, [`PIECES`] outgoing pieces for each member. In a member without the state, the
    /// entries of its own rank are the received pieces.
    pieces: Vec<Piece>,
    /// Members that need the state and that the application has not been notified of.
    wanted: Members,
    /// Members that the application was notified of and that have not received the last piece.
    giving: Members,
    /// Bytes given to each member, by rank; the own entry: bytes received.
    offsets: [u64; MEMBERS_MAX],
    /// Total pieces received, and total pieces shown to the application.
    came: usize,
    reported: usize,
    /// The piece that the application looks at.
    shown: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Piece {
    bytes: Vec<u8>,
    offset: u64,
    last: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Stage {
    #[default]
    Free,
    /// To be sent, or to be shown to the application.
    Ready,
    Sent,
}

impl Transfer {
    /// Allocates for views of up to `members_max` members.
    pub fn new(members_max: usize) -> Self {
        let piece = || Piece {
            bytes: Vec::with_capacity(STATE_BYTES_MAX),
            ..Piece::default()
        };
        Self {
            pieces: (0..members_max * PIECES).map(|_| piece()).collect(),
            wanted: Members::NONE,
            giving: Members::NONE,
            offsets: [0; MEMBERS_MAX],
            came: 0,
            reported: 0,
            shown: false,
        }
    }

    /// A view begins, in which the `wanted` members get the state from this member.
    pub fn begin(&mut self, wanted: Members) {
        for piece in &mut self.pieces {
            piece.bytes.clear();
            (piece.offset, piece.last, piece.stage) = (0, false, Stage::Free);
        }
        (self.wanted, self.giving) = (wanted, Members::NONE);
        self.offsets = [0; MEMBERS_MAX];
        (self.came, self.reported, self.shown) = (0, 0, false);
    }

    /// The next member to report as needing the state. From now on it is given the state from the
    /// beginning.
    pub fn next_wanted(&mut self) -> Option<usize> {
        let rank = self.wanted.lowest()?;
        self.wanted = self.wanted.without(Members::only(rank));
        self.giving = self.giving.with(rank);
        Some(rank)
    }

    /// Whether the application received a part of the state but not the end.
    pub const fn is_partly_reported(&self) -> bool {
        self.reported > 0
    }

    /// A piece to send to a member: the earlier one of two.
    pub fn ready(&self, rank: usize) -> Option<usize> {
        let own = rank * PIECES..(rank + 1) * PIECES;
        own.filter(|&at| {
            self.pieces
                .get(at)
                .is_some_and(|piece| piece.stage == Stage::Ready)
        })
        .min_by_key(|&at| (self.pieces[at].offset, self.pieces[at].last))
    }

    /// Records that a piece is sent.
    pub fn send(&mut self, at: usize) {
        self.pieces[at].stage = Stage::Sent;
    }

    /// A piece: the bytes before it, whether it is the last, its bytes.
    pub fn piece(&self, at: usize) -> (u64, bool, &[u8]) {
        let piece = &self.pieces[at];
        (piece.offset, piece.last, &piece.bytes)
    }

    /// Frees the pieces that a member has taken.
    fn free_sent(&mut self, rank: usize, pair: &Pair) {
        for at in rank * PIECES..(rank + 1) * PIECES {
            let piece = &mut self.pieces[at];
            if piece.stage == Stage::Sent && !pair.bears(Content::State(at)) {
                piece.stage = Stage::Free;
            }
        }
    }

    fn put(&mut self, at: usize, (offset, last): (u64, bool), bytes: &[u8]) {
        let piece = &mut self.pieces[at];
        piece.bytes.clear();
        piece.bytes.extend_from_slice(bytes);
        (piece.offset, piece.last, piece.stage) = (offset, last, Stage::Ready);
    }

    fn room_for_more(&self, me: usize) -> Option<usize> {
        let at = me * PIECES + self.came % PIECES;
        let piece = self.pieces.get(at)?;
        (piece.stage == Stage::Free).then_some(at)
    }
}

impl Group {
    /// Gives 1 to [`STATE_BYTES_MAX`] bytes of the application's state to a member that needs it.
    /// The last piece may have 0 bytes.
    ///
    /// The state is that of the view's beginning: when [`super::Event::StateWanted`] was returned,
    /// before the first delivery.
    ///
    /// # Errors
    /// - [`MulticastError::Full`]: retry later.
    /// - [`MulticastError::NotWanted`]: the view ends, or the member got the last piece.
    /// - [`MulticastError::TooLong`] or [`MulticastError::Empty`].
    pub fn send_snapshot(
        &mut self,
        to: Incarnation,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), MulticastError> {
        if bytes.len() > STATE_BYTES_MAX {
            return Err(MulticastError::TooLong);
        }
        if bytes.is_empty() && !last {
            return Err(MulticastError::Empty);
        }
        let rank = self.view.rank_of(to).unwrap_or(MEMBERS_MAX);
        let at = self.pair_of(to);
        let (Some(pair), Phase::Flowing, true) =
            (at, self.phase, self.transfer.giving.contains(rank))
        else {
            return Err(MulticastError::NotWanted);
        };
        let transfer = &mut self.transfer;
        transfer.free_sent(rank, &self.pairs[pair]);
        let mut own = rank * PIECES..(rank + 1) * PIECES;
        let Some(free) = own.find(|&at| transfer.pieces[at].stage == Stage::Free) else {
            return Err(MulticastError::Full);
        };
        transfer.put(free, (transfer.offsets[rank], last), bytes);
        transfer.offsets[rank] += bytes.len() as u64;
        if last {
            transfer.giving = transfer.giving.without(Members::only(rank));
        }
        Ok(())
    }

    /// Whether a piece of state can be kept now: not while the application has two to take.
    pub(super) fn has_room_for_state(&self) -> bool {
        self.has_state
            || self.phase != Phase::Flowing
            || self.transfer.room_for_more(self.me).is_some()
    }

    /// Receives a piece, in the pair's order.
    pub(super) fn take_state(
        &mut self,
        rank: usize,
        (offset, last): (u64, bool),
        data: &[u8],
    ) -> Result<(), BadEnvelope> {
        if self.has_state || self.phase != Phase::Flowing {
            return Ok(());
        }
        let me = self.me;
        let giver = self.view.voters.lowest() == Some(rank);
        let at = self.transfer.room_for_more(me);
        let (Some(at), true, true) = (at, giver, offset == self.transfer.offsets[me]) else {
            return Err(BadEnvelope::Violation);
        };
        self.transfer.put(at, (offset, last), data);
        self.transfer.offsets[me] += data.len() as u64;
        self.transfer.came += 1;
        Ok(())
    }

    /// The application has read the shown piece: frees its buffer. After the last piece, the
    /// application has the state.
    pub(super) fn end_showing_state(&mut self) {
        if !core::mem::take(&mut self.transfer.shown) {
            return;
        }
        let at = self.me * PIECES + (self.transfer.reported - 1) % PIECES;
        self.transfer.pieces[at].stage = Stage::Free;
        if self.transfer.pieces[at].last && self.phase == Phase::Flowing {
            self.has_state = true;
            self.table.row_mut(self.me).frontier.has_state = true;
            self.row_grew();
        }
        self.settle();
    }

    /// The next piece for the application, which looks at it until [`Group::end_showing_state`].
    pub(super) fn show_state(&mut self) -> Option<usize> {
        let transfer = &mut self.transfer;
        if self.has_state || self.phase != Phase::Flowing || transfer.reported == transfer.came {
            return None;
        }
        let at = self.me * PIECES + transfer.reported % PIECES;
        transfer.reported += 1;
        transfer.shown = true;
        Some(at)
    }
}
