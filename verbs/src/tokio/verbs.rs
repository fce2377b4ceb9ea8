//! A verb queue that tasks share.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use ::tokio::{task::coop, time::sleep};

use super::device::AsyncDevice;
use crate::{
    blocking::{Mismatch, committed, compared, nothing, word},
    error::{Error, Result},
    queue::{BUSY_PAUSE_MAX, Verbs, executed_on},
    remote::RemoteRegion,
    replay::GivenBack,
    target,
    verb::{
        CommitWord, Completion, Condition, Mode, Order, Outcome, Refusal, Target, Update, Verb,
        VerbId,
    },
};

/// A verb queue of an [`AsyncDevice`], shared by tasks: [`AsyncDevice::share`]. Each call is that
/// of [`Verbs`] without a timeout. Up to [`Verbs::depth`] verbs are in flight. Further calls wait
/// for room.
///
/// # Cancellation
/// A verb that was posted is executed, or refused, whether or not its future is dropped. Then its
/// completion is discarded. To drop a wait and keep the verb, use [`AsyncVerbs::post`]. Dropped
/// before it was posted, a verb is never executed.
///
/// # Busy words
/// A verb refused because a word is [busy](Refusal::Busy) is posted again after a millisecond, the
/// resolution of Tokio's timers, until it is accepted: so the runtime needs
/// [`enable_time`](::tokio::runtime::Builder::enable_time).
///
/// # Examples
/// ```no_run
/// use covalent::{Target, tokio::AsyncDevice};
///
/// # #[::tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), covalent::Error> {
/// let device = AsyncDevice::attach("/run/covalent/covalentd.sock", "example")?;
/// let verbs = device.share(device.verbs()?)?;
/// let bank = verbs.open_region(Target::Name("b"), "bank").await?;
/// // Two verbs in flight.
/// let (one, other) = tokio::join!(verbs.fetch_add(&bank, 0, 1), verbs.fetch_add(&bank, 8, 1));
/// println!("{} and {} before", one?, other?);
/// # Ok(())
/// # }
/// ```
pub struct AsyncVerbs<'d> {
    device: &'d AsyncDevice,
    verbs: RefCell<Verbs<'d>>,
    /// Tasks that wait for room in the queue.
    posting: Cell<usize>,
}

/// The errors of all calls are those of [`Verbs::execute`], except that of a full queue and those
/// after a timeout.
impl<'d> AsyncVerbs<'d> {
    pub(super) fn new(device: &'d AsyncDevice, verbs: Verbs<'d>) -> Result<Self> {
        device.check_device(verbs.device)?;
        Ok(Self {
            device,
            verbs: RefCell::new(verbs),
            posting: Cell::new(0),
        })
    }

    /// The queue alone.
    #[must_use]
    pub fn into_inner(self) -> Verbs<'d> {
        self.verbs.into_inner()
    }

    /// As [`Verbs::outstanding`].
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.verbs.borrow().outstanding()
    }

    /// Uses the queue. Wakes the other tasks if that took their completions from the pipe, or made
    /// the room that one of them waits for.
    pub(super) fn with<T>(&self, action: impl FnOnce(&mut Verbs<'d>) -> T) -> T {
        let mut verbs = self.verbs.borrow_mut();
        let (pumped, taken) = (verbs.pumped, verbs.outstanding());
        let result = action(&mut verbs);
        let makes_room = verbs.outstanding() < taken && self.posting.get() > 0;
        if makes_room || verbs.pumped != pumped {
            self.device.wake_tasks();
        }
        result
    }

    /// Posts a verb, as [`Verbs::post`]. Does not wait. [`PostedVerb::wait`] waits for its
    /// completion. It holds its entry of the queue until it is dropped.
    ///
    /// # Errors
    /// As [`Verbs::post`].
    pub fn post(
        &self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
    ) -> Result<PostedVerb<'_, 'd>> {
        let id = self.with(|verbs| verbs.post(region, verb, mode, 0))?;
        Ok(PostedVerb::new(self, id))
    }

    /// Posts a verb, waiting for room if necessary, and waits until it completes, as
    /// [`Verbs::execute`].
    ///
    /// # Errors
    /// See above.
    pub async fn execute(
        &self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
    ) -> Result<Completion> {
        self.run(region, verb, mode)
            .await
            .map(|(_, completion)| completion)
    }

    /// Executes a verb and keeps its entry, and with it the bytes that it read.
    async fn run(
        &self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
    ) -> Result<(PostedVerb<'_, 'd>, Completion)> {
        let mut given_back = GivenBack::default();
        loop {
            let mut posted = self.post_when_room(region, verb, mode).await?;
            let completion = posted.wait().await?;
            let is_passing = match completion.outcome {
                Outcome::Refused(Refusal::Busy) => true,
                // A stopping daemon refuses verbs that it never sent in this way.
                Outcome::Refused(Refusal::NoResources) => {
                    self.device.reconnects()
                        && given_back.may_be_an_end(self.verbs.borrow().generation)
                }
                _ => false,
            };
            if !is_passing {
                executed_on(self.device, region, &verb, completion.outcome)?;
                return Ok((posted, completion));
            }
            drop(posted);
            sleep(BUSY_PAUSE_MAX).await;
        }
    }

    async fn post_when_room(
        &self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
    ) -> Result<PostedVerb<'_, 'd>> {
        let _posting = Posting::new(&self.posting);
        let look = || self.with(|verbs| verbs.try_post(region, verb, mode));
        let id = self.device.until(look).await?;
        Ok(PostedVerb::new(self, id))
    }

    /// Looks up a region by its name on its node, as [`Verbs::open_region`]. For a target name it
    /// first blocks for a reply of the local daemon.
    ///
    /// # Errors
    /// As [`Verbs::open_region`].
    pub async fn open_region(&self, target: Target<'_>, name: &str) -> Result<RemoteRegion> {
        let node = target::resolve(self.verbs.borrow().device, target, None)?;
        let id = self.with(|verbs| verbs.post_lookup(node, name, 0))?;
        let mut posted = PostedVerb::new(self, id);
        let outcome = posted.wait().await?.outcome;
        let verbs = self.verbs.borrow();
        verbs.region_of(target, name, outcome)
    }

    /// As [`Verbs::read`].
    ///
    /// # Errors
    /// See above.
    pub async fn read(
        &self,
        region: &RemoteRegion,
        offset_bytes: u64,
        target: &mut [u8],
    ) -> Result<()> {
        let verb = Verb::Read {
            offset_bytes,
            len_bytes: u32::try_from(target.len()).unwrap_or(u32::MAX),
        };
        let (posted, _) = self.run(region, verb, Mode::TwoPhase).await?;
        let verbs = self.verbs.borrow();
        match verbs.data(posted.id) {
            Some(data) if data.len() == target.len() => {
                target.copy_from_slice(data);
                Ok(())
            }
            _ => Err(Error::BadReply),
        }
    }

    /// As [`Verbs::write`].
    ///
    /// # Errors
    /// See above.
    pub async fn write(&self, region: &RemoteRegion, offset_bytes: u64, data: &[u8]) -> Result<()> {
        nothing(self.one(region, Verb::Write { offset_bytes, data }).await?)
    }

    /// As [`Verbs::swap`].
    ///
    /// # Errors
    /// See above.
    pub async fn swap(&self, region: &RemoteRegion, offset_bytes: u64, new: u64) -> Result<u64> {
        word(self.one(region, Verb::Swap { offset_bytes, new }).await?)
    }

    /// As [`Verbs::compare_and_swap`].
    ///
    /// # Errors
    /// See above.
    pub async fn compare_and_swap(
        &self,
        region: &RemoteRegion,
        offset_bytes: u64,
        expected: u64,
        new: u64,
    ) -> Result<std::result::Result<u64, u64>> {
        let verb = Verb::CompareAndSwap {
            offset_bytes,
            expected,
            new,
        };
        compared(self.one(region, verb).await?)
    }

    /// As [`Verbs::fetch_add`].
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_add(
        &self,
        region: &RemoteRegion,
        offset_bytes: u64,
        delta: u64,
    ) -> Result<u64> {
        let verb = Verb::FetchAdd {
            offset_bytes,
            delta,
        };
        word(self.one(region, verb).await?)
    }

    /// As [`Verbs::fetch_and`].
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_and(
        &self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
    ) -> Result<u64> {
        word(
            self.one(region, Verb::FetchAnd { offset_bytes, mask })
                .await?,
        )
    }

    /// As [`Verbs::fetch_or`].
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_or(
        &self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
    ) -> Result<u64> {
        word(
            self.one(region, Verb::FetchOr { offset_bytes, mask })
                .await?,
        )
    }

    /// As [`Verbs::fetch_xor`].
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_xor(
        &self,
        region: &RemoteRegion,
        offset_bytes: u64,
        mask: u64,
    ) -> Result<u64> {
        word(
            self.one(region, Verb::FetchXor { offset_bytes, mask })
                .await?,
        )
    }

    /// As [`Verbs::fetch_min`].
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_min(
        &self,
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
        word(self.one(region, verb).await?)
    }

    /// As [`Verbs::fetch_max`].
    ///
    /// # Errors
    /// See above.
    pub async fn fetch_max(
        &self,
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
        word(self.one(region, verb).await?)
    }

    /// As [`Verbs::update_if`].
    ///
    /// # Errors
    /// See above.
    pub async fn update_if(
        &self,
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
        compared(self.one(region, verb).await?)
    }

    /// As [`Verbs::multi_commit`].
    ///
    /// # Errors
    /// See above.
    pub async fn multi_commit(
        &self,
        region: &RemoteRegion,
        words: &[CommitWord],
    ) -> Result<std::result::Result<(), Mismatch>> {
        committed(self.one(region, Verb::MultiCommit { words }).await?)
    }

    /// Sends a message to a receive queue, as [`Verbs::send`]. A full queue refuses it.
    ///
    /// # Errors
    /// See above.
    pub async fn send(&self, queue: &RemoteRegion, data: &[u8]) -> Result<()> {
        nothing(self.one(queue, Verb::Send { data }).await?)
    }

    async fn one(&self, region: &RemoteRegion, verb: Verb<'_>) -> Result<Outcome> {
        let completion = self.execute(region, verb, Mode::TwoPhase).await?;
        Ok(completion.outcome)
    }
}

impl fmt::Debug for AsyncVerbs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncVerbs")
            .field("verbs", &self.verbs)
            .finish_non_exhaustive()
    }
}

/// Counts a task that waits for room, until it is dropped.
struct Posting<'v>(&'v Cell<usize>);

impl<'v> Posting<'v> {
    fn new(posting: &'v Cell<usize>) -> Self {
        posting.set(posting.get() + 1);
        Self(posting)
    }
}

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A verb that was posted. Dropping it discards its completion, and frees its entry of the queue
/// when that has arrived. The verb is executed all the same.
#[derive(Debug)]
pub struct PostedVerb<'v, 'd> {
    verbs: &'v AsyncVerbs<'d>,
    id: VerbId,
    completion: Option<Completion>,
}

impl<'v, 'd> PostedVerb<'v, 'd> {
    const fn new(verbs: &'v AsyncVerbs<'d>, id: VerbId) -> Self {
        Self {
            verbs,
            id,
            completion: None,
        }
    }

    /// The verb's number.
    #[must_use]
    pub const fn id(&self) -> VerbId {
        self.id
    }

    /// Waits for the final completion, as [`Verbs::wait`]. Later calls return it again. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// [`Error::DaemonGone`](crate::Error::DaemonGone),
    /// [`Error::Unintelligible`](crate::Error::Unintelligible).
    pub async fn wait(&mut self) -> Result<Completion> {
        if let Some(completion) = self.completion {
            coop::consume_budget().await;
            return Ok(completion);
        }
        let Self { verbs, id, .. } = *self;
        let look = || verbs.with(|verbs| verbs.try_end_of(id));
        let completion = verbs.device.until(look).await?;
        self.completion = Some(completion);
        Ok(completion)
    }

    /// The bytes that the verb read; `None` if it read none, or has not completed.
    #[must_use]
    pub fn data(&self) -> Option<Vec<u8>> {
        self.completion?;
        Some(self.verbs.verbs.borrow().data(self.id)?.to_vec())
    }
}

impl Drop for PostedVerb<'_, '_> {
    fn drop(&mut self) {
        self.verbs.with(|verbs| verbs.let_go(self.id));
    }
}
