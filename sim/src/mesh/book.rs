//! Everything that nodes ask of each other, and what came of it.

use std::collections::BTreeSet;

use super::errand::{Answer, Errand};

/// How somebody is told that something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Executed, with this answer.
    Committed(Answer),
    /// Not executed, for the peer refused it.
    Refused,
    /// Not executed: who asked by name what became of it is told that it is not, and never will be.
    NotExecuted,
    /// Whoever was asked forgot everything.
    Restarted,
}

/// Something that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Who asks, and in which life.
    pub from: (u16, u32),
    /// Who is asked, and the life of it that the asker knows.
    pub to: (u16, u32),
    /// For what.
    pub errand: Errand,
    /// The life in which whoever is asked was then, or the one that it began next.
    pub asked_in: u32,
    /// How often it was executed.
    pub executed: u32,
    /// The answer of the execution that came first.
    pub answer: Option<Answer>,
    /// What the asker was told.
    pub told: Option<Told>,
    /// The life in which whoever was asked was then, or the one that it began next.
    pub told_in: Option<u32>,
    /// The asker was told that it is in doubt.
    pub doubted: bool,
    /// Then it asked by name what became of it, and wants it no more if it was not executed.
    pub given_up: bool,
}

/// All of them, by their tokens.
#[derive(Debug, Clone, Default)]
pub struct Book {
    asks: Vec<Ask>,
    /// Those that have not ended and that somebody waits for: who asks, and the token.
    open: BTreeSet<(u16, u64)>,
}

impl Book {
    /// The token of what is asked for next.
    #[must_use]
    pub fn next_token(&self) -> u64 {
        self.asks.len() as u64
    }

    /// What was asked for with a token.
    #[must_use]
    pub fn ask(&self, token: u64) -> Option<&Ask> {
        self.asks.get(usize::try_from(token).ok()?)
    }

    /// What has not ended, with its token, by whoever asks and then in order.
    pub fn open(&self) -> impl Iterator<Item = (u64, &Ask)> {
        self.of_tokens(self.open.iter())
    }

    /// What a node asked for and has not ended, with its token, in order.
    pub fn open_of(&self, node: u16) -> impl Iterator<Item = (u64, &Ask)> {
        self.of_tokens(self.open.range((node, 0)..=(node, u64::MAX)))
    }

    fn of_tokens<'a>(
        &'a self,
        tokens: impl Iterator<Item = &'a (u16, u64)>,
    ) -> impl Iterator<Item = (u64, &'a Ask)> {
        tokens.filter_map(|&(_, token)| Some((token, self.ask(token)?)))
    }

    /// Everything that was asked for.
    #[must_use]
    pub fn asks(&self) -> &[Ask] {
        &self.asks
    }

    pub(super) fn add(&mut self, ask: Ask) {
        self.open.insert((ask.from.0, self.next_token()));
        self.asks.push(ask);
    }

    pub(super) fn change(&mut self, token: u64, change: impl FnOnce(&mut Ask)) {
        let at = usize::try_from(token).ok();
        if let Some(ask) = at.and_then(|at| self.asks.get_mut(at)) {
            change(ask);
            if ask.told.is_some() {
                self.open.remove(&(ask.from.0, token));
            }
        }
    }

    /// A node died: nobody waits any more for what it asked for.
    pub(super) fn forget(&mut self, node: u16) {
        self.open.retain(|(from, _)| *from != node);
    }
}
