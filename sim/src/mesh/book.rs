//! Everything that nodes ask of each other, and what came of it.

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
    /// Those that may not have ended, in order.
    open: Vec<u64>,
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

    /// What has not ended, with its token.
    pub fn open(&self) -> impl Iterator<Item = (u64, &Ask)> {
        let asks = self
            .open
            .iter()
            .filter_map(|&token| Some((token, self.ask(token)?)));
        asks.filter(|(_, ask)| ask.told.is_none())
    }

    /// Everything that was asked for.
    #[must_use]
    pub fn asks(&self) -> &[Ask] {
        &self.asks
    }

    pub(super) fn add(&mut self, ask: Ask) {
        self.open.push(self.next_token());
        self.asks.push(ask);
    }

    pub(super) fn change(&mut self, token: u64, change: impl FnOnce(&mut Ask)) {
        let at = usize::try_from(token).ok();
        if let Some(ask) = at.and_then(|at| self.asks.get_mut(at)) {
            change(ask);
        }
    }

    /// Lets go of what has ended or that nobody waits for any more, because its asker is in another life.
    pub(super) fn tidy(&mut self, life_of: impl Fn(u16) -> u32) {
        let asks = &self.asks;
        self.open.retain(|&token| {
            let ask = &asks[token as usize];
            ask.told.is_none() && life_of(ask.from.0) == ask.from.1
        });
    }
}
