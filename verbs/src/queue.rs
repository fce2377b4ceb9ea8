//! The verb queue: posting verbs and taking their completions.

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    config::LANES_MAX,
    guid::Guid,
    name::of_lane,
    request::{PipeKind, Rights},
    status::{FarNodeStatus, LinkStatus, NodeStatus},
};
use covalent_pipe::{app, region::REGION_BYTES_MAX};
use covalent_protocol::{
    Moment,
    verb::{
        self as codec, MULTI_COMMIT_WORDS_MAX, Status,
        doubt::Ask,
        envelope::{
            COMPLETION_BYTES_MAX, Completion as Envelope, CompletionOutcome, SUBMIT_BYTES_MAX,
            Submit,
        },
    },
};

use crate::{
    carry::{self, GivenBack},
    device::{Device, Stage, broken, foreign},
    error::{Error, Result},
    in_doubt::InDoubtId,
    outstanding::{Answer, Found, Outstanding, Posted},
    remote::RemoteRegion,
    shared::{Ended, GroupEnds, Owner},
    stamp::Stamp,
    tx::wait_for_room,
    verb::{CommitWord, Completion, Mode, Outcome, Refusal, Target, Verb, VerbId},
};

/// Verbs that a queue takes at a time unless told otherwise.
pub const VERBS_DEPTH: u32 = 256;

/// Most verbs that a queue can be made to take at a time.
pub const VERBS_DEPTH_MAX: u32 = 16_384;

/// Smallest pipe that the daemon makes, in bytes.
const PIPE_BYTES_MIN: u64 = 64 * 1024;

/// Ring bytes of a usual submission: an atomic's. A queue whose every verb is longer is full sooner.
const SUBMIT_BYTES_USUAL: u64 = 64;

/// Ring bytes of the longest completion and of the notice of doubt that may come before it.
const COMPLETION_BYTES_WORST: u64 = (COMPLETION_BYTES_MAX.next_multiple_of(64) + 64) as u64;

/// First and longest pause before a busy verb is posted again: a round trip or two, and what nobody waits for in vain.
const BUSY_PAUSE_MIN: Duration = Duration::from_micros(10);
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(1);

/// A queue of verbs: post them with a number of one's own, and take completions that bear it.
///
/// Every call here is for its device's thread alone. Words are in the caller's own byte order; read and written as bytes they are little-endian. Completions come in the order in which the verbs ended, not in that of posting. Every verb is executed exactly once or
/// refused, and its final completion comes exactly once; [`Outcome`] lists the rest. The number under way is bounded ([`Verbs::depth`]):
/// beyond it posting is refused, so nothing queues without end.
///
/// Besides, every verb has a blocking call of its own, with a variant that takes a deadline. They may be mixed with posted verbs, whose
/// completions are then kept for the next [`Verbs::poll`].
///
/// When the queue is dropped, or the daemon ends, verbs under way still end at the other node, but nobody is told how.
///
/// # Examples
/// ```no_run
/// use covalent_verbs::{Completion, Device, Mode, Target, Verb};
///
/// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// let mut verbs = device.verbs()?;
/// let bank = verbs.open_region(Target::Name("b"), "bank")?;
///
/// // Blocking.
/// let before = verbs.fetch_add(&bank, 0, 1)?;
///
/// // Sixteen at a time.
/// for user_data in 0..16 {
///     verbs.post(&bank, Verb::FetchAdd { offset_bytes: 0, delta: 1 }, Mode::TwoPhase, user_data)?;
/// }
/// let mut completions = vec![Completion::default(); 16];
/// while verbs.outstanding() > 0 {
///     let taken = verbs.poll_blocking(&mut completions)?;
///     for completion in &completions[..taken] {
///         println!("{}: {:?}", completion.user_data, completion.outcome);
///     }
/// }
/// # Ok::<(), covalent_verbs::Error>(())
/// ```
#[derive(Debug)]
pub struct Verbs<'d> {
    pub(crate) device: &'d Device,
    submit_id: u32,
    pub(crate) submit: app::TxPipe,
    pub(crate) complete_id: u32,
    pub(crate) complete: app::RxPipe,
    pub(crate) outstanding: Outstanding,
    /// Completions for the groups of the device.
    pub(crate) group_ends: GroupEnds,
    /// Completions taken from the pipe and not by the caller: at most a notice of doubt and a final one for each entry of the table.
    arrived: VecDeque<Completion>,
    last_stamp: Stamp,
    /// The device's life that the pipes are of.
    life: u32,
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
        let life = device.life();
        let submit = match device.open_pipe(
            PipeKind::VerbSubmit,
            pipe_bytes(depth, SUBMIT_BYTES_USUAL),
            None,
        ) {
            Ok(submit) => submit,
            Err(error) => {
                device.close_pipe(complete.id);
                return Err(error);
            }
        };
        // The daemon was gone and came back in between: completions come into the memory that the next one made.
        if device.life() != life {
            let (_, again) = device.take_again(complete.id)?;
            complete.memory = again.memory;
        }
        Ok(Self {
            device,
            submit_id: submit.id,
            submit: app::TxPipe::new(submit.memory).map_err(foreign)?,
            complete_id: complete.id,
            complete: app::RxPipe::new(complete.memory).map_err(foreign)?,
            outstanding: Outstanding::new(depth),
            group_ends: GroupEnds::default(),
            arrived: VecDeque::with_capacity(2 * depth as usize),
            last_stamp: Stamp::default(),
            life: device.life(),
        })
    }

    /// Verbs under way, those included whose final completion waits to be taken. What [groups](crate::Group) have under way is not
    /// counted.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.own()
    }

    /// Verbs that the queue takes at a time.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.outstanding.depth()
    }

    /// The stamp of the completion that was handed out last; after a blocking call that of its verb.
    #[must_use]
    pub const fn last_stamp(&self) -> Stamp {
        self.last_stamp
    }

    /// Looks a region up by its name on its node. Blocks for the answer; what a name stands for is asked of the own daemon first, for no longer than
    /// [`Device::set_request_timeout`] says.
    ///
    /// # Errors
    /// [`Error::UnknownNode`], [`Error::NoSuchPeer`], [`Error::VerbRefused`] with [`Refusal::UnknownRegion`], [`Error::QueueFull`],
    /// [`Error::DaemonGone`].
    pub fn open_region(&mut self, target: Target<'_>, name: &str) -> Result<RemoteRegion> {
        self.open_region_until(target, name, None)
    }

    /// As [`Verbs::open_region`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::open_region`], and [`Error::Deadline`].
    pub fn open_region_deadline(
        &mut self,
        target: Target<'_>,
        name: &str,
        deadline: Instant,
    ) -> Result<RemoteRegion> {
        self.open_region_until(target, name, Some(deadline))
    }

    fn open_region_until(
        &mut self,
        target: Target<'_>,
        name: &str,
        deadline: Option<Instant>,
    ) -> Result<RemoteRegion> {
        let target = self.resolve(target, deadline)?;
        let request = codec::Request {
            rkey: 0,
            offset: 0,
            verb: codec::Verb::Lookup { name },
        };
        let id = self.put(target, &request, Mode::OnePhase, 0)?;
        self.ring()?;
        let outcome = match self.wait_until(id, deadline) {
            Err(Error::InDoubt { .. }) => {
                // Looking changes nothing, so nobody needs to know how it ends.
                self.outstanding.disown(id);
                self.arrived.retain(|completion| completion.id != id);
                return Err(Error::Deadline {
                    what: "the other node answered",
                });
            }
            completion => completion?.outcome,
        };
        let data = executed(outcome)?;
        let Outcome::Data(data) = data else {
            return Err(nonsense("a lookup", &data));
        };
        let Some(info) = codec::Reply::ok(&data).region() else {
            return Err(Error::Unintelligible(format!(
                "{} bytes in answer to a lookup",
                data.len()
            )));
        };
        let rights = Rights {
            read: info.rights & 1 != 0,
            write: info.rights & 2 != 0,
            atomic: info.rights & 4 != 0,
            send: info.rights & 8 != 0,
        };
        let node = covalent_api::guid::Guid::new(target);
        Ok(RemoteRegion::from_key(
            node,
            info.rkey,
            info.size_bytes,
            rights,
        ))
    }

    /// The target as on the wire.
    fn resolve(&self, target: Target<'_>, deadline: Option<Instant>) -> Result<u64> {
        let own_name = self.device.lane_name();
        match target {
            Target::Local => Ok(0),
            Target::Guid(guid) if guid == self.device.address() => Ok(0),
            Target::Guid(guid) => Ok(guid.bits()),
            Target::Name(name) if name == own_name => Ok(0),
            Target::Name(name) => {
                let status = self.device.status_until(deadline)?;
                let is_wanted = |link: &&LinkStatus| link.peer_name.as_deref() == Some(name);
                let neighbour = status.links.iter().find(is_wanted);
                neighbour
                    .and_then(|link| link.peer)
                    .or_else(|| far_node(name, &status.nodes))
                    .map(Guid::bits)
                    .ok_or_else(|| unknown_node(name, &own_name, &status))
            }
        }
    }

    /// Posts a verb. `user_data` comes back in its completions and means nothing here; it need not be unique. Does not block.
    ///
    /// # Errors
    /// [`Error::QueueFull`] when no more can be under way; [`Error::Invalid`] for a misaligned offset or one beyond 2³², an empty or too long
    /// range, no words or too many; [`Error::DaemonGone`]. Nothing was posted then.
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

    /// Begins a batch: verbs that are posted one after the other and of which the lane is told at once.
    #[must_use = "what is posted by itself rings the doorbell each time"]
    pub const fn batch(&mut self) -> Batch<'_, 'd> {
        Batch { verbs: self }
    }

    /// Puts a verb into the pipe. The lane sees it after [`Verbs::ring`].
    fn put_verb(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        with_request(region.rkey(), verb, |request| {
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
        self.put_as(Owner::APPLICATION, target, request, mode, user_data)
    }

    pub(crate) fn put_as(
        &mut self,
        owner: Owner,
        target: u64,
        request: &codec::Request<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        request
            .check()
            .map_err(|error| Error::Invalid(format!("{}: {error}", request.verb.name())))?;
        self.device.check_own()?;
        // Else it would be posted to a daemon that is no more.
        self.follow()?;
        let posted = Posted {
            user_data,
            answer: answer(&request.verb),
            owner,
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

    /// Asks what became of a verb that was in doubt, by the name in [`Outcome::InDoubt`], also of one that another program of
    /// the same user posted. The completion says it as that of the verb would have, or [`Outcome::Undone`],
    /// [`Outcome::NeverSeen`], [`Outcome::Forgotten`]; while no path leads to the other node it is [`Outcome::InDoubt`] once
    /// more, and another one follows when one returns. Does not block.
    ///
    /// Whoever posted the verb and still is there is told as ever, and what was reversed is applied afresh for it: then the
    /// answer here waits for the end of that.
    ///
    /// # Errors
    /// [`Error::QueueFull`], [`Error::DaemonGone`], and [`Error::Invalid`] for bytes that were never a name. Nothing was asked
    /// then.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent_verbs::{Device, InDoubtId, Outcome};
    ///
    /// // An earlier run of this program wrote down what it was told in `Outcome::InDoubt`, and ended.
    /// let written: [u8; InDoubtId::BYTES] = std::fs::read("in-doubt")?.try_into().expect("a name");
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let id = verbs.ask(&InDoubtId::from_bytes(&written), 0)?;
    /// match verbs.wait(id)?.outcome {
    ///     Outcome::Undone | Outcome::NeverSeen => println!("it was not executed: post it again"),
    ///     Outcome::Forgotten => println!("nobody can tell: look at what it would have changed"),
    ///     executed => println!("it was executed once: {executed:?}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask(&mut self, name: &InDoubtId, user_data: u64) -> Result<VerbId> {
        self.device.check_own()?;
        let posted = Posted {
            user_data,
            answer: name.answer()?,
            owner: Owner::APPLICATION,
        };
        let Some(id) = self.outstanding.open(posted) else {
            return Err(self.full());
        };
        let ask = Ask {
            user_data: id.number(),
            name: name.name(),
        };
        let written = self.submit.reserve(Ask::BYTES).ok().and_then(|mut room| {
            ask.encode(&mut room).ok()?;
            room.commit();
            Some(())
        });
        let id = self.keep(id, written)?;
        self.ring()?;
        Ok(id)
    }

    /// Keeps the number `id` for what was written, if it was.
    pub(crate) fn keep(&mut self, id: VerbId, written: Option<()>) -> Result<VerbId> {
        if written.is_none() {
            self.outstanding.abandon(id);
            return Err(self.full());
        }
        Ok(id)
    }

    /// Shows the lane what was put into the pipe.
    pub(crate) fn ring(&mut self) -> Result<()> {
        self.device.check_own()?;
        if self.submit.publish() {
            let rung = self.device.ring(self.submit_id);
            if self.life != self.device.life() || rung.is_err() {
                return rung
                    .or_else(|error| self.device.survive(error))
                    .and_then(|()| self.follow());
            }
        }
        Ok(())
    }

    /// Takes over the pipes that the queue has since the daemon came back. Every verb that was under way is in the new one, or has ended.
    pub(crate) fn follow(&mut self) -> Result<()> {
        while self.life != self.device.life() {
            self.take_over()?;
            if self.submit.publish()
                && let Err(error) = self.device.ring(self.submit_id)
            {
                // Gone once more: what waits is still there.
                self.device.survive(error)?;
            }
        }
        Ok(())
    }

    fn take_over(&mut self) -> Result<()> {
        // What the old daemon told.
        self.pump()?;
        let in_order = self.device.ended_in_order(self.life);
        let (_, complete) = self.device.take_again(self.complete_id)?;
        let (life, submit) = self.device.take_again(self.submit_id)?;
        let mut again = app::TxPipe::new(submit.memory).map_err(foreign)?;
        // The rings are of one size.
        let waiting = carry::post_again(in_order, self.submit.unsent(), |message| {
            again.send(message).is_ok()
        });
        self.submit = again;
        self.complete = app::RxPipe::new(complete.memory).map_err(foreign)?;
        self.life = life;
        let forgotten = self
            .outstanding
            .forget(|id| waiting.binary_search(&id).is_ok());
        self.device.count_carried(|carried| {
            carried.verbs += waiting.len() as u64;
            carried.verbs_forgotten += forgotten.len() as u64;
        });
        for (id, user_data) in forgotten {
            self.arrived.push_back(Completion {
                user_data,
                id,
                outcome: Outcome::Forgotten,
                stamp: Stamp::default(),
            });
        }
        Ok(())
    }

    /// A call met `error`: goes on with the daemon that is back, if it is.
    #[cold]
    fn survive(&mut self, error: Error) -> Result<()> {
        self.device.survive(error)?;
        self.follow()
    }

    pub(crate) fn full(&mut self) -> Error {
        if let Some(violation) = self.submit.violation() {
            return broken(violation);
        }
        // A queue that stays full may have nobody at its other end.
        match self.device.look_alive().and_then(|()| self.follow()) {
            Err(gone) => gone,
            Ok(()) => Error::QueueFull {
                outstanding: self.outstanding.len(),
                depth: self.outstanding.depth(),
            },
        }
    }

    /// Takes completions that have come, as many as there are and `completions` has room for; returns how many. Does not block.
    ///
    /// A completion whose outcome [is not final](Outcome::is_final) is followed by another one for the same verb.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] when there is none and will be none, [`Error::Unintelligible`].
    pub fn poll(&mut self, completions: &mut [Completion]) -> Result<usize> {
        let taken = self.take(completions)?;
        if taken == 0 {
            self.device.look_alive()?;
            if self.life != self.device.life() {
                self.follow()?;
                return self.take(completions);
            }
        }
        Ok(taken)
    }

    /// Waits for completions, then takes them as [`Verbs::poll`] does: at least one, unless `completions` has no room or nothing is under way.
    ///
    /// # Errors
    /// As [`Verbs::poll`].
    pub fn poll_blocking(&mut self, completions: &mut [Completion]) -> Result<usize> {
        self.poll_until(completions, None)
    }

    /// As [`Verbs::poll_blocking`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::poll`], and [`Error::Deadline`].
    pub fn poll_deadline(
        &mut self,
        completions: &mut [Completion],
        deadline: Instant,
    ) -> Result<usize> {
        self.poll_until(completions, Some(deadline))
    }

    fn poll_until(
        &mut self,
        completions: &mut [Completion],
        deadline: Option<Instant>,
    ) -> Result<usize> {
        if completions.is_empty() || self.outstanding.own() == 0 {
            return Ok(0);
        }
        loop {
            let taken = self.take(completions)?;
            if taken > 0 {
                return Ok(taken);
            }
            // What comes may be a group's.
            if let Err(error) = self.wait_for_arrival(deadline) {
                self.survive(error)?;
            }
        }
    }

    /// Waits for the end of one verb and takes its final completion. Those of others are kept for [`Verbs::poll`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when no such verb is under way, [`Error::DaemonGone`], [`Error::Unintelligible`].
    pub fn wait(&mut self, id: VerbId) -> Result<Completion> {
        self.wait_until(id, None)
    }

    /// As [`Verbs::wait`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::wait`]; [`Error::InDoubt`] when the deadline passes first: the verb is still under way.
    pub fn wait_deadline(&mut self, id: VerbId, deadline: Instant) -> Result<Completion> {
        self.wait_until(id, Some(deadline))
    }

    fn wait_until(&mut self, id: VerbId, deadline: Option<Instant>) -> Result<Completion> {
        loop {
            self.pump()?;
            let is_end =
                |completion: &Completion| completion.id == id && completion.outcome.is_final();
            if let Some(place) = self.arrived.iter().position(is_end)
                && let Some(completion) = self.arrived.remove(place)
            {
                // A notice of doubt that nobody took has nothing to say any more.
                self.arrived.retain(|completion| completion.id != id);
                self.outstanding.taken(id);
                self.last_stamp = completion.stamp;
                return Ok(completion);
            }
            if !self.outstanding.is_under_way(id) {
                return Err(Error::Invalid(format!(
                    "verb {} is not under way",
                    id.number()
                )));
            }
            match self.wait_for_arrival(deadline) {
                Err(Error::Deadline { .. }) => return Err(Error::InDoubt { id }),
                Err(error) => self.survive(error)?,
                Ok(()) => {}
            }
        }
    }

    /// Posts a verb, waiting for room if need be, and waits for its end. The outcome is that of a verb that was executed; what is not is an error.
    ///
    /// One that is refused as [busy](Refusal::Busy), because it touches a word of an exchange that is still open, is posted again, after pauses that
    /// grow to a millisecond. So is one that was refused with [`Refusal::NoResources`], some milliseconds long, if the device [is to find its daemon again](Device::set_reconnect): one that
    /// ends gives back so what it never sent.
    ///
    /// The blocking calls below are this, one for each verb, in two phases.
    ///
    /// # Errors
    /// [`Error::VerbRefused`], [`Error::NoSuchPeer`], [`Error::PeerRestarted`], [`Error::Invalid`], [`Error::QueueFull`] when as many verbs
    /// are under way as the queue takes, [`Error::DaemonGone`].
    pub fn execute(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
    ) -> Result<Outcome> {
        self.execute_until(region, verb, mode, None)
    }

    /// As [`Verbs::execute`], until `deadline`.
    ///
    /// # Errors
    /// As [`Verbs::execute`], with [`Refusal::Busy`] among the refusals when it was busy to the end; [`Error::Deadline`] when it could not be posted in
    /// time, [`Error::InDoubt`] when it was posted and has not ended in time.
    pub fn execute_deadline(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        deadline: Instant,
    ) -> Result<Outcome> {
        self.execute_until(region, verb, mode, Some(deadline))
    }

    pub(crate) fn execute_until(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        deadline: Option<Instant>,
    ) -> Result<Outcome> {
        let mut pause = BUSY_PAUSE_MIN;
        let mut given_back = GivenBack::default();
        loop {
            let id = self.post_until(region, verb, mode, deadline)?;
            match self.wait_until(id, deadline)?.outcome {
                // A daemon that ends gives back so what it never sent.
                Outcome::Refused(Refusal::NoResources)
                    if self.device.reconnects()
                        && !is_over(deadline, pause)
                        && given_back.may_be_an_end(self.life) =>
                {
                    thread::sleep(pause);
                    pause = (2 * pause).min(BUSY_PAUSE_MAX);
                }
                Outcome::Refused(Refusal::Busy) if !is_over(deadline, pause) => {
                    thread::sleep(pause);
                    pause = (2 * pause).min(BUSY_PAUSE_MAX);
                }
                outcome => return executed(outcome),
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
                // The table has room, so it is the pipe that has none: the lane makes some.
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
        if self.life != self.device.life() {
            return self.follow();
        }
        let Self {
            device,
            complete,
            complete_id,
            ..
        } = self;
        device.wait("a verb ended", deadline, |stage| {
            if let Some(batch) = complete.recv() {
                batch.keep();
                return Ok(true);
            }
            if let Some(violation) = complete.violation() {
                return Err(broken(violation));
            }
            if stage == Stage::BeforeSleep && complete.wait_for_more() {
                device.ring(*complete_id)?;
            }
            Ok(false)
        })
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

    /// Moves what lies in the completion pipe to `arrived`, and what is for groups to where these look.
    pub(crate) fn pump(&mut self) -> Result<()> {
        self.device.check_own()?;
        let Some(batch) = self.complete.recv() else {
            return self
                .complete
                .violation()
                .map_or(Ok(()), |violation| Err(broken(violation)));
        };
        let mut of_groups = false;
        for packet in &batch {
            let envelope = Envelope::decode(packet)
                .map_err(|error| Error::Unintelligible(format!("a completion: {error}")))?;
            let id = VerbId::from_number(envelope.user_data);
            let found = match envelope.outcome {
                CompletionOutcome::InDoubt(_) => self.outstanding.in_doubt(id),
                _ => self.outstanding.arrived(id),
            };
            match found {
                Found::Outstanding(posted) if posted.owner != Owner::APPLICATION => {
                    // One that is in doubt is under way, and nobody else is told.
                    if let Some(ended) = ended(&envelope.outcome, posted.answer)? {
                        self.group_ends.push(id, &posted, ended);
                        of_groups = true;
                    }
                }
                Found::Outstanding(Posted {
                    user_data, answer, ..
                }) => {
                    let (outcome, moment) = outcome(&envelope.outcome, answer)?;
                    self.arrived.push_back(Completion {
                        user_data,
                        id,
                        outcome,
                        stamp: Stamp::new(&envelope.told, moment),
                    });
                }
                Found::AlreadyInDoubt | Found::Disowned => {}
                Found::Unknown => {
                    return Err(Error::Unintelligible(format!(
                        "a completion of verb {}, which is not under way",
                        id.number()
                    )));
                }
            }
        }
        // Whether the daemon waits for a doorbell is asked before the next sleep.
        batch.free_all();
        if of_groups {
            self.forget_ends_of_the_gone();
        }
        Ok(())
    }
}

/// Verbs of which the lane is told at once, by one doorbell, when the batch is rung or dropped: fewer stores than as many [`Verbs::post`] and, if
/// the lane sleeps, one system call instead of several.
///
/// # Examples
/// ```no_run
/// # use covalent_verbs::{Device, Mode, Target, Verb};
/// # let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
/// # let mut verbs = device.verbs()?;
/// # let bank = verbs.open_region(Target::Name("b"), "bank")?;
/// let mut batch = verbs.batch();
/// for word in 0..16 {
///     batch.post(&bank, Verb::FetchAdd { offset_bytes: 8 * word, delta: 1 }, Mode::TwoPhase, word)?;
/// }
/// batch.ring()?;
/// # Ok::<(), covalent_verbs::Error>(())
/// ```
#[derive(Debug)]
pub struct Batch<'q, 'd> {
    verbs: &'q mut Verbs<'d>,
}

impl Batch<'_, '_> {
    /// As [`Verbs::post`], but the lane may not see it before the batch is rung.
    ///
    /// # Errors
    /// As [`Verbs::post`]. What was posted before stays in the batch.
    pub fn post(
        &mut self,
        region: &RemoteRegion,
        verb: Verb<'_>,
        mode: Mode,
        user_data: u64,
    ) -> Result<VerbId> {
        self.verbs.put_verb(region, verb, mode, user_data)
    }

    /// Tells the lane of all that was posted.
    ///
    /// # Errors
    /// [`Error::DaemonGone`].
    pub fn ring(self) -> Result<()> {
        self.verbs.ring()
    }
}

impl Drop for Batch<'_, '_> {
    fn drop(&mut self) {
        // It fails only when the daemon is gone, and then the next call says so. What was rung is not rung again.
        let _ = self.verbs.ring();
    }
}

impl Drop for Verbs<'_> {
    fn drop(&mut self) {
        self.device.close_pipe(self.submit_id);
        self.device.close_pipe(self.complete_id);
    }
}

/// What a verb that was executed answered; an error for one that was not.
fn executed(outcome: Outcome) -> Result<Outcome> {
    match outcome {
        Outcome::Refused(refusal) => Err(Error::VerbRefused(refusal)),
        Outcome::PeerRestarted => Err(Error::PeerRestarted),
        Outcome::Forgotten => Err(Error::Forgotten),
        Outcome::NoSuchPeer => Err(Error::NoSuchPeer),
        Outcome::Malformed => Err(Error::Unintelligible(
            "covalentd could not read the verb".to_owned(),
        )),
        outcome => Ok(outcome),
    }
}

pub(crate) fn nonsense(asked: &str, outcome: &Outcome) -> Error {
    Error::Unintelligible(format!("{outcome:?} in answer to {asked}"))
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

/// Calls `use_it` with the verb as on the wire.
fn with_request<T>(
    rkey: u32,
    verb: Verb<'_>,
    use_it: impl FnOnce(&codec::Request<'_>) -> T,
) -> Result<T> {
    let (offset, verb) = match verb {
        Verb::MultiCommit { words } => return with_commit(rkey, words, use_it),
        Verb::Read {
            offset_bytes,
            len_bytes,
        } => (offset_bytes, codec::Verb::Read { len: len_bytes }),
        Verb::Write { offset_bytes, data } => (offset_bytes, codec::Verb::Write { data }),
        Verb::Swap { offset_bytes, new } => (offset_bytes, codec::Verb::Swap { new }),
        Verb::CompareAndSwap {
            offset_bytes,
            expected,
            new,
        } => (offset_bytes, codec::Verb::CompareAndSwap { expected, new }),
        Verb::FetchAdd {
            offset_bytes,
            delta,
        } => (offset_bytes, codec::Verb::FetchAdd { delta }),
        Verb::FetchAnd { offset_bytes, mask } => (offset_bytes, codec::Verb::FetchAnd { mask }),
        Verb::FetchOr { offset_bytes, mask } => (offset_bytes, codec::Verb::FetchOr { mask }),
        Verb::FetchXor { offset_bytes, mask } => (offset_bytes, codec::Verb::FetchXor { mask }),
        Verb::FetchMin {
            offset_bytes,
            operand,
            order,
        } => (offset_bytes, codec::Verb::FetchMin { operand, order }),
        Verb::FetchMax {
            offset_bytes,
            operand,
            order,
        } => (offset_bytes, codec::Verb::FetchMax { operand, order }),
        Verb::Conditional {
            offset_bytes,
            condition,
            update,
        } => (offset_bytes, codec::Verb::Conditional { condition, update }),
        Verb::Send { data } => (0, codec::Verb::Send { data }),
    };
    let offset = wire_offset(offset)?;
    Ok(use_it(&codec::Request { rkey, offset, verb }))
}

/// As [`with_request`], for a multi-commit: the only verb whose operands are put together here.
fn with_commit<T>(
    rkey: u32,
    wanted: &[CommitWord],
    use_it: impl FnOnce(&codec::Request<'_>) -> T,
) -> Result<T> {
    let mut words = [codec::Word {
        offset: 0,
        expected: 0,
        new: 0,
    }; MULTI_COMMIT_WORDS_MAX];
    let words = words.get_mut(..wanted.len()).ok_or_else(|| {
        Error::Invalid(format!(
            "{} words to commit: expected 1 to {MULTI_COMMIT_WORDS_MAX}",
            wanted.len()
        ))
    })?;
    for (word, wanted) in words.iter_mut().zip(wanted) {
        *word = codec::Word {
            offset: wire_offset(wanted.offset_bytes)?,
            expected: wanted.expected,
            new: wanted.new,
        };
    }
    let words = codec::MultiCommit::new(words)
        .map_err(|error| Error::Invalid(format!("words to commit: {error}")))?;
    Ok(use_it(&codec::Request {
        rkey,
        offset: 0,
        verb: codec::Verb::MultiCommit(words),
    }))
}

fn wire_offset(offset_bytes: u64) -> Result<u32> {
    u32::try_from(offset_bytes).map_err(|_| {
        Error::Invalid(format!(
            "offset {offset_bytes}: no region is longer than {REGION_BYTES_MAX} bytes"
        ))
    })
}

const fn answer(verb: &codec::Verb<'_>) -> Answer {
    match verb {
        codec::Verb::Read { .. } | codec::Verb::Lookup { .. } => Answer::Data,
        codec::Verb::Write { .. } | codec::Verb::MultiCommit(_) | codec::Verb::Send { .. } => {
            Answer::Nothing
        }
        _ => Answer::Word,
    }
}

/// What became of a verb, and when it was executed.
fn outcome(outcome: &CompletionOutcome<'_>, answer: Answer) -> Result<(Outcome, Option<Moment>)> {
    let mut moment = None;
    let outcome = match outcome {
        CompletionOutcome::Committed(reply) => {
            let reply = codec::Reply::decode(reply)
                .map_err(|error| Error::Unintelligible(format!("a verb's reply: {error}")))?;
            moment = Some(reply.moment);
            match (reply.status, answer, reply.value()) {
                (Status::Gone, _, _) => Outcome::Refused(Refusal::UnknownRegion),
                (Status::Contended, _, _) => Outcome::Refused(Refusal::Busy),
                (Status::Mismatch, _, Some(found)) => Outcome::Mismatch {
                    index: reply.index,
                    found,
                },
                (Status::Ok, Answer::Nothing, _) => Outcome::Done,
                (Status::Ok, Answer::Word, Some(old)) => Outcome::Old(old),
                (Status::Ok, Answer::Data, _) => Outcome::Data(reply.data.into()),
                (Status::Ok, Answer::Path, _) => {
                    return Err(Error::Unintelligible("a reply to a watch".to_owned()));
                }
                (status, _, None) => {
                    let len = reply.data.len();
                    return Err(Error::Unintelligible(format!(
                        "{status:?} with {len} bytes instead of a word"
                    )));
                }
            }
        }
        CompletionOutcome::Refused(refusal) => Outcome::Refused(*refusal),
        CompletionOutcome::PeerRestarted => Outcome::PeerRestarted,
        CompletionOutcome::NoSuchPeer => Outcome::NoSuchPeer,
        CompletionOutcome::InDoubt(name) => Outcome::InDoubt(InDoubtId::new(*name, answer)),
        CompletionOutcome::Undone => Outcome::Undone,
        CompletionOutcome::NeverSeen => Outcome::NeverSeen,
        CompletionOutcome::Forgotten => Outcome::Forgotten,
        CompletionOutcome::Malformed => Outcome::Malformed,
        CompletionOutcome::Path { .. } => {
            return Err(Error::Unintelligible(
                "word of a path in answer to a verb".to_owned(),
            ));
        }
    };
    Ok((outcome, moment))
}

/// How something that a group posted ended; `None` if it did not yet.
fn ended(outcome_of: &CompletionOutcome<'_>, answer: Answer) -> Result<Option<Ended>> {
    match outcome_of {
        CompletionOutcome::InDoubt(_) => Ok(None),
        CompletionOutcome::Path { up } if answer == Answer::Path => {
            Ok(Some(Ended::Path { up: *up }))
        }
        other => Ok(Some(Ended::Verb(outcome(other, answer)?.0))),
    }
}

/// The address of a node beyond the neighbours by its name, or of a lane of it (`NAME.1`).
fn far_node(name: &str, nodes: &[FarNodeStatus]) -> Option<Guid> {
    let found = |wanted: &dyn Fn(&str) -> bool| {
        let is_wanted = |node: &&FarNodeStatus| node.name.as_deref().is_some_and(wanted);
        nodes.iter().find(is_wanted).map(|node| node.guid)
    };
    found(&|node| node == name).or_else(|| {
        let lane: u32 = name.rsplit_once('.')?.1.parse().ok()?;
        let is_lane = (1..LANES_MAX as u32).contains(&lane);
        let node = found(&|node| is_lane && of_lane(node, lane) == name)?;
        Some(node.lane(lane))
    })
}

fn unknown_node(name: &str, own: &str, status: &NodeStatus) -> Error {
    let links = status.links.iter();
    let mut known: Vec<&str> = links
        .filter_map(|link| link.peer_name.as_deref())
        .chain(status.nodes.iter().filter_map(|node| node.name.as_deref()))
        .collect();
    known.push(own);
    known.sort_unstable();
    known.dedup();
    Error::UnknownNode {
        name: name.to_owned(),
        known: known.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_nodes_and_their_lanes_are_found_by_name() {
        let node = |bits: u64, name: Option<&str>| FarNodeStatus {
            guid: Guid::new(bits).expect("not zero"),
            name: name.map(ToOwned::to_owned),
            standing: "reached".to_owned(),
            hops: Some(2),
            port: Some("p0".to_owned()),
        };
        let nodes = [
            node(0x100, Some("c")),
            node(0x200, Some("rack.7")),
            node(0x300, None),
        ];
        for (name, bits) in [
            ("c", Some(0x100)),
            ("c.1", Some(0x101)),
            ("rack.7", Some(0x200)),
            ("rack.7.2", Some(0x202)),
            ("c.0", None),
            ("c.256", None),
            ("c.x", None),
            ("rack", None),
            ("", None),
        ] {
            assert_eq!(far_node(name, &nodes).map(Guid::bits), bits, "{name}");
        }
    }
}
