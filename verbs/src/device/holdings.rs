//! Everything that is open through a device, so that it can be opened again under the next daemon:
//! regions with their keys and contents, pipes with their numbers, bindings and tuning.
//!
//! The next memory of an object is that of the current incarnation, unless data is left in one
//! between. A daemon that came and went unnoticed was known to its peers, so data may have arrived
//! there.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    sync::Arc,
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
use covalent_protocol::{region::queue::Receiver, verb::SEND_BYTES_MAX};

use super::{
    generations::Generations,
    opened::{Opened, opened_pipe},
};
use crate::{
    client::{Client, take_fds, unexpected},
    error::{Result, foreign},
    region::RegionOptions,
};

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
pub(super) struct Holdings {
    pipes: BTreeMap<u32, HeldPipe>,
    regions: Vec<HeldRegion>,
    /// The incarnations of the daemon that shut down gracefully.
    in_order: BTreeSet<u32>,
    reconnections: VecDeque<Reconnection>,
    pub(super) carried: Carried,
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
    pub(super) fn opened(
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
    pub(super) fn link_ethertype(&self, id: u32) -> Option<u16> {
        self.pipes.get(&id)?.link_ethertype
    }

    pub(super) fn closed(&mut self, id: u32) {
        self.pipes.remove(&id);
    }

    pub(super) fn bound(&mut self, id: u32, matches: &Match, spread: Option<Spread>) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.bindings.push((matches.clone(), spread));
        }
    }

    pub(super) fn unbound(&mut self, id: u32, matches: &Match) {
        if let Some(pipe) = self.pipes.get_mut(&id)
            && let Some(at) = pipe.bindings.iter().position(|(bound, _)| bound == matches)
        {
            pipe.bindings.remove(at);
        }
    }

    pub(super) fn tuned(&mut self, id: u32, tuning: PipeTuning) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.tuning = Some(tuning);
        }
    }

    pub(super) fn tapped(&mut self, id: u32, frames: TapFrames, snap_bytes: u32) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.tap = Some((frames, snap_bytes));
        }
    }

    /// A region, or with no memory a receive queue, was registered.
    pub(super) fn registered(
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

    /// Takes the next memory of a pipe that was opened again, and its incarnation.
    pub(super) fn take_next(&mut self, id: u32) -> Option<(u32, Opened)> {
        self.pipes.get_mut(&id)?.reopened.next()
    }

    /// Takes the next memory of a receive queue that was registered again, and its incarnation.
    pub(super) fn take_next_queue(&mut self, rkey: u32) -> Option<(u32, RegionMemory)> {
        let region = self.regions.iter_mut().find(|it| it.rkey == rkey)?;
        match &mut region.memory {
            HeldMemory::Queue(reopened) => reopened.next(),
            HeldMemory::Region(_) => None,
        }
    }

    /// Whether there is data in memory that the object of pipe `id` has not taken over yet.
    pub(super) fn waits_for(&self, id: u32) -> bool {
        let pipe = self.pipes.get(&id);
        pipe.is_some_and(|pipe| pipe.reopened.iter().any(|next| pipe.holds_something(next)))
    }

    /// The daemon of incarnation `generation` shuts down gracefully.
    pub(super) fn ends_in_order(&mut self, generation: u32) {
        self.in_order.insert(generation);
    }

    pub(super) fn ended_in_order(&self, generation: u32) -> bool {
        self.in_order.contains(&generation)
    }

    pub(super) fn reconnected(&mut self, reconnection: Reconnection) {
        if self.reconnections.len() == KEPT_MAX {
            self.reconnections.pop_front();
        }
        self.reconnections.push_back(reconnection);
    }

    pub(super) fn next_reconnection(&mut self) -> Option<Reconnection> {
        self.reconnections.pop_front()
    }

    /// Registers every region and opens every pipe again, as incarnation `generation`. Returns the
    /// pipes that receive.
    pub(super) fn restore(
        &mut self,
        client: &mut Client,
        generation: u32,
        deadline: Instant,
    ) -> Result<Vec<u32>> {
        for region in &mut self.regions {
            region.reregister(client, generation, &mut self.carried, deadline)?;
        }
        // A pipe for verbs names the one for their completions, which must be open.
        let (submits, others): (Vec<_>, Vec<_>) =
            (self.pipes.iter()).partition(|(_, pipe)| pipe.completions.is_some());
        let mut opened = BTreeMap::new();
        for (&id, pipe) in others.into_iter().chain(submits) {
            opened.insert(id, pipe.reopen(client, id, deadline)?);
        }
        let mut receiving = Vec::new();
        for ((&id, pipe), opened) in self.pipes.iter_mut().zip(opened.into_values()) {
            pipe.begin(generation, opened, &mut self.carried)?;
            if pipe.receives() {
                receiving.push(id);
            }
        }
        Ok(receiving)
    }

    pub(super) fn withdrawn(&mut self, rkey: u32) {
        self.regions.retain(|region| region.rkey != rkey);
    }

    /// A durable region was deleted: it is an ordinary one from then on.
    pub(super) fn deleted(&mut self, name: &str) {
        for region in self.regions.iter_mut().filter(|it| it.name == name) {
            region.options = region.options.durable(false);
        }
    }
}

impl HeldPipe {
    fn reopen(&self, client: &mut Client, id: u32, deadline: Instant) -> Result<Opened> {
        let what = format!("open pipe {id} ({}) again", self.kind);
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

/// Counts the messages in the memory of a receive queue from which nothing was taken: at most
/// `most`.
fn messages_in(memory: &RegionMemory, most: u64) -> u64 {
    let Some(mut receiver) = Receiver::new(memory.size_bytes()) else {
        return 0;
    };
    let mut data = Box::new([0; SEND_BYTES_MAX]);
    let read = |offset, target: &mut [u8]| memory.read(offset, target);
    let mut messages = 0;
    while messages < most && matches!(receiver.take(read, &mut data), Ok(Some(_))) {
        messages += 1;
    }
    messages
}
