//! A device that outlives its daemon: what is open through it, and how that is opened again when the daemon is back.
//!
//! The device knows what was asked of the daemon. When the daemon is gone and the application wants it, it attaches again, registers its regions with what
//! they hold, and opens its pipes, each under its old number, with bindings and tuning. The objects follow by themselves: each has the memory that it had until it is used next and
//! nothing is left there, then it takes over the next one ([`Device::take_again`]). That is the present life's, unless something lies in that of a life between: a daemon that came and went
//! while nobody looked has told its peers that it is there.

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
    lives::Lives,
    receive::messages_in,
    region::RegionOptions,
};

/// Between two attempts to reach a daemon that is not there.
const PAUSE: Duration = Duration::from_millis(2);

/// How often a request is made again of the next daemon. It may be what every one of them dies of.
const ASKED_AGAIN_MAX: u32 = 4;

/// Reconnections that wait to be asked about: older ones are forgotten.
const KEPT_MAX: usize = 16;

/// A time at which the daemon was gone and this device found it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnection {
    /// From the moment in which this device noticed until everything was open again.
    pub gap: Duration,
    /// The daemon said goodbye: everything that it had taken had ended, and was told. Else it was killed, or could not end everything.
    pub in_order: bool,
}

/// What became of what lay in pipes and queues when daemons ended, over all reconnections. Each object counts when it is used next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carried {
    /// Frames that the old daemon had not taken, put into the new pipe. One that was killed may have sent the first of them.
    pub frames: u64,
    /// Frames that were lost: confirmed and still held, to be sent back in place, or not received through too many restarts.
    pub frames_lost: u64,
    /// Bytes of a message without its end, those that were confirmed and still held, and those that were not received through too many restarts.
    pub bytes_lost: u64,
    /// Messages of receive queues that were not received through too many restarts.
    pub messages_lost: u64,
    /// Verbs that the old daemon had not taken, posted again.
    pub verbs: u64,
    /// Verbs that ended as [`Outcome::Forgotten`](crate::Outcome::Forgotten).
    pub verbs_forgotten: u64,
}

/// What is open through a device, and what became of it.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    pipes: BTreeMap<u32, HeldPipe>,
    regions: Vec<HeldRegion>,
    /// The lives of the daemon that ended in order.
    in_order: BTreeSet<u32>,
    reconnections: VecDeque<Reconnection>,
    pub(crate) carried: Carried,
}

#[derive(Debug)]
struct HeldPipe {
    kind: PipeKind,
    capacity_bytes: u64,
    port: Option<String>,
    bindings: Vec<(Match, Option<Spread>)>,
    tuning: Option<PipeTuning>,
    tap: Option<(TapFrames, u32)>,
    /// Opened again, until its object comes to it.
    again: Lives<Opened>,
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
    /// It keeps its place and what it holds.
    Region(Arc<RegionMemory>),
    /// A receive queue: what lies in the old memory is received from there, and the new one is empty.
    Queue(Lives<RegionMemory>),
}

impl Holdings {
    /// A pipe was opened.
    pub(crate) fn opened(
        &mut self,
        id: u32,
        kind: PipeKind,
        capacity_bytes: u64,
        port: Option<&str>,
    ) {
        let pipe = HeldPipe {
            kind,
            capacity_bytes,
            port: port.map(str::to_owned),
            bindings: Vec::new(),
            tuning: None,
            tap: None,
            again: Lives::default(),
        };
        self.pipes.insert(id, pipe);
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
            memory: memory.map_or_else(|| HeldMemory::Queue(Lives::default()), HeldMemory::Region),
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
    fn open_again(&self, client: &mut Client, id: u32, deadline: Instant) -> Result<Opened> {
        let what = format!("open pipe {id} ({:?}) again", self.kind);
        let request = Request::OpenPipeAgain {
            pipe: id,
            kind: self.kind,
            capacity_bytes: self.capacity_bytes,
            port: self.port.clone(),
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

    /// Whether something lies there for the object. What goes to the daemon is put where the object is, and of that alone the daemon tells the ends.
    fn holds_something(&self, opened: &Opened) -> bool {
        self.receives() && !opened.memory.is_untouched()
    }

    /// A life begins with `opened`.
    fn begin(&mut self, life: u32, opened: Opened, carried: &mut Carried) -> Result<()> {
        let mut again = mem::take(&mut self.again);
        let lost = again.begin(life, opened, |ended| self.holds_something(ended));
        self.again = again;
        match lost {
            Some(lost) => count_lost(self.kind, lost.memory, carried),
            None => Ok(()),
        }
    }
}

/// Counts what lies in a pipe that nobody will receive.
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
    /// For life number `life`.
    fn register_again(
        &mut self,
        client: &mut Client,
        life: u32,
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
            // Before it is served, so that the first verb finds what the last one left.
            HeldMemory::Region(held) => held.replace(memory).map_err(foreign)?,
            HeldMemory::Queue(again) => {
                let memory = RegionMemory::open(memory, self.size_bytes).map_err(foreign)?;
                let lost = again.begin(life, memory, |ended| messages_in(ended, 1) > 0);
                carried.messages_lost += lost.map_or(0, |lost| messages_in(&lost, u64::MAX));
            }
        }
        client.done_until(&Request::Mapped, &what, deadline)
    }
}

impl Device {
    /// Has this device find its daemon again when that is gone, for so long; `None`, as at first, has every call end with [`Error::DaemonGone`] at once. Set it right
    /// after attaching.
    ///
    /// From then on a call that finds the daemon gone does not return before the daemon is back, or `patience` is over, whatever its own deadline; calls that do not block
    /// otherwise do so then. The device attaches again, registers its regions under their keys with what they hold, and opens its pipes with their bindings
    /// and tuning. All of it, or the error says what could not be had again. Then the call goes on, and [`Device::next_reconnection`] tells of it.
    /// What lay in pipes and queues is counted in [`Device::carried`]:
    ///
    /// - Packets and messages that had arrived are received first, of one daemon after the other if it was restarted more than once since. An object that takes nothing through more than five
    ///   restarts loses what came after the first and is not of the last four. What arrives while there is no daemon is lost, as from any full pipe.
    /// - Frames that were not taken are sent by the new daemon.
    /// - Verbs that were not taken are posted again, if the daemon ended in order; those that it had taken have ended, and it has told how. If it was killed, or a verb was in doubt, it
    ///   ends as [`Outcome::Forgotten`](crate::Outcome::Forgotten): executed at most once, and nobody can tell.
    /// - Regions keep what they hold, though a word that another thread stores in the moment in which they are registered again may be lost. Until they are, verbs on them are refused as
    ///   [`Refusal::UnknownRegion`](crate::Refusal::UnknownRegion).
    ///
    /// What was [confirmed](crate::RxBatch::confirm) and is held is gone with the memory that it lies in, once the pipe goes on in the next one; it is counted.
    ///
    /// A device with a [`Group`](crate::Group) does not find its daemon again: a stay ends with the daemon. Nor does one that was detached for what it wrote into shared memory.
    ///
    /// # Examples
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use covalent_verbs::Device;
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// device.set_reconnect(Some(Duration::from_secs(30)));
    /// # Ok::<(), covalent_verbs::Error>(())
    /// ```
    pub fn set_reconnect(&self, patience: Option<Duration>) {
        self.patience
            .set(patience.map(|it| it.min(crate::wait::LONGEST)));
    }

    /// The oldest reconnection that nobody has asked about. Of those that are not asked about the last 16 are kept.
    pub fn next_reconnection(&self) -> Option<Reconnection> {
        self.holdings.borrow_mut().reconnections.pop_front()
    }

    /// What became of what lay in pipes and queues, over all reconnections.
    #[must_use]
    pub fn carried(&self) -> Carried {
        self.holdings.borrow().carried
    }

    pub(crate) const fn reconnects(&self) -> bool {
        self.patience.get().is_some()
    }

    /// How often the daemon was found again.
    pub(crate) const fn life(&self) -> u32 {
        self.life.get()
    }

    /// Whether the daemon of that life ended in order.
    pub(crate) fn ended_in_order(&self, life: u32) -> bool {
        self.holdings.borrow().in_order.contains(&life)
    }

    /// The next memory of a pipe that was opened again, for its object, and the life that it is of.
    pub(crate) fn take_again(&self, id: u32) -> Result<(u32, Opened)> {
        let mut holdings = self.holdings.borrow_mut();
        let pipe = holdings.pipes.get_mut(&id);
        pipe.and_then(|pipe| pipe.again.next())
            .ok_or_else(|| self.client.borrow().daemon_gone())
    }

    /// The next memory of a receive queue that was registered again, for its object, and the life that it is of.
    pub(crate) fn take_queue_again(&self, rkey: u32) -> Result<(u32, RegionMemory)> {
        let mut holdings = self.holdings.borrow_mut();
        let region = holdings.regions.iter_mut().find(|it| it.rkey == rkey);
        match region.map(|region| &mut region.memory) {
            Some(HeldMemory::Queue(again)) => again.next(),
            _ => None,
        }
        .ok_or_else(|| self.client.borrow().daemon_gone())
    }

    /// The object of pipe `id` gave something back in the memory of life number `life`; with `rest`, something may be left there. In the present life the lane says what is news. Of
    /// former ones nobody else does.
    pub(crate) fn gave_back(&self, id: u32, life: u32, rest: bool) {
        if life != self.life() && (rest || self.waits_for(id)) {
            self.name_again(id);
        }
    }

    /// Whether something lies in memory that the object of pipe `id` has not come to.
    #[cold]
    pub(crate) fn waits_for(&self, id: u32) -> bool {
        let holdings = self.holdings.borrow();
        let pipe = holdings.pipes.get(&id);
        pipe.is_some_and(|pipe| pipe.again.iter().any(|next| pipe.holds_something(next)))
    }

    /// Counts what became of something.
    pub(crate) fn count_carried(&self, count: impl FnOnce(&mut Carried)) {
        count(&mut self.holdings.borrow_mut().carried);
    }

    /// Asks the daemon for something, and again if it was gone and is back.
    pub(crate) fn asked<T>(&self, mut ask: impl FnMut(&mut Client) -> Result<T>) -> Result<T> {
        let mut asked = ask(&mut self.client.borrow_mut());
        for _ in 0..ASKED_AGAIN_MAX {
            match asked {
                Err(error) => self.survive(error)?,
                answered => return answered,
            }
            asked = ask(&mut self.client.borrow_mut());
        }
        asked
    }

    /// A call met `error`. `Ok`: the daemon was gone and is back, so the call may go on.
    #[cold]
    pub(crate) fn survive(&self, error: Error) -> Result<()> {
        let Some(patience) = self.patience.get() else {
            return Err(error);
        };
        let is_gone = matches!(error, Error::DaemonGone { .. }) && self.client.borrow().is_gone();
        if !is_gone || self.has_groups() {
            return Err(error);
        }
        let since = Instant::now();
        let farewell = self.client.borrow_mut().farewell();
        if farewell == Farewell::Detached {
            self.patience.set(None);
            return Err(error);
        }
        let deadline = since + patience;
        let in_order = farewell == Farewell::InOrder;
        if in_order {
            self.holdings.borrow_mut().in_order.insert(self.life());
        }
        loop {
            match self.attach_again(deadline) {
                Ok(()) => break,
                Err(passing) if is_passing(&passing) => {
                    if Instant::now() + PAUSE >= deadline {
                        self.patience.set(None);
                        return Err(error);
                    }
                    thread::sleep(PAUSE);
                }
                // That nobody answered in time says nothing of the call, which may have been executed: the daemon is gone.
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
            gap: since.elapsed(),
            in_order,
        });
        Ok(())
    }

    fn attach_again(&self, deadline: Instant) -> Result<()> {
        let mut client = Client::connect_deadline(&self.socket, &self.program, deadline)?;
        let found = client.node();
        if found.guid != self.node().guid {
            return Err(Error::AnotherNode {
                socket: self.socket.clone(),
                expected: format!("{} ({})", self.node().name, self.node().guid),
                found: format!("{} ({})", found.name, found.guid),
            });
        }
        let (number, mut session) = Session::open(&mut client, self.lane(), deadline)?;
        // Whether or not it comes to its end: a queue that is registered may be sent to, even if the daemon is gone again before the next one is.
        let life = self.life.get() + 1;
        self.life.set(life);
        let holdings = &mut *self.holdings.borrow_mut();
        for region in &mut holdings.regions {
            region.register_again(&mut client, life, &mut holdings.carried, deadline)?;
        }
        let mut opened = Vec::with_capacity(holdings.pipes.len());
        for (&id, pipe) in &holdings.pipes {
            opened.push(pipe.open_again(&mut client, id, deadline)?);
        }
        for ((&id, pipe), opened) in holdings.pipes.iter_mut().zip(opened) {
            pipe.begin(life, opened, &mut holdings.carried)?;
            if pipe.receives() {
                session.receives(id)?;
            }
        }
        self.changed(client, session, number);
        Ok(())
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
