//! A device that outlives its daemon: records what is open through the device, and opens it again
//! when the daemon is back.
//!
//! If the daemon is gone when the application needs it, the device attaches again. It registers its
//! regions with their contents, and opens its pipes, each under its old number, with bindings and
//! tuning. An object keeps its old memory until its next use finds nothing left there. Then it
//! takes over the next memory ([`Device::take_next_memory`]).
//!
//! The next memory is that of the current incarnation, unless data is left in one between. A daemon
//! that came and went unnoticed was known to its peers, so data may have arrived there.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::ErrorKind,
    mem,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    hex64::Hex64,
    request::{PipeKind, Reply, Request},
    rule::{Match, Spread},
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_pipe::{PipeMemory, app, region::RegionMemory};

use crate::{
    client::{Client, Farewell, unexpected},
    device::{Device, Opened, Session, foreign, opened_pipe, take_fds},
    error::{Error, Result},
    generations::Generations,
    receive::messages_in,
    region::RegionOptions,
};

/// Between two attempts to reach a daemon that is not there.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// A search for the daemon that tasks of an event loop wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    since: Instant,
    deadline: Instant,
    in_order: bool,
    /// The earliest time for another attempt.
    next_attempt: Instant,
}

/// How often a request is repeated to the next daemon. The request may be what kills each of them.
const REQUEST_RETRIES_MAX: u32 = 4;

/// Reconnections kept until the application queries them. Older ones are dropped.
const KEPT_MAX: usize = 16;

/// A time at which the daemon was gone and this device found it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnection {
    /// From the moment in which this device noticed until everything was open again.
    pub gap: Duration,
    /// Whether the daemon shut down gracefully: everything that it had accepted was completed and
    /// reported. Otherwise it was killed, or could not complete everything.
    pub in_order: bool,
}

/// Frames, bytes, messages and verbs that were carried over or lost when daemons stopped, over all
/// reconnections. Each object adds its numbers when it is used next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carried {
    /// Frames that the old daemon had not taken, put into the new pipe. A killed daemon may have
    /// sent the first of them.
    pub frames: u64,
    /// Frames that were lost: confirmed and still held, waiting to be sent back in place, or not
    /// received through too many restarts.
    pub frames_lost: u64,
    /// Bytes that were lost: of a message without its end, confirmed and still held, or not
    /// received through too many restarts.
    pub bytes_lost: u64,
    /// Messages of receive queues that were not received through too many restarts.
    pub messages_lost: u64,
    /// Verbs that the old daemon had not taken and that were posted again.
    pub verbs: u64,
    /// Verbs that ended as [`Outcome::Forgotten`](crate::Outcome::Forgotten).
    pub verbs_forgotten: u64,
}

/// Everything that is open through a device, and the totals of its reconnections.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    pipes: BTreeMap<u32, HeldPipe>,
    regions: Vec<HeldRegion>,
    /// The incarnations of the daemon that shut down gracefully.
    in_order: BTreeSet<u32>,
    reconnections: VecDeque<Reconnection>,
    pub(crate) carried: Carried,
}

#[derive(Debug)]
struct HeldPipe {
    kind: PipeKind,
    capacity_bytes: u64,
    port: Option<String>,
    /// Of a pipe for verbs: the pipe for their completions.
    completions: Option<u32>,
    bindings: Vec<(Match, Option<Spread>)>,
    tuning: Option<PipeTuning>,
    tap: Option<(TapFrames, u32)>,
    /// As in [`Opened`].
    link_ethertype: Option<u16>,
    /// Memory that was opened again and that its object has not taken over yet.
    reopened: Generations<Opened>,
}

#[derive(Debug)]
struct HeldRegion {
    name: String,
    rkey: u32,
    /// Shows the next daemon that the key is this region's.
    seal: Hex64,
    size_bytes: u64,
    options: RegionOptions,
    memory: HeldMemory,
}

#[derive(Debug)]
enum HeldMemory {
    /// The region keeps its address and its contents.
    Region(Arc<RegionMemory>),
    /// A receive queue: messages in the old memory are received from there, and the new memory is
    /// empty.
    Queue(Generations<RegionMemory>),
}

impl Holdings {
    /// A pipe was opened.
    pub(crate) fn opened(
        &mut self,
        opened: &Opened,
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<&str>,
        completions: Option<u32>,
    ) {
        let pipe = HeldPipe {
            kind,
            capacity_bytes,
            port: port.map(str::to_owned),
            completions,
            bindings: Vec::new(),
            tuning: None,
            tap: None,
            link_ethertype: opened.link_ethertype,
            reopened: Generations::default(),
        };
        self.pipes.insert(opened.id, pipe);
    }

    /// The EtherType that belongs to links on a port of the pipe, as its present daemon reported.
    pub(crate) fn link_ethertype(&self, id: u32) -> Option<u16> {
        self.pipes.get(&id)?.link_ethertype
    }

    pub(crate) fn closed(&mut self, id: u32) {
        self.pipes.remove(&id);
    }

    pub(crate) fn bound(&mut self, id: u32, matches: &Match, spread: Option<Spread>) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.bindings.push((matches.clone(), spread));
        }
    }

    pub(crate) fn unbound(&mut self, id: u32, matches: &Match) {
        if let Some(pipe) = self.pipes.get_mut(&id)
            && let Some(at) = pipe.bindings.iter().position(|(bound, _)| bound == matches)
        {
            pipe.bindings.remove(at);
        }
    }

    pub(crate) fn tuned(&mut self, id: u32, tuning: PipeTuning) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.tuning = Some(tuning);
        }
    }

    pub(crate) fn tapped(&mut self, id: u32, frames: TapFrames, snap_bytes: u32) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.tap = Some((frames, snap_bytes));
        }
    }

    /// A region, or with no memory a receive queue, was registered.
    pub(crate) fn registered(
        &mut self,
        name: &str,
        (rkey, seal): (u32, Hex64),
        size_bytes: u64,
        options: RegionOptions,
        memory: Option<Arc<RegionMemory>>,
    ) {
        self.regions.push(HeldRegion {
            name: name.to_owned(),
            rkey,
            seal,
            size_bytes,
            options,
            memory: memory.map_or_else(
                || HeldMemory::Queue(Generations::default()),
                HeldMemory::Region,
            ),
        });
    }

    pub(crate) fn withdrawn(&mut self, rkey: u32) {
        self.regions.retain(|region| region.rkey != rkey);
    }

    /// A durable region was deleted: it is an ordinary one from then on.
    pub(crate) fn deleted(&mut self, name: &str) {
        for region in self.regions.iter_mut().filter(|it| it.name == name) {
            region.options = region.options.durable(false);
        }
    }
}

impl HeldPipe {
    fn reopen(&self, client: &mut Client, id: u32, deadline: Instant) -> Result<Opened> {
        let what = format!("open pipe {id} ({:?}) again", self.kind);
        let request = Request::OpenPipeAgain {
            pipe: id,
            kind: self.kind,
            capacity_bytes: self.capacity_bytes,
            port: self.port.clone(),
            completions: self.completions,
        };
        let (reply, fds) = client.request_until(&request, &what, deadline)?;
        let opened = opened_pipe(&reply, fds, self.kind, self.capacity_bytes)?;
        client.done_until(&Request::Mapped, &what, deadline)?;
        if let Some(tuning) = self.tuning {
            let request = Request::TunePipe { pipe: id, tuning };
            client.done_until(&request, &format!("tune pipe {id} again"), deadline)?;
        }
        for (matches, spread) in &self.bindings {
            let request = Request::Bind {
                pipe: id,
                matches: matches.clone(),
                spread: *spread,
            };
            let what = format!("bind pipe {id} to {matches} again");
            client.done_until(&request, &what, deadline)?;
        }
        if let Some((frames, snap_bytes)) = self.tap {
            let request = Request::Tap {
                pipe: id,
                frames,
                snap_bytes,
            };
            client.done_until(&request, &format!("capture into pipe {id} again"), deadline)?;
        }
        Ok(opened)
    }

    const fn receives(&self) -> bool {
        matches!(self.kind, PipeKind::Rx | PipeKind::RxTx | PipeKind::RxBytes)
    }

    /// Whether the memory holds data for its object. Sent data is only in the object's current
    /// memory, and the daemon reports completions for that memory alone.
    fn holds_something(&self, opened: &Opened) -> bool {
        self.receives() && !opened.memory.is_untouched()
    }

    /// Starts an incarnation with `opened`.
    fn begin(&mut self, generation: u32, opened: Opened, carried: &mut Carried) -> Result<()> {
        self.link_ethertype = opened.link_ethertype;
        let mut reopened = mem::take(&mut self.reopened);
        let lost = reopened.begin(generation, opened, |ended| self.holds_something(ended));
        self.reopened = reopened;
        match lost {
            Some(lost) => count_lost(self.kind, lost.memory, carried),
            None => Ok(()),
        }
    }
}

/// Counts the contents of a pipe that will never be received.
fn count_lost(kind: PipeKind, memory: PipeMemory, carried: &mut Carried) -> Result<()> {
    match kind {
        PipeKind::Rx => {
            let mut ring = app::RxPipe::new(memory).map_err(foreign)?;
            carried.frames_lost += ring.peek().map_or(0, |batch| batch.iter().count()) as u64;
        }
        PipeKind::RxTx => {
            let mut ring = app::RxTxPipe::new(memory).map_err(foreign)?;
            if let Some(mut batch) = ring.recv_mut() {
                while batch.next_packet().is_some() {
                    carried.frames_lost += 1;
                }
            }
        }
        PipeKind::RxBytes => {
            let mut ring = app::BytePipe::new(memory).map_err(foreign)?;
            carried.bytes_lost += ring.recv().map_or(0, |batch| batch.bytes().len()) as u64;
        }
        PipeKind::Tx | PipeKind::VerbSubmit | PipeKind::VerbComplete => {}
    }
    Ok(())
}

impl HeldRegion {
    /// Registers the region for incarnation `generation`.
    fn reregister(
        &mut self,
        client: &mut Client,
        generation: u32,
        carried: &mut Carried,
        deadline: Instant,
    ) -> Result<()> {
        let what = format!("register region `{}` again", self.name);
        let request = Request::RegisterRegionAgain {
            rkey: self.rkey,
            seal: self.seal,
            name: self.name.clone(),
            size_bytes: self.size_bytes,
            rights: self.options.rights,
            durable: self.options.durable,
        };
        let (reply, fds) = client.request_until(&request, &what, deadline)?;
        let Reply::Region { .. } = reply else {
            return Err(unexpected("RegisterRegionAgain", &reply));
        };
        let [memory] = take_fds(fds)?;
        match &mut self.memory {
            // Replace before the daemon serves the region, so that the first verb finds the values
            // of the last one.
            HeldMemory::Region(held) => held.replace(memory).map_err(foreign)?,
            HeldMemory::Queue(reopened) => {
                let memory = RegionMemory::open(memory, self.size_bytes).map_err(foreign)?;
                let lost = reopened.begin(generation, memory, |ended| messages_in(ended, 1) > 0);
                carried.messages_lost += lost.map_or(0, |lost| messages_in(&lost, u64::MAX));
            }
        }
        client.done_until(&Request::Mapped, &what, deadline)
    }
}

impl Device {
    /// Makes this device reconnect to its daemon and wait up to `patience` for it. `None` disables
    /// this, which is the default: every call then returns [`Error::DaemonGone`] at once. Call it
    /// right after attaching.
    ///
    /// With reconnection, a call that finds the daemon gone returns only after the daemon is back
    /// or `patience` is over, whatever its own deadline. This includes calls that otherwise do not
    /// block. The device attaches again, registers its regions under their keys, with their
    /// contents, and opens its pipes with their bindings and tuning. If any part of this fails, the
    /// error names it. Then the call continues, and [`Device::next_reconnection`] reports the
    /// reconnection.
    ///
    /// [`Device::carried`] counts the contents of pipes and queues:
    ///
    /// - Packets and messages that had arrived are received first, in the order of the daemons if
    ///   there were several restarts. An object that takes nothing through more than five restarts
    ///   keeps only the data from before the first restart and from the last four daemons that
    ///   stopped. Data in between is lost. Packets that arrive while no daemon runs are lost, as
    ///   from any full pipe.
    /// - The new daemon sends frames that the old daemon had not taken.
    /// - If the daemon shut down gracefully, verbs that it had not taken are posted again. Verbs
    ///   that it had taken were completed and reported. If the daemon was killed, or a verb was in
    ///   doubt, the verb completes as [`Outcome::Forgotten`](crate::Outcome::Forgotten): it was
    ///   executed at most once, and its outcome is unknown.
    /// - Regions keep their contents. A word that another thread stores at the moment of the
    ///   registration may be lost. Until a region is registered again, verbs on it are refused as
    ///   [`Refusal::UnknownRegion`](crate::Refusal::UnknownRegion).
    ///
    /// [Confirmed](crate::RxBatch::confirm) data that is still held is lost with its memory, once
    /// the pipe moves on to the next memory. It is counted.
    ///
    /// A device with tasks of Tokio (feature `tokio`) does not block while no daemon runs. Its
    /// tasks wait, and calls that do not wait return [`Error::DaemonGone`] until the daemon is
    /// back.
    ///
    /// A device with a [`Group`](crate::Group) does not reconnect: a member's incarnation ends with
    /// the daemon. A device that the daemon detached because of its writes to shared memory does
    /// not reconnect either.
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use covalent::Device;
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// device.set_reconnect(Some(Duration::from_secs(30)));
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn set_reconnect(&self, patience: Option<Duration>) {
        self.patience
            .set(patience.map(|it| it.min(crate::wait::LONGEST)));
    }

    /// Returns the oldest reconnection that was not returned yet. The last 16 are kept.
    pub fn next_reconnection(&self) -> Option<Reconnection> {
        self.holdings.borrow_mut().reconnections.pop_front()
    }

    /// Returns the totals of data and verbs that were carried over or lost, over all reconnections.
    #[must_use]
    pub fn carried(&self) -> Carried {
        self.holdings.borrow().carried
    }

    pub(crate) const fn reconnects(&self) -> bool {
        self.patience.get().is_some()
    }

    /// How often the daemon was found again.
    pub(crate) const fn generation(&self) -> u32 {
        self.generation.get()
    }

    /// Whether that incarnation of the daemon shut down gracefully.
    pub(crate) fn ended_in_order(&self, generation: u32) -> bool {
        self.holdings.borrow().in_order.contains(&generation)
    }

    /// Takes the next memory of a pipe that was opened again, and its incarnation, for the pipe's
    /// object.
    pub(crate) fn take_next_memory(&self, id: u32) -> Result<(u32, Opened)> {
        let mut holdings = self.holdings.borrow_mut();
        let pipe = holdings.pipes.get_mut(&id);
        pipe.and_then(|pipe| pipe.reopened.next())
            .ok_or_else(|| self.client.borrow().daemon_gone())
    }

    /// Takes the next memory of a receive queue that was registered again, and its incarnation, for
    /// the queue's object.
    pub(crate) fn take_next_queue_memory(&self, rkey: u32) -> Result<(u32, RegionMemory)> {
        let mut holdings = self.holdings.borrow_mut();
        let region = holdings.regions.iter_mut().find(|it| it.rkey == rkey);
        match region.map(|region| &mut region.memory) {
            Some(HeldMemory::Queue(reopened)) => reopened.next(),
            _ => None,
        }
        .ok_or_else(|| self.client.borrow().daemon_gone())
    }

    /// The object of pipe `id` freed data in the memory of incarnation `generation`. With `rest`,
    /// data may be left there. The lane notifies of data in the current incarnation only, so this
    /// names the pipe again for earlier ones.
    pub(crate) fn gave_back(&self, id: u32, generation: u32, rest: bool) {
        if generation != self.generation() && (rest || self.waits_for(id)) {
            self.name_as_ready(id);
        }
    }

    /// Whether there is data in memory that the object of pipe `id` has not taken over yet.
    #[cold]
    pub(crate) fn waits_for(&self, id: u32) -> bool {
        let holdings = self.holdings.borrow();
        let pipe = holdings.pipes.get(&id);
        pipe.is_some_and(|pipe| pipe.reopened.iter().any(|next| pipe.holds_something(next)))
    }

    /// Updates the totals of [`Device::carried`].
    pub(crate) fn count_carried(&self, count: impl FnOnce(&mut Carried)) {
        count(&mut self.holdings.borrow_mut().carried);
    }

    /// Sends a request to the daemon, and repeats it if the daemon was gone and is back.
    pub(crate) fn retried<T>(
        &self,
        mut exchange: impl FnMut(&mut Client) -> Result<T>,
    ) -> Result<T> {
        let mut retried = exchange(&mut self.client.borrow_mut());
        for _ in 0..REQUEST_RETRIES_MAX {
            match retried {
                Err(error) => self.survive(error)?,
                answered => return answered,
            }
            retried = exchange(&mut self.client.borrow_mut());
        }
        retried
    }

    /// A call met `error`. `Ok`: the daemon was gone and is back, so the call may go on.
    #[cold]
    pub(crate) fn survive(&self, error: Error) -> Result<()> {
        let Some(patience) = self.patience.get() else {
            self.outage.set(None);
            return Err(error);
        };
        let is_gone = matches!(error, Error::DaemonGone { .. }) && self.client.borrow().is_gone();
        if !is_gone || self.has_groups() {
            return Err(error);
        }
        let since = Instant::now();
        let mut outage = match self.outage.take() {
            Some(outage) => outage,
            None => {
                let farewell = self.client.borrow_mut().farewell();
                if farewell == Farewell::Detached {
                    self.patience.set(None);
                    return Err(error);
                }
                let in_order = farewell == Farewell::InOrder;
                if in_order {
                    self.holdings
                        .borrow_mut()
                        .in_order
                        .insert(self.generation());
                }
                Outage {
                    since,
                    deadline: since + patience,
                    in_order,
                    next_attempt: since,
                }
            }
        };
        if since < outage.next_attempt {
            self.outage.set(Some(outage));
            return Err(error);
        }
        loop {
            match self.reattach(outage.deadline) {
                Ok(()) => break,
                Err(passing) if is_passing(&passing) => {
                    let next_attempt = Instant::now() + PAUSE;
                    if next_attempt >= outage.deadline {
                        self.patience.set(None);
                        return Err(error);
                    }
                    if self.has_tasks() {
                        // The tasks sleep, and this thread does not.
                        outage.next_attempt = next_attempt;
                        self.outage.set(Some(outage));
                        return Err(error);
                    }
                    thread::sleep(PAUSE);
                }
                // A timeout while attaching is no result of the call, which may have been executed:
                // report the daemon as gone.
                Err(Error::Deadline { .. }) => {
                    self.patience.set(None);
                    return Err(error);
                }
                Err(lasting) => {
                    self.patience.set(None);
                    return Err(lasting);
                }
            }
        }
        let mut holdings = self.holdings.borrow_mut();
        if holdings.reconnections.len() == KEPT_MAX {
            holdings.reconnections.pop_front();
        }
        holdings.reconnections.push_back(Reconnection {
            gap: outage.since.elapsed(),
            in_order: outage.in_order,
        });
        Ok(())
    }

    /// Whether tasks wait for the daemon to come back. Until then, calls return
    /// [`Error::DaemonGone`].
    pub(crate) const fn is_away(&self) -> bool {
        self.outage.get().is_some()
    }

    fn reattach(&self, deadline: Instant) -> Result<()> {
        let mut client = Client::connect_timeout(&self.socket, &self.program, deadline)?;
        let found = client.node();
        if found.guid != self.node().guid {
            return Err(Error::AnotherNode {
                socket: self.socket.clone(),
                expected: format!("{} ({})", self.node().name, self.node().guid),
                found: format!("{} ({})", found.name, found.guid),
            });
        }
        let (number, mut session) = Session::open(&mut client, self.lane(), deadline)?;
        // Set this even if the attempt fails: a registered queue may receive messages although the
        // daemon is gone again.
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        let holdings = &mut *self.holdings.borrow_mut();
        for region in &mut holdings.regions {
            region.reregister(&mut client, generation, &mut holdings.carried, deadline)?;
        }
        // A pipe for verbs names the one for their completions, which must be open.
        let (submits, others): (Vec<_>, Vec<_>) =
            (holdings.pipes.iter()).partition(|(_, pipe)| pipe.completions.is_some());
        let mut opened = BTreeMap::new();
        for (&id, pipe) in others.into_iter().chain(submits) {
            opened.insert(id, pipe.reopen(&mut client, id, deadline)?);
        }
        for ((&id, pipe), opened) in holdings.pipes.iter_mut().zip(opened.into_values()) {
            pipe.begin(generation, opened, &mut holdings.carried)?;
            if pipe.receives() {
                session.receives(id)?;
            }
        }
        self.changed(client, session, number)
    }
}

/// Whether a daemon that is being restarted shows like that.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::DaemonGone { .. } => true,
        Error::Unreachable { cause, .. } => matches!(
            cause.kind(),
            ErrorKind::NotFound
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                // The socket is there and its mode is still to be set.
                | ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}
