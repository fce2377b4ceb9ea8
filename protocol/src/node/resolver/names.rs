//! Outcomes of exchanges that were in doubt, kept by identifier for later queries, up to a
//! capacity.
//!
//! Only an exchange whose caller received an identifier is kept. The oldest entry is evicted for
//! the next. An evicted exchange is reported as forgotten, never as not executed.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use crate::{Answer, ExchangeId, Host, Refusal, payloads::Payloads};

/// How a kept exchange ended.
#[derive(Debug, Clone, Copy, Hash)]
enum Kept {
    /// The reply has so many bytes.
    Committed(usize),
    Refused(Refusal),
    Undone,
    NeverSeen,
    Forgotten,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Ended {
    name: ExchangeId,
    how: Kept,
}

#[derive(Debug, Clone, Copy, Hash)]
struct Requester {
    token: u64,
    name: ExchangeId,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Names {
    /// A ring; the entry at `oldest` goes next.
    ended: Vec<Option<Ended>>,
    replies: Payloads,
    oldest: usize,
    requesters: Vec<Requester>,
    /// An exchange that a query may wait for ended without a report.
    unreported: bool,
}

/// Excludes bytes left from evicted replies.
impl Hash for Names {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            ended,
            replies,
            oldest,
            requesters,
            unreported,
        } = self;
        (ended, oldest, requesters, unreported).hash(state);
        for (at, ended) in ended.iter().enumerate() {
            if let Some(Ended {
                how: Kept::Committed(bytes),
                ..
            }) = ended
            {
                replies.get(at, *bytes).hash(state);
            }
        }
    }
}

impl Names {
    /// Allocates for `capacity` ended exchanges with replies of up to `reply_bytes_max` bytes, and
    /// for as many waiting queries.
    pub fn new(capacity: usize, reply_bytes_max: usize) -> Self {
        Self {
            ended: vec![None; capacity],
            replies: Payloads::new(capacity, reply_bytes_max),
            oldest: 0,
            requesters: Vec::with_capacity(capacity),
            unreported: false,
        }
    }

    /// How an exchange ended, if that is known here.
    pub fn get(&self, name: &ExchangeId) -> Option<Answer<'_>> {
        self.ended.iter().enumerate().find_map(|(at, ended)| {
            let ended = ended.as_ref().filter(|ended| ended.name == *name)?;
            Some(match ended.how {
                Kept::Committed(bytes) => Answer::Committed(self.replies.get(at, bytes)),
                Kept::Refused(refusal) => Answer::Refused(refusal),
                Kept::Undone => Answer::Undone,
                Kept::NeverSeen => Answer::NeverSeen,
                Kept::Forgotten => Answer::Forgotten,
            })
        })
    }

    /// An exchange with an identifier ended: answers waiting queries, and keeps the outcome for
    /// later ones.
    #[cold]
    pub fn end(&mut self, name: &ExchangeId, answer: Answer<'_>, host: &mut impl Host) {
        self.requesters.retain(|requester| {
            let waits = requester.name == *name;
            if waits {
                host.answered(requester.token, answer);
            }
            !waits
        });
        self.keep(name, answer);
    }

    /// An exchange with an identifier ended where no query can be answered: [`Names::report`]
    /// answers them later.
    pub fn note(&mut self, name: &ExchangeId, answer: Answer<'_>) {
        self.keep(name, answer);
        self.unreported = true;
    }

    /// Answers queries for exchanges whose end was recorded, and for those that `is_live` reports
    /// as gone.
    pub fn report(&mut self, is_live: impl Fn(&ExchangeId) -> bool, host: &mut impl Host) {
        if !core::mem::take(&mut self.unreported) {
            return;
        }
        let mut requesters = core::mem::take(&mut self.requesters);
        requesters.retain(|requester| {
            let answer = self.get(&requester.name);
            if answer.is_none() && is_live(&requester.name) {
                return true;
            }
            host.answered(requester.token, answer.unwrap_or(Answer::Forgotten));
            false
        });
        self.requesters = requesters;
    }

    fn keep(&mut self, name: &ExchangeId, answer: Answer<'_>) {
        let at = self.oldest;
        let Some(entry) = self.ended.get_mut(at) else {
            return;
        };
        let how = match answer {
            Answer::Committed(reply) => {
                self.replies.set(at, reply);
                Kept::Committed(reply.len())
            }
            Answer::Refused(refusal) => Kept::Refused(refusal),
            Answer::Undone => Kept::Undone,
            Answer::NeverSeen => Kept::NeverSeen,
            Answer::Forgotten => Kept::Forgotten,
        };
        *entry = Some(Ended { name: *name, how });
        self.oldest = (at + 1) % self.ended.len();
    }

    /// Records a query that waits for the end of an exchange. Returns `false` if too many wait.
    pub fn wait(&mut self, token: u64, name: &ExchangeId) -> bool {
        let fits = self.requesters.len() < self.ended.len();
        if fits {
            self.requesters.push(Requester { token, name: *name });
        }
        fits
    }

    /// Drops waiting queries whose token `filter` accepts.
    pub fn cancel(&mut self, mut filter: impl FnMut(u64) -> bool) {
        self.requesters.retain(|requester| !filter(requester.token));
    }
}
