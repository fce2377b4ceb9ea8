//! Blocking calls: each posts one verb in two phases and waits for it. Words are in the caller's
//! byte order, and bytes are as in the region.
//!
//! A verb that is refused because one of its words is [busy](crate::Refusal::Busy) is posted again
//! until it is accepted or the deadline passes.
//!
//! Each call has a variant with a deadline. If it passes while the verb is in flight, the error is
//! [`Error::InDoubt`](crate::Error::InDoubt) with the verb's number. The completion arrives later,
//! from [`Verbs::wait`] or [`Verbs::poll`]. If it passes before, the error is
//! [`Error::Deadline`](crate::Error::Deadline), and nothing was posted.

use std::time::Instant;

use crate::{
    error::Result,
    queue::{Verbs, nonsense},
    remote::RemoteRegion,
    verb::{CommitWord, Condition, Mode, Order, Outcome, Update, Verb},
};

/// The first word of a multi-commit that was not as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Its place among the words given, from 0.
    pub index: u16,
    /// Value that it held.
    pub found: u64,
}

/// All these methods return [`Error::VerbRefused`](crate::Error::VerbRefused),
/// [`Error::NoSuchPeer`](crate::Error::NoSuchPeer),
/// [`Error::PeerRestarted`](crate::Error::PeerRestarted) and
/// [`Error::DaemonGone`](crate::Error::DaemonGone). They return
/// [`Error::Invalid`](crate::Error::Invalid) for a verb that no node would execute, and
/// [`Error::QueueFull`](crate::Error::QueueFull) if as many verbs are in flight as the queue
/// accepts.
impl Verbs<'_> {
    /// Reads `len_bytes` bytes: see [`Verb::Read`]. The words among them are little-endian.
    ///
    /// # Errors
    /// See above.
    pub fn read(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        len_bytes: u32,
    ) -> Result<Box<[u8]>> {
        self.data(
            region,
            Verb::Read {
                offset_bytes,
                len_bytes,
            },
            None,
        )
    }

    /// As [`Verbs::read`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read`], and [`Error::Deadline`](crate::Error::Deadline),
    /// [`Error::InDoubt`](crate::Error::InDoubt). The same applies to all variants with a deadline.
    pub fn read_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        len_bytes: u32,
        deadline: Instant,
    ) -> Result<Box<[u8]>> {
        self.data(
            region,
            Verb::Read {
                offset_bytes,
                len_bytes,
            },
            Some(deadline),
        )
    }

    /// Writes bytes: see [`Verb::Write`]. The words among them are little-endian.
    ///
    /// # Errors
    /// See above.
    pub fn write(&mut self, region: &RemoteRegion, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.nothing(region, Verb::Write { offset_bytes, data }, None)
    }

    /// As [`Verbs::write`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn write_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        data: &[u8],
        deadline: Instant,
    ) -> Result<()> {
        self.nothing(region, Verb::Write { offset_bytes, data }, Some(deadline))
    }

    /// Writes a word and returns its previous value: see [`Verb::Swap`].
    ///
    /// # Errors
    /// See above.
    pub fn swap(&mut self, region: &RemoteRegion, offset_bytes: u64, new: u64) -> Result<u64> {
        self.word(region, Verb::Swap { offset_bytes, new }, None)
    }

    /// As [`Verbs::swap`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn swap_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        new: u64,
        deadline: Instant,
    ) -> Result<u64> {
        self.word(region, Verb::Swap { offset_bytes, new }, Some(deadline))
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
    ) -> Result<std::result::Result<u64, u64>> {
        self.compared(
            region,
            Verb::CompareAndSwap {
                offset_bytes,
                expected,
                new,
            },
            None,
        )
    }

    /// As [`Verbs::compare_and_swap`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn compare_and_swap_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        expected: u64,
        new: u64,
        deadline: Instant,
    ) -> Result<std::result::Result<u64, u64>> {
        self.compared(
            region,
            Verb::CompareAndSwap {
                offset_bytes,
                expected,
                new,
            },
            Some(deadline),
        )
    }

    /// Adds to a word, wrapping, and returns its previous value: see [`Verb::FetchAdd`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_add(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        delta: u64,
    ) -> Result<u64> {
        self.word(
            region,
            Verb::FetchAdd {
                offset_bytes,
                delta,
            },
            None,
        )
    }

    /// As [`Verbs::fetch_add`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn fetch_add_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        delta: u64,
        deadline: Instant,
    ) -> Result<u64> {
        self.word(
            region,
            Verb::FetchAdd {
                offset_bytes,
                delta,
            },
            Some(deadline),
        )
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
    ) -> Result<u64> {
        self.word(region, Verb::FetchAnd { offset_bytes, mask }, None)
    }

    /// As [`Verbs::fetch_and`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn fetch_and_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
        deadline: Instant,
    ) -> Result<u64> {
        self.word(
            region,
            Verb::FetchAnd { offset_bytes, mask },
            Some(deadline),
        )
    }

    /// Performs a bitwise OR of a word with a mask and returns the word's previous value: see
    /// [`Verb::FetchOr`].
    ///
    /// # Errors
    /// See above.
    pub fn fetch_or(&mut self, region: &RemoteRegion, offset_bytes: u64, mask: u64) -> Result<u64> {
        self.word(region, Verb::FetchOr { offset_bytes, mask }, None)
    }

    /// As [`Verbs::fetch_or`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn fetch_or_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
        deadline: Instant,
    ) -> Result<u64> {
        self.word(region, Verb::FetchOr { offset_bytes, mask }, Some(deadline))
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
    ) -> Result<u64> {
        self.word(region, Verb::FetchXor { offset_bytes, mask }, None)
    }

    /// As [`Verbs::fetch_xor`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn fetch_xor_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
        deadline: Instant,
    ) -> Result<u64> {
        self.word(
            region,
            Verb::FetchXor { offset_bytes, mask },
            Some(deadline),
        )
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
    ) -> Result<u64> {
        let verb = Verb::FetchMin {
            offset_bytes,
            operand,
            order,
        };
        self.word(region, verb, None)
    }

    /// As [`Verbs::fetch_min`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn fetch_min_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        operand: u64,
        order: Order,
        deadline: Instant,
    ) -> Result<u64> {
        let verb = Verb::FetchMin {
            offset_bytes,
            operand,
            order,
        };
        self.word(region, verb, Some(deadline))
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
    ) -> Result<u64> {
        let verb = Verb::FetchMax {
            offset_bytes,
            operand,
            order,
        };
        self.word(region, verb, None)
    }

    /// As [`Verbs::fetch_max`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn fetch_max_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        operand: u64,
        order: Order,
        deadline: Instant,
    ) -> Result<u64> {
        let verb = Verb::FetchMax {
            offset_bytes,
            operand,
            order,
        };
        self.word(region, verb, Some(deadline))
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
    ) -> Result<std::result::Result<u64, u64>> {
        let verb = Verb::Conditional {
            offset_bytes,
            condition,
            update,
        };
        self.compared(region, verb, None)
    }

    /// As [`Verbs::update_if`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn update_if_deadline(
        &mut self,
        region: &RemoteRegion,
        offset_bytes: u64,
        condition: Condition,
        update: Update,
        deadline: Instant,
    ) -> Result<std::result::Result<u64, u64>> {
        let verb = Verb::Conditional {
            offset_bytes,
            condition,
            update,
        };
        self.compared(region, verb, Some(deadline))
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
    ) -> Result<std::result::Result<(), Mismatch>> {
        self.committed(region, words, None)
    }

    /// As [`Verbs::multi_commit`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn multi_commit_deadline(
        &mut self,
        region: &RemoteRegion,
        words: &[CommitWord],
        deadline: Instant,
    ) -> Result<std::result::Result<(), Mismatch>> {
        self.committed(region, words, Some(deadline))
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
    /// use covalent_verbs::{Device, Target};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let orders = verbs.open_region(Target::Name("b"), "orders")?; // a receive queue of node b
    /// verbs.send(&orders, b"12 crates of apples")?;
    /// # Ok::<(), covalent_verbs::Error>(())
    /// ```
    pub fn send(&mut self, queue: &RemoteRegion, data: &[u8]) -> Result<()> {
        self.nothing(queue, Verb::Send { data }, None)
    }

    /// As [`Verbs::send`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::read_deadline`].
    pub fn send_deadline(
        &mut self,
        queue: &RemoteRegion,
        data: &[u8],
        deadline: Instant,
    ) -> Result<()> {
        self.nothing(queue, Verb::Send { data }, Some(deadline))
    }

    fn one(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        deadline: Option<Instant>,
    ) -> Result<Outcome> {
        self.execute_until(region, verb, Mode::TwoPhase, deadline)
    }

    fn word(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        deadline: Option<Instant>,
    ) -> Result<u64> {
        match self.one(region, verb, deadline)? {
            Outcome::Old(old) => Ok(old),
            outcome => Err(nonsense("an atomic verb", &outcome)),
        }
    }

    fn data(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        deadline: Option<Instant>,
    ) -> Result<Box<[u8]>> {
        match self.one(region, verb, deadline)? {
            Outcome::Data(data) => Ok(data),
            outcome => Err(nonsense("a read", &outcome)),
        }
    }

    fn nothing(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        deadline: Option<Instant>,
    ) -> Result<()> {
        match self.one(region, verb, deadline)? {
            Outcome::Done => Ok(()),
            outcome => Err(nonsense("a verb without an answer", &outcome)),
        }
    }

    fn compared(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        deadline: Option<Instant>,
    ) -> Result<std::result::Result<u64, u64>> {
        match self.one(region, verb, deadline)? {
            Outcome::Old(old) => Ok(Ok(old)),
            Outcome::Mismatch { found, .. } => Ok(Err(found)),
            outcome => Err(nonsense("a conditional verb", &outcome)),
        }
    }

    fn committed(
        &mut self,
        region: &RemoteRegion,
        words: &[CommitWord],
        deadline: Option<Instant>,
    ) -> Result<std::result::Result<(), Mismatch>> {
        match self.one(region, Verb::MultiCommit { words }, deadline)? {
            Outcome::Done => Ok(Ok(())),
            Outcome::Mismatch { index, found } => Ok(Err(Mismatch { index, found })),
            outcome => Err(nonsense("a multi-commit", &outcome)),
        }
    }
}
