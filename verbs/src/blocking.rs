//! Blocking calls: each posts one verb in [two phases](Mode::TwoPhase) and waits for it. Words are
//! in the caller's byte order, and bytes are as in the region.
//!
//! A verb that is refused because one of its words is [busy](crate::Refusal::Busy) is posted again
//! until it is accepted or the timeout is over.
//!
//! If the timeout is over while the verb is in flight, the error is
//! [`Error::InDoubt`](crate::Error::InDoubt) with the verb's number. The completion arrives later,
//! from [`Verbs::wait`] or [`Verbs::poll`]. If it is over before, the error is
//! [`Error::Deadline`](crate::Error::Deadline), and nothing was posted.

use std::time::Instant;

use crate::{
    error::{Error, Result},
    queue::{Verbs, nonsense},
    remote::RemoteRegion,
    timeout::{Timeout, deadline},
    verb::{CommitWord, Condition, Mode, Order, Outcome, Update, Verb},
};

/// The first word of a multi-commit that was not as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// Its place among the words given, from 0.
    pub index: u16,
    /// Value that it held.
    pub found: u64,
}

/// Calls that block: each is one verb in two phases. [`Verbs::execute`] chooses the mode.
///
/// All these methods return [`Error::VerbRefused`](crate::Error::VerbRefused),
/// [`Error::NoSuchPeer`](crate::Error::NoSuchPeer),
/// [`Error::PeerRestarted`](crate::Error::PeerRestarted) and
/// [`Error::DaemonGone`](crate::Error::DaemonGone). After `timeout` they return
/// [`Error::Deadline`](crate::Error::Deadline) or [`Error::InDoubt`](crate::Error::InDoubt). They
/// return
/// [`Error::Invalid`](crate::Error::Invalid) for a verb that no node would execute, and
/// [`Error::QueueFull`](crate::Error::QueueFull) if as many verbs are in flight as the queue
/// accepts.
impl Verbs<'_> {
    /// Fills `target` with bytes of the region, 1 to
    /// [`READ_BYTES_MAX`](crate::READ_BYTES_MAX): see [`Verb::Read`]. The
    /// words among them are little-endian.
    ///
    /// # Errors
    /// See above.
    pub fn read(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        target: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        let verb = Verb::Read {
            offset_bytes,
            len_bytes: u32::try_from(target.len()).unwrap_or(u32::MAX),
        };
        let completion = self.execute_until(region, verb, Mode::TwoPhase, deadline(timeout))?;
        match self.data(completion.id) {
            Some(data) if data.len() == target.len() => {
                target.copy_from_slice(data);
                Ok(())
            }
            _ => Err(Error::BadReply),
        }
    }

    /// Writes bytes: see [`Verb::Write`]. The words among them are little-endian.
    ///
    /// # Errors
    /// See above.
    pub fn write(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        data: &[u8],
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        nothing(self.one(
            region,
            Verb::Write { offset_bytes, data },
            deadline(timeout),
        )?)
    }

    /// Writes a word and returns its previous value: see [`Verb::Swap`].
    ///
    /// # Errors
    /// See above.
    pub fn swap(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        new: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        word(self.one(region, Verb::Swap { offset_bytes, new }, deadline(timeout))?)
    }

    /// Writes `new` if the word holds `expected`. The inner result is `Ok` with the previous value
    /// if the word was written, otherwise `Err` with the current value. See
    /// [`Verb::CompareAndSwap`].
    ///
    /// # Errors
    /// See above.
    pub fn compare_and_swap(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        expected: u64,
        new: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<std::result::Result<u64, u64>> {
        compared(self.one(
            region,
            Verb::CompareAndSwap {
                offset_bytes,
                expected,
                new,
            },
            deadline(timeout),
        )?)
    }

    /// Adds to a word in two phases, wrapping, and returns its previous value: see
    /// [`Verb::FetchAdd`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_add(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        delta: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        word(self.one(
            region,
            Verb::FetchAdd {
                offset_bytes,
                delta,
            },
            deadline(timeout),
        )?)
    }

    /// Performs a bitwise AND of a word with a mask and returns the word's previous value: see
    /// [`Verb::FetchAnd`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_and(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        word(self.one(
            region,
            Verb::FetchAnd { offset_bytes, mask },
            deadline(timeout),
        )?)
    }

    /// Performs a bitwise OR of a word with a mask and returns the word's previous value: see
    /// [`Verb::FetchOr`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_or(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        word(self.one(
            region,
            Verb::FetchOr { offset_bytes, mask },
            deadline(timeout),
        )?)
    }

    /// Performs a bitwise XOR of a word with a mask and returns the word's previous value: see
    /// [`Verb::FetchXor`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_xor(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        word(self.one(
            region,
            Verb::FetchXor { offset_bytes, mask },
            deadline(timeout),
        )?)
    }

    /// Sets a word to the minimum of the word and `operand` and returns its previous value: see
    /// [`Verb::FetchMin`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_min(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        operand: u64,
        order: Order,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        let verb = Verb::FetchMin {
            offset_bytes,
            operand,
            order,
        };
        word(self.one(region, verb, deadline(timeout))?)
    }

    /// Sets a word to the maximum of the word and `operand` and returns its previous value: see
    /// [`Verb::FetchMax`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_max(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        operand: u64,
        order: Order,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        let verb = Verb::FetchMax {
            offset_bytes,
            operand,
            order,
        };
        word(self.one(region, verb, deadline(timeout))?)
    }

    /// Updates a word if it meets `condition`. The inner result is `Ok` with the previous value if
    /// the word was updated, otherwise `Err` with the current value. See [`Verb::Conditional`].
    ///
    /// # Errors
    /// See above.
    pub fn update_if(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        condition: Condition,
        update: Update,
        timeout: impl Into<Timeout>,
    ) -> Result<std::result::Result<u64, u64>> {
        let verb = Verb::Conditional {
            offset_bytes,
            condition,
            update,
        };
        compared(self.one(region, verb, deadline(timeout))?)
    }

    /// Sets all words if each holds its expected value, otherwise none. In the second case the
    /// inner result is an error. See [`Verb::MultiCommit`].
    ///
    /// # Errors
    /// See above.
    pub fn multi_commit(
        &mut self,
        region: &RemoteRegion,
        words: &[CommitWord],
        timeout: impl Into<Timeout>,
    ) -> Result<std::result::Result<(), Mismatch>> {
        committed(self.one(region, Verb::MultiCommit { words }, deadline(timeout))?)
    }

    /// Sends a message to a receive queue: see [`Verb::Send`]. When this returns, the message is in
    /// the queue, and the receiver may already have taken it.
    ///
    /// The call does not wait for a full queue: it returns
    /// [`Error::VerbRefused`](crate::Error::VerbRefused) with
    /// [`Refusal::QueueFull`](crate::Refusal::QueueFull), and the message was not sent.
    ///
    /// # Errors
    /// See above.
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use covalent::{Device, Target};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let orders = verbs.open_region(Target::Name("b"), "orders", Duration::from_secs(1))?;
    /// verbs.send(&orders, b"12 crates of apples", Duration::from_secs(1))?;
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn send(
        &mut self,
        queue: &RemoteRegion,
        data: &[u8],
        timeout: impl Into<Timeout>,
    ) -> Result<()> {
        nothing(self.one(queue, Verb::Send { data }, deadline(timeout))?)
    }

    fn one(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        deadline: Option<Instant>,
    ) -> Result<Outcome> {
        let completion = self.execute_until(region, verb, Mode::TwoPhase, deadline)?;
        Ok(completion.outcome)
    }
}

/// The previous value of an atomic verb's word.
pub(crate) fn word(outcome: Outcome) -> Result<u64> {
    match outcome {
        Outcome::Old(old) => Ok(old),
        outcome => Err(nonsense("an atomic verb", &outcome)),
    }
}

pub(crate) fn nothing(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        outcome => Err(nonsense("a verb without an answer", &outcome)),
    }
}

/// As [`word`], or the value that did not match.
pub(crate) fn compared(outcome: Outcome) -> Result<std::result::Result<u64, u64>> {
    match outcome {
        Outcome::Old(old) => Ok(Ok(old)),
        Outcome::Mismatch { found, .. } => Ok(Err(found)),
        outcome => Err(nonsense("a conditional verb", &outcome)),
    }
}

pub(crate) fn committed(outcome: Outcome) -> Result<std::result::Result<(), Mismatch>> {
    match outcome {
        Outcome::Done => Ok(Ok(())),
        Outcome::Mismatch { index, found } => Ok(Err(Mismatch { index, found })),
        outcome => Err(nonsense("a multi-commit", &outcome)),
    }
}
