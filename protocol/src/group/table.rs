//! The rows of a view, and values derived from all of them.

use alloc::vec::Vec;

use super::{
    contact::{MEMBERS_MAX, Members},
    row::Row,
};

/// The rows of a view, by rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    rows: Vec<Row>,
    /// By rank of the sender: the rounds that every member holds.
    held: [u64; MEMBERS_MAX],
    /// Positions that every member's application has taken.
    taken: u64,
}

impl Table {
    /// Allocates for views of up to `members_max` members.
    pub fn new(members_max: usize) -> Self {
        Self {
            rows: Vec::with_capacity(members_max),
            held: [0; MEMBERS_MAX],
            taken: 0,
        }
    }

    /// Restarts with `n` rows that are empty, except for the flag of members that have the state.
    pub fn begin(&mut self, n: usize, have_state: Members) {
        self.rows.clear();
        for rank in 0..n {
            let mut row = Row::default();
            row.frontier.has_state = have_state.contains(rank);
            self.rows.push(row);
        }
        self.refresh();
    }

    /// How many rows there are.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row of a member of the view.
    pub fn row(&self, rank: usize) -> &Row {
        &self.rows[rank]
    }

    /// To be followed by [`Table::refresh`] if `received` or `delivered` change.
    pub fn row_mut(&mut self, rank: usize) -> &mut Row {
        &mut self.rows[rank]
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Ranks of the rows that match `wanted`.
    pub fn ranks(&self, wanted: impl Fn(&Row) -> bool) -> Members {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| wanted(row))
            .fold(Members::NONE, |ranks, (rank, _)| ranks.with(rank))
    }

    /// All rows, to be followed by [`Table::refresh`].
    #[cfg(feature = "arbitrary-state")]
    pub fn rows_mut(&mut self) -> &mut [Row] {
        &mut self.rows
    }

    /// Recomputes the values derived from all rows.
    pub fn refresh(&mut self) {
        let n = self.rows.len();
        for (sender, held) in self.held[..n].iter_mut().enumerate() {
            let received = self.rows.iter().map(|row| row.frontier.received[sender]);
            *held = received.min().unwrap_or(0);
        }
        let delivered = self.rows.iter().map(|row| row.frontier.delivered);
        self.taken = delivered.min().unwrap_or(0);
    }

    /// Whether every member holds the batch of this sender's round.
    pub fn is_held(&self, sender: usize, round: u64) -> bool {
        self.held[sender] > round
    }

    /// Positions that every member's application has taken.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Rounds of which that holds.
    pub fn taken_rounds(&self) -> u64 {
        self.taken / (self.rows.len() as u64).max(1)
    }

    /// The greatest round that a member sent.
    pub fn rounds_max(&self) -> u64 {
        let rounds = self.rows.iter().map(|row| row.frontier.rounds);
        rounds.max().unwrap_or(0)
    }
}
