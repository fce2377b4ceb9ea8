//! The verb queue: posting verbs and taking their completions.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{guid::Guid, request::PipeKind};
use covalent_pipe::app;
use covalent_protocol::verb::{
    self as codec,
    doubt::DoubtQuery,
    envelope::{
        COMPLETION_BYTES_MAX, Completion as Envelope, CompletionOutcome, SUBMIT_BYTES_MAX, Submit,
    },
    watch::Watch,
};

use crate::{
    device::Device,
    error::{Error, Result, broken, foreign},
    in_doubt::InDoubtId,
    outstanding::{Answer, Found, Outstanding, Posted},
    reads::Reads,
    remote::RemoteRegion,
    replay::{self, GivenBack},
    stamp::Stamp,
    target,
    timeout::{Timeout, deadline},
    tx::wait_for_room,
    verb::{Completion, Mode, Outcome, Refusal, Target, Verb, VerbId},
    wire::{self, Decoded},
};

/// Default number of verbs in flight in a queue.
pub const VERBS_DEPTH: u32 = 256;

/// Most verbs that a queue can be made to take at a time.
pub const VERBS_DEPTH_MAX: u32 = 16_384;

/// Smallest pipe that the daemon makes, in bytes.
const PIPE_BYTES_MIN: u64 = 64 * 1024;

/// Ring bytes of a typical submission, an atomic verb. A queue with only longer verbs is full
/// sooner.
const SUBMIT_BYTES_USUAL: u64 = 64;

/// Ring bytes of the longest submission.
const SUBMIT_BYTES_WORST: u64 = (SUBMIT_BYTES_MAX + 64) as u64;

/// Ring bytes of the longest completion and of the notice of doubt that may come before it.
const COMPLETION_BYTES_WORST: u64 = (COMPLETION_BYTES_MAX.next_multiple_of(64) + 64) as u64;

/// First and longest pause before a busy verb is posted again: one or two round trips, and a bound
/// on needless waiting.
const BUSY_PAUSE_MIN: Duration = Duration::from_micros(10);
pub(crate) const BUSY_PAUSE_MAX: Duration = Duration::from_millis(1);

/// A queue of verbs. Post verbs with a number of your own, and take completions that carry it.
///
/// Use it only on its device's thread. Words are in the caller's byte order. Read and written as
/// bytes, they are little-endian. Completions have the order in which the verbs completed, not the
/// order of posting. Every verb is executed exactly once or refused, and has exactly one final
/// completion. [`Outcome`] lists the other cases. The number in flight is bounded
/// ([`Verbs::depth`]). Beyond it posting is refused, so no queue grows without bound.
///
/// Every verb also has a blocking call with a [`Timeout`]. Blocking calls and posted verbs may be
/// mixed. Completions of posted verbs are then kept for the next [`Verbs::poll`].
///
/// When the queue is dropped, or the daemon stops, verbs in flight still complete at the other
/// node, but their outcome is not reported.
///
/// # Examples
/// ```no_run
/// use covalent::{Completion, Device, Mode, Target, Timeout, Verb};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut verbs = device.verbs()?;
/// let bank = verbs.open_region(Target::Name("b"), "bank", Timeout::FOREVER)?;
///
/// // Blocking.
/// let before = verbs.fetch_add(&bank, 0, 1, Timeout::FOREVER)?;
///
/// // Sixteen at a time.
/// for user_data in 0..16 {
///     verbs.post(&bank, Verb::FetchAdd { offset_bytes: 0, delta: 1 }, Mode::TwoPhase, user_data)?;
/// }
/// let mut completions = vec![Completion::default(); 16];
/// while verbs.outstanding() > 0 {
///     let taken = verbs.poll(&mut completions, Timeout::FOREVER)?;
///     for completion in &completions[..taken] {
///         println!("{}: {:?}", completion.user_data, completion.outcome);
///     }
/// }
/// # Ok::<(), covalent::Error>(())
/// ```
#[derive(Debug)]
pub struct Verbs<'d> {
    pub(crate) device: &'d Device,
    submit_id: u32,
    submit: app::TxPipe,
    complete_id: u32,
    complete: app::RxPipe,
    outstanding: Outstanding,
    /// Completions taken from the pipe and not by the caller: at most a notice of doubt and a final
    /// one for each entry of the table.
    arrived: VecDeque<Completion>,
    /// What the application's reads returned.
    reads: Reads,
    last_stamp: Stamp,
    /// The daemon incarnation that the pipes belong to.
    pub(crate) generation: u32,
    /// Completions that left the pipe so far.
    pub(crate) pumped: u64,
}

impl<'d> Verbs<'d> {
    pub(crate) fn open(device: &'d Device, depth: u32) -> Result<Self> {
        if !(1..=VERBS_DEPTH_MAX).contains(&depth) {
            return Err(Error::Invalid(format!(
                "a verb queue of depth {depth}: expected 1 to {VERBS_DEPTH_MAX}"
            )));
        }
        // The larger first: the daemon takes no verb before there is a pipe for its completion.
        let complete_bytes = pipe_bytes(depth, COMPLETION_BYTES_WORST);
        let mut complete = device.open_pipe(PipeKind::VerbComplete, complete_bytes, None)?;
        let generation = device.generation();
        let submit_bytes = pipe_bytes(depth, SUBMIT_BYTES_USUAL);
        let submit = match device.open_submit_pipe(submit_bytes, complete.id) {
            Ok(submit) => submit,
            Err(error) => {
                device.close_pipe(complete.id);
                return Err(error);
            }
        };
        // The daemon was gone and came back in between. Completions arrive in the memory of the
        // next daemon.
        if device.generation() != generation {
            let (_, renewed) = device.take_next_memory(complete.id)?;
            complete.memory = renewed.memory;
        }
        Ok(Self {
            device,
            submit_id: submit.id,
            submit: app::TxPipe::new(submit.memory).map_err(foreign)?,
            complete_id: complete.id,
            complete: app::RxPipe::new(complete.memory).map_err(foreign)?,
            outstanding: Outstanding::new(depth),
            arrived: VecDeque::with_capacity(2 * depth as usize),
            reads: Reads::default(),
            last_stamp: Stamp::default(),
            generation: device.generation(),
            pumped: 0,
        })
    }

    /// Returns the number of verbs in flight, including those whose final completion waits to be
    /// taken.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Verbs that the queue takes at a time.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.outstanding.depth()
    }

    /// Whether a verb of any length can be posted now. Else completions must be taken first, or the
    /// lane must take verbs from the pipe. For a program that creates a verb only if it can post
    /// it.
    pub fn has_room(&mut self) -> bool {
        self.outstanding.len() < self.outstanding.depth()
            && self.submit.free_bytes() >= SUBMIT_BYTES_WORST
    }

    /// Returns the bytes that the read `id` returned, after its completion was returned. `None` if
    /// the verb read nothing, or if a later read took their place. That happens at the earliest in
    /// the next call that takes completions or waits for a verb.
    #[must_use]
    pub fn data(&self, id: VerbId) -> Option<&[u8]> {
        self.reads.get(id)
    }

    /// Returns the stamp of the completion that was returned last. After a blocking call this is
    /// the stamp of its verb.
    #[must_use]
    pub const fn last_stamp(&self) -> Stamp {
        self.last_stamp
    }

    /// Looks up a region by its name on its node. Blocks for the reply. For a target name, this
    /// first queries the local daemon for the node, at most for the time of
    /// [`Device::set_request_timeout`].
    ///
    /// # Errors
    /// [`Error::UnknownNode`], [`Error::NoSuchPeer`], [`Error::VerbRefused`] with
    /// [`Refusal::UnknownRegion`], [`Error::QueueFull`], [`Error::DaemonGone`].
    /// [`Error::Deadline`] after `timeout`. Its text reports whether a path to the node is up, for
    /// which it queries the local daemon for at most 50 ms more.
    pub fn open_region(
        &mut self,
        target: Target<'_>,
        name: &str,
        timeout: impl Into<Timeout>,
    ) -> Result<RemoteRegion> {
        self.open_region_until(target, name, deadline(timeout))
    }

    fn open_region_until(
        &mut self,
        target: Target<'_>,
        name: &str,
        deadline: Option<Instant>,
    ) -> Result<RemoteRegion> {
        let node = target::resolve(self.device, target, deadline)?;
        let id = self.post_lookup(node, name, 0)?;
        let outcome = match self.wait_until(id, deadline) {
            Err(Error::InDoubt { .. }) => {
                // A lookup changes nothing, so its outcome is not needed.
                self.outstanding.disown(id);
                self.arrived.retain(|completion| completion.id != id);
                return Err(Error::Deadline {
                    what: target::why_no_answer(self.device, node).into(),
                });
            }
            completion => completion?.outcome,
        };
        self.region_of(target, name, outcome)
    }

    /// Posts the lookup of a region or receive queue by its name (1 to 32 bytes) on a node. `node`
    /// is the address of its lane, or `None` for the device's lane. Completes with
    /// [`Outcome::Region`], or with [`Refusal::UnknownRegion`] if there is none. A lookup changes
    /// nothing: it may be repeated after any other outcome. Does not block. For one region,
    /// [`Verbs::open_region`] is simpler. [`Device::find_node`] returns the address of a named
    /// node.
    ///
    /// # Errors
    /// As [`Verbs::post`]. [`Error::Invalid`] for a name that no region can have.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::{Completion, Device, Outcome, Timeout};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// // Which neighbors have a region `bank`? All are asked at the same time.
    /// for link in device.status()?.links {
    ///     verbs.post_lookup(link.peer, "bank", 0)?;
    /// }
    /// let mut completions = [Completion::default(); 16];
    /// while verbs.outstanding() > 0 {
    ///     let taken = verbs.poll(&mut completions, Timeout::FOREVER)?;
    ///     for completion in &completions[..taken] {
    ///         if let Outcome::Region(bank) = completion.outcome {
    ///             println!("{} bytes at {:?}", bank.size_bytes(), bank.node());
    ///         }
    ///     }
    /// }
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn post_lookup(
        &mut self,
        node: Option<Guid>,
        name: &str,
        user_data: u64,
    ) -> Result<VerbId> {
        let id = self.put_lookup(node, name, user_data)?;
        self.ring()?;
        Ok(id)
    }

    /// Posts a watch of the path to a node, from an application that knows the node as reachable
    /// (`known_up`) or unreachable. Completes with [`Outcome::Path`] once the node's reachability
    /// differs from that, at once if it does already. The completion may take forever. A node that
    /// was never met is unreachable, and the own node is always reachable. Does not block.
    ///
    /// A watch holds its entry of the queue, and counts as a verb in flight, until it completes. A
    /// session has 64 watches, a lane 256: it refuses others as [`Refusal::NoResources`]. If the
    /// device [reconnected](Device::set_reconnect), it may complete as [`Outcome::Forgotten`]: post
    /// it again.
    ///
    /// # Errors
    /// [`Error::QueueFull`], [`Error::DaemonGone`]. On an error nothing was posted.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::{Device, Outcome, Target, Timeout};
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let bank = verbs.open_region(Target::Name("b"), "bank", Timeout::FOREVER)?;
    /// let mut is_up = true;
    /// if let Some(node) = bank.node() {
    ///     loop {
    ///         let id = verbs.post_watch(node, is_up, 0)?;
    ///         if let Outcome::Path { up } = verbs.wait(id, Timeout::FOREVER)?.outcome {
    ///             println!("{node} is {}", if up { "reachable" } else { "unreachable" });
    ///             is_up = up;
    ///         }
    ///     }
    /// }
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn post_watch(&mut self, node: Guid, known_up: bool, user_data: u64) -> Result<VerbId> {
        let id = self.put_watch(node, known_up, user_data)?;
        self.ring()?;
        Ok(id)
    }

    /// Puts a lookup into the pipe. The lane sees it after [`Verbs::ring`].
    pub(crate) fn put_lookup(
        &mut self,
        node: Option<Guid>,
        name: &str,
        user_data: u64,
    ) -> Result<VerbId> {
        let request = codec::Request {
            rkey: 0,
            offset: 0,
            verb: codec::Verb::Lookup { name },
        };
        let target = node.map_or(0, Guid::bits);
        self.put(target, &request, Mode::OnePhase, user_data)
    }

    /// Puts a watch into the pipe. The lane sees it after [`Verbs::ring`].
    pub(crate) fn put_watch(
        &mut self,
        node: Guid,
        known_up: bool,
        user_data: u64,
    ) -> Result<VerbId> {
        self.device.check_process()?;
        self.follow()?;
        let posted = Posted {
            user_data,
            answer: Answer::Path,
        };
        let Some(id) = self.outstanding.open(posted) else {
            return Err(self.full());
        };
        let watch = Watch {
            user_data: id.number(),
            target: node.bits(),
            known_up,
        };
        let written = self.submit.reserve(Watch::BYTES).ok().and_then(|mut room| {
            watch.encode(&mut room).ok()?;
            room.commit();
            Some(())
        });
        self.keep(id, written)
    }

    /// The region that a lookup found on `target`.
    pub(crate) fn region_of(
        &self,
        target: Target<'_>,
        name: &str,
        outcome: Outcome,
    ) -> Result<RemoteRegion> {
        let found = executed(outcome, |_| {
            let node = match target {
                Target::Local => self.device.lane_name(),
                node => node.to_string(),
            };
            (node, format!("`{name}`"))
        })?;
        match found {
            Outcome::Region(region) => Ok(region),
            other => Err(nonsense("a lookup", &other)),
        }
    }

    /// Posts a verb. Its completions carry `user_data`, which this library does not interpret and
    /// which need not be unique. Does not block.
    ///
    /// # Errors
    /// - [`Error::QueueFull`] if no more verbs can be in flight.
    /// - [`Error::Invalid`] for a misaligned offset or one beyond 2³², an empty or too long range,
    ///   and no words or too many.
    /// - [`Error::DaemonGone`].
    ///
    /// On an error nothing was posted.
    pub fn post(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        let id = self.put_verb(region, verb, mode, user_data)?;
        self.ring()?;
        Ok(id)
    }

    /// Puts a verb into the pipe. The lane sees it after [`Verbs::ring`].
    pub(crate) fn put_verb(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        wire::with_request(region.rkey(), verb, |request| {
            self.put(region.target(), request, mode, user_data)
        })?
    }

    fn put(
        &mut self,
        target: u64,
        request: &codec::Request<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        request
            .check()
            .map_err(|error| wire::invalid(&request.verb, error))?;
        self.device.check_process()?;
        // Else it would be posted to a daemon that is no more.
        self.follow()?;
        let posted = Posted {
            user_data,
            answer: wire::answer(&request.verb),
        };
        let Some(id) = self.outstanding.open(posted) else {
            return Err(self.full());
        };
        let reserved = self.submit.reserve(Submit::encoded_bytes_of(request));
        let written = reserved.ok().and_then(|mut room| {
            Submit::encode_request(&mut room, id.number(), target, mode, request).ok()?;
            room.commit();
            Some(())
        });
        self.keep(id, written)
    }

    /// Queries the outcome of a verb in doubt by the in-doubt id from [`Outcome::InDoubt`]. Another
    /// program of the same user may have posted the verb. Does not block.
    ///
    /// The completion has the outcome that the verb's completion would have, or
    /// [`Outcome::Undone`], [`Outcome::NeverSeen`], [`Outcome::Forgotten`]. While no path leads to
    /// the other node, it is [`Outcome::InDoubt`] once more. Another completion follows when a path
    /// returns.
    ///
    /// If the program that posted the verb is still running, it receives its completion as usual. A
    /// reversed verb is applied again for that program, and the query then completes after it.
    ///
    /// # Errors
    /// - [`Error::QueueFull`], [`Error::DaemonGone`].
    /// - [`Error::Invalid`] for bytes that were never an in-doubt id.
    ///
    /// On an error no query was sent.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::{Device, InDoubtId, Outcome, Timeout};
    ///
    /// // An earlier run of this program stored the id of `Outcome::InDoubt`, and exited.
    /// let written: [u8; InDoubtId::BYTES] =
    ///     std::fs::read("in-doubt")?.try_into().expect("24 bytes");
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let id = verbs.query_in_doubt(&InDoubtId::from_bytes(&written), 0)?;
    /// match verbs.wait(id, Timeout::FOREVER)?.outcome {
    ///     Outcome::Undone | Outcome::NeverSeen => println!("it was not executed: post it again"),
    ///     Outcome::Forgotten => println!("unknown: inspect the words that it would have changed"),
    ///     executed => println!("it was executed once: {executed:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn query_in_doubt(&mut self, in_doubt: &InDoubtId, user_data: u64) -> Result<VerbId> {
        self.device.check_process()?;
        let posted = Posted {
            user_data,
            answer: Answer::of_note(in_doubt.note())?,
        };
        let Some(id) = self.outstanding.open(posted) else {
            return Err(self.full());
        };
        let query_in_doubt = DoubtQuery {
            user_data: id.number(),
            in_doubt: in_doubt.on_the_wire(),
        };
        let written = self
            .submit
            .reserve(DoubtQuery::BYTES)
            .ok()
            .and_then(|mut room| {
                query_in_doubt.encode(&mut room).ok()?;
                room.commit();
                Some(())
            });
        let id = self.keep(id, written)?;
        self.ring()?;
        Ok(id)
    }

    /// Keeps the number `id` if the verb was written. Otherwise frees it.
    fn keep(&mut self, id: VerbId, written: Option<()>) -> Result<VerbId> {
        if written.is_none() {
            self.outstanding.abandon(id);
            return Err(self.full());
        }
        Ok(id)
    }

    /// Publishes the verbs in the pipe to the lane.
    pub(crate) fn ring(&mut self) -> Result<()> {
        self.device.check_process()?;
        if self.submit.publish() {
            let rung = self.device.ring(self.submit_id);
            if self.generation != self.device.generation() || rung.is_err() {
                let followed = rung
                    .or_else(|error| self.device.survive(error))
                    .and_then(|()| self.follow());
                // Posted all the same: a verb in the pipe is posted again to the next daemon.
                return if self.device.is_away() {
                    Ok(())
                } else {
                    followed
                };
            }
        }
        Ok(())
    }

    /// Takes over the queue's pipes after the daemon came back. Every verb that was in flight is
    /// then in the new pipe, or has completed.
    fn follow(&mut self) -> Result<()> {
        while self.generation != self.device.generation() {
            self.take_over()?;
            if self.submit.publish()
                && let Err(error) = self.device.ring(self.submit_id)
            {
                // The daemon is gone once more. Waiting verbs are still in the pipe.
                self.device.survive(error)?;
            }
        }
        Ok(())
    }

    fn take_over(&mut self) -> Result<()> {
        // Take the old daemon's completions.
        self.pump()?;
        let in_order = self.device.ended_in_order(self.generation);
        let (_, complete) = self.device.take_next_memory(self.complete_id)?;
        let (generation, submit) = self.device.take_next_memory(self.submit_id)?;
        let mut renewed = app::TxPipe::new(submit.memory).map_err(foreign)?;
        // The rings are of one size.
        let waiting = replay::repost(in_order, self.submit.unsent(), |message| {
            renewed.send(message).is_ok()
        });
        self.submit = renewed;
        self.complete = app::RxPipe::new(complete.memory).map_err(foreign)?;
        self.generation = generation;
        let forgotten = self
            .outstanding
            .forget(|id| waiting.binary_search(&id).is_ok());
        self.device.count_carried(|carried| {
            carried.verbs += waiting.len() as u64;
            carried.verbs_forgotten += forgotten.len() as u64;
        });
        for (id, user_data) in forgotten {
            self.pumped += 1;
            self.arrived.push_back(Completion {
                user_data,
                id,
                outcome: Outcome::Forgotten,
                stamp: Stamp::default(),
            });
        }
        Ok(())
    }

    /// Handles the `error` of a call: continues if the daemon is back.
    #[cold]
    fn survive(&mut self, error: Error) -> Result<()> {
        self.device.survive(error)?;
        self.follow()
    }

    fn full(&mut self) -> Error {
        if let Some(violation) = self.submit.violation() {
            return broken(violation);
        }
        // A queue that stays full may have no daemon at its other end.
        match self
            .device
            .check_or_reconnect()
            .and_then(|()| self.follow())
        {
            Err(gone) => gone,
            Ok(()) => Error::QueueFull {
                outstanding: self.outstanding.len(),
                depth: self.outstanding.depth(),
            },
        }
    }

    /// Takes completions that have arrived, as many as `completions` has room for. Returns their
    /// number. Does not block.
    ///
    /// After a completion whose outcome [is not final](Outcome::is_final), another one for the same
    /// verb follows.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] if there is none and none can arrive, [`Error::Unintelligible`].
    pub fn try_poll(&mut self, completions: &mut [Completion]) -> Result<usize> {
        let mut taken = self.take(completions)?;
        if taken == 0 {
            self.device.check_or_reconnect()?;
            if self.generation != self.device.generation() {
                self.follow()?;
                taken = self.take(completions)?;
            }
        }
        if taken == 0 && self.device.is_armed() {
            self.want_wake()?;
        }
        Ok(taken)
    }

    /// Waits for completions, then takes them as [`Verbs::try_poll`] does: at least one, unless
    /// `completions` has no room or no verb is in flight.
    ///
    /// # Errors
    /// As [`Verbs::try_poll`], and [`Error::Deadline`] after `timeout`.
    pub fn poll(
        &mut self,
        completions: &mut [Completion],
        timeout: impl Into<Timeout>,
    ) -> Result<usize> {
        self.poll_until(completions, deadline(timeout))
    }

    fn poll_until(
        &mut self,
        completions: &mut [Completion],
        deadline: Option<Instant>,
    ) -> Result<usize> {
        if completions.is_empty() || self.outstanding.len() == 0 {
            return Ok(0);
        }
        loop {
            let taken = self.take(completions)?;
            if taken > 0 {
                return Ok(taken);
            }
            if let Err(error) = self.wait_for_arrival(deadline) {
                self.survive(error)?;
            }
        }
    }

    /// Waits until one verb completes and takes its final completion. Completions of other verbs
    /// are kept for [`Verbs::poll`].
    ///
    /// # Errors
    /// [`Error::InDoubt`] after `timeout`: the verb is still in flight. [`Error::Invalid`] if no
    /// such verb is in flight, [`Error::DaemonGone`], [`Error::Unintelligible`].
    pub fn wait(&mut self, id: VerbId, timeout: impl Into<Timeout>) -> Result<Completion> {
        self.wait_until(id, deadline(timeout))
    }

    fn wait_until(&mut self, id: VerbId, deadline: Option<Instant>) -> Result<Completion> {
        loop {
            if let Some(completion) = self.end_of(id)? {
                self.outstanding.taken(id);
                return Ok(completion);
            }
            match self.wait_for_arrival(deadline) {
                Err(Error::Deadline { .. }) => {
                    let object = String::new();
                    return Err(Error::InDoubt { id, object });
                }
                Err(error) => self.survive(error)?,
                Ok(()) => {}
            }
        }
    }

    /// Takes the final completion of one verb, if it has arrived. The verb stays in the table, so
    /// the bytes that it read stay.
    fn end_of(&mut self, id: VerbId) -> Result<Option<Completion>> {
        self.pump()?;
        let is_end = |completion: &Completion| completion.id == id && completion.outcome.is_final();
        if let Some(place) = self.arrived.iter().position(is_end)
            && let Some(completion) = self.arrived.remove(place)
        {
            // A notice of doubt that was not taken is obsolete.
            self.arrived.retain(|completion| completion.id != id);
            self.last_stamp = completion.stamp;
            return Ok(Some(completion));
        }
        if self.outstanding.is_in_flight(id) {
            return Ok(None);
        }
        Err(Error::Invalid(format!(
            "verb {} is not in flight",
            id.number()
        )))
    }

    /// As [`Verbs::end_of`]. If it has not arrived, looks after the daemon and requests the
    /// wake-up.
    #[cfg(feature = "tokio")]
    pub(crate) fn try_end_of(&mut self, id: VerbId) -> Result<Option<Completion>> {
        let mut end = self.end_of(id)?;
        if end.is_none() {
            self.device.check_or_reconnect()?;
            if self.generation != self.device.generation() {
                self.follow()?;
                end = self.end_of(id)?;
            }
        }
        if end.is_none() && self.device.is_armed() {
            self.want_wake()?;
        }
        Ok(end)
    }

    /// The caller needs nothing more of the verb, which may be in flight.
    #[cfg(feature = "tokio")]
    pub(crate) fn let_go(&mut self, id: VerbId) {
        self.arrived.retain(|completion| completion.id != id);
        if self.outstanding.is_in_flight(id) {
            self.outstanding.disown(id);
        } else {
            self.outstanding.taken(id);
        }
    }

    /// As [`Verbs::post`]; `None` if the queue is full: then requests the wake-up for room.
    #[cfg(feature = "tokio")]
    pub(crate) fn try_post(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
    ) -> Result<Option<VerbId>> {
        // Completions of disowned verbs make room.
        self.pump()?;
        match self.post(region, verb, mode, 0) {
            Err(Error::QueueFull { outstanding, depth }) => {
                if self.device.is_armed() {
                    self.want_wake()?;
                    if outstanding < depth && !self.submit.want_space(SUBMIT_BYTES_MAX as u64) {
                        self.device.call()?;
                    }
                }
                Ok(None)
            }
            posted => posted.map(Some),
        }
    }

    /// Posts a verb, waiting for room if necessary, and waits until it completes. Returns the
    /// completion of an executed verb, and an error for one that was not executed.
    ///
    /// A verb that is refused as [busy](Refusal::Busy), because it touches a word of an open
    /// exchange, is posted again after pauses that grow to a millisecond. If the device
    /// [reconnects](Device::set_reconnect), a verb refused with [`Refusal::NoResources`] is also
    /// posted again, for some milliseconds. A stopping daemon refuses verbs that it never sent in
    /// this way.
    ///
    /// [`Verbs::read`], [`Verbs::fetch_add`] and the other blocking calls are this call, one for
    /// each verb, in two phases.
    ///
    /// # Errors
    /// [`Error::VerbRefused`], [`Error::NoSuchPeer`], [`Error::PeerRestarted`], [`Error::Invalid`],
    /// [`Error::DaemonGone`]. [`Error::QueueFull`] if as many verbs are in flight as the queue
    /// accepts. After `timeout`, [`Error::Deadline`] if the verb was not posted,
    /// [`Error::InDoubt`] if it is in flight, and [`Error::VerbRefused`] with [`Refusal::Busy`] if
    /// it was busy until then.
    pub fn execute(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        timeout: impl Into<Timeout>,
    ) -> Result<Completion> {
        self.execute_until(region, verb, mode, deadline(timeout))
    }

    pub(crate) fn execute_until(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        deadline: Option<Instant>,
    ) -> Result<Completion> {
        let mut pause = BUSY_PAUSE_MIN;
        let mut given_back = GivenBack::default();
        loop {
            let id = self.post_until(region, verb, mode, deadline)?;
            let completion = match self.wait_until(id, deadline) {
                Err(Error::InDoubt { id, .. }) => {
                    let object = target::of_region(self.device, region);
                    return Err(Error::InDoubt { id, object });
                }
                completion => completion?,
            };
            match completion.outcome {
                // A stopping daemon refuses verbs that it never sent in this way.
                Outcome::Refused(Refusal::NoResources)
                    if self.device.reconnects()
                        && !is_over(deadline, pause)
                        && given_back.may_be_an_end(self.generation) =>
                {
                    thread::sleep(pause);
                    pause = (2 * pause).min(BUSY_PAUSE_MAX);
                }
                Outcome::Refused(Refusal::Busy) if !is_over(deadline, pause) => {
                    thread::sleep(pause);
                    pause = (2 * pause).min(BUSY_PAUSE_MAX);
                }
                outcome => {
                    executed_on(self.device, region, &verb, outcome)?;
                    return Ok(completion);
                }
            }
        }
    }

    fn post_until(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        deadline: Option<Instant>,
    ) -> Result<VerbId> {
        loop {
            match self.post(region, verb, mode, 0) {
                // The table has room, so the pipe is full. The lane will make room.
                Err(Error::QueueFull { outstanding, depth }) if outstanding < depth => {
                    let room = SUBMIT_BYTES_MAX as u64;
                    if let Err(error) = wait_for_room(self.device, &mut self.submit, room, deadline)
                    {
                        self.survive(error)?;
                    }
                }
                posted => return posted,
            }
        }
    }

    /// Waits until something that the caller has not seen lies in the completion pipe.
    fn wait_for_arrival(&mut self, deadline: Option<Instant>) -> Result<()> {
        if self.generation != self.device.generation() {
            return self.follow();
        }
        let Self {
            device,
            complete,
            complete_id,
            ..
        } = self;
        device.wait("a verb ended", deadline, || {
            if let Some(batch) = complete.recv() {
                batch.keep();
                return Ok(true);
            }
            if let Some(violation) = complete.violation() {
                return Err(broken(violation));
            }
            if device.is_armed() && complete.wait_for_more() {
                device.ring(*complete_id)?;
            }
            Ok(false)
        })
    }

    /// Requests a wake-up for the next completion. Call it after announcing the sleep and before
    /// the last look.
    fn want_wake(&mut self) -> Result<()> {
        if self.complete.wait_for_more() {
            self.device.ring(self.complete_id)?;
        }
        Ok(())
    }

    fn take(&mut self, completions: &mut [Completion]) -> Result<usize> {
        if self.arrived.len() < completions.len() {
            self.pump()?;
        }
        let mut taken = 0;
        for place in completions {
            let Some(completion) = self.arrived.pop_front() else {
                break;
            };
            if completion.outcome.is_final() {
                self.outstanding.taken(completion.id);
            }
            self.last_stamp = completion.stamp;
            *place = completion;
            taken += 1;
        }
        Ok(taken)
    }

    /// Moves completions from the pipe to `arrived`.
    fn pump(&mut self) -> Result<()> {
        self.device.check_process()?;
        let Some(batch) = self.complete.recv() else {
            return self
                .complete
                .violation()
                .map_or(Ok(()), |violation| Err(broken(violation)));
        };
        for packet in &batch {
            self.pumped += 1;
            let envelope = Envelope::decode(packet)
                .map_err(|error| Error::Unintelligible(format!("a completion: {error}")))?;
            let id = VerbId::from_number(envelope.user_data);
            let found = match envelope.outcome {
                CompletionOutcome::InDoubt(_) => self.outstanding.in_doubt(id),
                _ => self.outstanding.arrived(id),
            };
            match found {
                Found::Outstanding(Posted { user_data, answer }) => {
                    let node = Guid::new(envelope.reported.executor);
                    let node = node.filter(|&node| node != self.device.address());
                    let Decoded {
                        outcome,
                        moment,
                        data,
                    } = wire::decode(&envelope.outcome, answer, node)?;
                    if let Some(data) = data {
                        self.reads.keep(id, self.outstanding.depth(), data)?;
                    }
                    self.arrived.push_back(Completion {
                        user_data,
                        id,
                        outcome,
                        stamp: Stamp::new(&envelope.reported, moment),
                    });
                }
                Found::AlreadyInDoubt | Found::Disowned => {}
                Found::Unknown => {
                    return Err(Error::Unintelligible(format!(
                        "a completion of verb {}, which is not in flight",
                        id.number()
                    )));
                }
            }
        }
        // Whether the daemon needs a doorbell is checked before the next sleep.
        batch.free_all();
        Ok(())
    }
}

impl Drop for Verbs<'_> {
    fn drop(&mut self) {
        self.device.close_pipe(self.submit_id);
        self.device.close_pipe(self.complete_id);
    }
}

/// Returns the outcome of an executed verb, or an error for one that was not executed. `object`
/// describes node and region, as in [`Error::VerbRefused`].
fn executed(outcome: Outcome, object: impl FnOnce(Refusal) -> (String, String)) -> Result<Outcome> {
    match outcome {
        Outcome::Refused(refusal) => {
            let (node, region) = object(refusal);
            Err(Error::VerbRefused {
                node,
                region,
                refusal,
            })
        }
        Outcome::PeerRestarted => Err(Error::PeerRestarted),
        Outcome::Forgotten => Err(Error::Forgotten),
        Outcome::BadReply => Err(Error::BadReply),
        Outcome::NoSuchPeer => Err(Error::NoSuchPeer),
        Outcome::Malformed => Err(Error::Unintelligible(
            "covalentd could not read the verb".to_owned(),
        )),
        outcome => Ok(outcome),
    }
}

/// As [`executed`], for `verb` on `region`.
pub(crate) fn executed_on(
    device: &Device,
    region: &RemoteRegion,
    verb: &Verb<'_>,
    outcome: Outcome,
) -> Result<Outcome> {
    executed(outcome, |refusal| {
        let node = region.node();
        let node = node.map_or_else(|| device.lane_name(), |it| it.to_string());
        let known = match refusal {
            Refusal::OutOfBounds => format!(" (of {} bytes)", region.size_bytes()),
            Refusal::NoRight => {
                let (granted, needed) = (region.rights(), verb.needed_right());
                format!(" (it grants {granted}, and the verb needs {needed})")
            }
            _ => String::new(),
        };
        (node, format!("with key {:#010x}{known}", region.rkey()))
    })
}

pub(crate) fn nonsense(requested: &str, outcome: &Outcome) -> Error {
    Error::Unintelligible(format!("{outcome:?} in answer to {requested}"))
}

fn pipe_bytes(depth: u32, each_bytes: u64) -> u64 {
    (u64::from(depth) * each_bytes + 64)
        .next_power_of_two()
        .max(PIPE_BYTES_MIN)
}

/// Whether `deadline` passes within `pause`.
fn is_over(deadline: Option<Instant>, pause: Duration) -> bool {
    deadline.is_some_and(|deadline| deadline.saturating_duration_since(Instant::now()) <= pause)
}
