//! Exchanges that were in doubt and have ended: kept by name for whoever asks later, as many as there is room for.
//!
//! Only an exchange whose caller was told a name is kept. What is kept longest makes room for the next; of what is kept
//! no longer it is said that it is forgotten, never that it was not executed.

use alloc::{vec, vec::Vec};
use core::hash::{Hash, Hasher};

use crate::{ExchangeId, Host, Outcome, Refusal, payloads::Payloads};

/// What became of an exchange, told to who asked for it by its name. Final: who asks again hears the same, or that it is
/// forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Executed exactly once at the peer; with the peer's reply.
    Committed(&'a [u8]),
    /// Refused at message 1; nothing was executed.
    Refused(Refusal),
    /// Reversed by the peer: nothing was executed and nothing will be.
    Undone,
    /// The peer never saw it: nothing was executed and nothing will be.
    NeverSeen,
    /// Nobody can tell: one of the two nodes restarted, or the name is not kept any more. It was executed at most once.
    Forgotten,
}

impl<'a> From<Outcome<'a>> for Answer<'a> {
    fn from(outcome: Outcome<'a>) -> Self {
        match outcome {
            Outcome::Committed(reply) => Self::Committed(reply),
            Outcome::Refused(refusal) => Self::Refused(refusal),
            Outcome::PeerRestarted => Self::Forgotten,
        }
    }
}

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
struct Asker {
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
    askers: Vec<Asker>,
    /// What somebody may wait for ended without anybody being told.
    untold: bool,
}

/// What is left of replies that made room is of no account.
impl Hash for Names {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            ended,
            replies,
            oldest,
            askers,
            untold,
        } = self;
        (ended, oldest, askers, untold).hash(state);
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
    /// Room for `capacity` ended exchanges with replies of up to `reply_bytes_max` bytes, and for as many who wait.
    pub fn new(capacity: usize, reply_bytes_max: usize) -> Self {
        Self {
            ended: vec![None; capacity],
            replies: Payloads::new(capacity, reply_bytes_max),
            oldest: 0,
            askers: Vec::with_capacity(capacity),
            untold: false,
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

    /// An exchange with a name ended: who waits is told, and who asks later will be.
    #[cold]
    pub fn end(&mut self, name: &ExchangeId, answer: Answer<'_>, host: &mut impl Host) {
        self.askers.retain(|asker| {
            let waits = asker.name == *name;
            if waits {
                host.answered(asker.token, answer);
            }
            !waits
        });
        self.keep(name, answer);
    }

    /// An exchange with a name ended where nobody can be told: who waits is told by [`Names::tell`].
    pub fn note(&mut self, name: &ExchangeId, answer: Answer<'_>) {
        self.keep(name, answer);
        self.untold = true;
    }

    /// Tells those who wait for what was noted, or for what `lives` says is not there any more.
    pub fn tell(&mut self, lives: impl Fn(&ExchangeId) -> bool, host: &mut impl Host) {
        if !core::mem::take(&mut self.untold) {
            return;
        }
        let mut askers = core::mem::take(&mut self.askers);
        askers.retain(|asker| {
            let answer = self.get(&asker.name);
            if answer.is_none() && lives(&asker.name) {
                return true;
            }
            host.answered(asker.token, answer.unwrap_or(Answer::Forgotten));
            false
        });
        self.askers = askers;
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

    /// Notes who waits for the end of an exchange; `false` when as many wait as there is room for.
    pub fn wait(&mut self, token: u64, name: &ExchangeId) -> bool {
        let fits = self.askers.len() < self.ended.len();
        if fits {
            self.askers.push(Asker { token, name: *name });
        }
        fits
    }

    /// Those whose token `filter` accepts wait no longer.
    pub fn cancel(&mut self, mut filter: impl FnMut(u64) -> bool) {
        self.askers.retain(|asker| !filter(asker.token));
    }
}
