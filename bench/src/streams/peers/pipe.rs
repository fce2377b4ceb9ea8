//! Covalent's pipes: the daemon's half in one process, the application's half in the other, as
//! between `covalentd` and an application.

use std::{os::fd::OwnedFd, time::Instant};

use anyhow::{Context, Result, bail, ensure};
use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    app::{BytePipe, RxPipe, RxTxPipe},
    framing::LengthPrefixed,
    nic::{NicPipe, PushRefusal},
};

use crate::streams::{
    case::Test,
    part::{Means, Part, Side},
    peers::{
        BURST, TRIPS_PER_POLL,
        bells::{FarBells, NearBells},
        messages::{Messages, Received, Sending},
        near::{NearEnd, Opened},
    },
    role::{Prepared, Stage, source},
    source::{AFTER, Source, TOUCHED, touch},
    tally::Tally,
};

/// Messages received before their bytes are released: a batch of the smallest ones.
const MESSAGES_PER_POLL: usize = 4096;

/// Messages that the ring of a stream holds at least.
const MESSAGES_IN_RING: u64 = 3;

/// Gets one side ready.
pub fn prepare(part: &Part, fds: Vec<OwnedFd>) -> Result<Prepared> {
    let direction = match part.case.test {
        Test::Echo | Test::RoundTrip => Direction::RxTx,
        Test::OneWay => Direction::Rx,
        Test::Stream | Test::StreamUnbatched => Direction::RxBytes,
    };
    let capacity_bytes = capacity_bytes(part)?;
    match part.side {
        Side::Near => near(part, direction, capacity_bytes),
        Side::Far => far(part, fds, direction, capacity_bytes),
        Side::Aid => bail!("pipes need no third process"),
    }
}

fn capacity_bytes(part: &Part) -> Result<u64> {
    if !matches!(part.case.test, Test::Stream | Test::StreamUnbatched) {
        return Ok(part.ring_bytes);
    }
    let batch_bytes = Sending::of(part.case)?.batch_bytes() as u64;
    Ok(part
        .ring_bytes
        .max((batch_bytes * MESSAGES_IN_RING).next_power_of_two()))
}

fn near(part: &Part, direction: Direction, capacity_bytes: u64) -> Result<Prepared> {
    let (
        Ends {
            mut nic, mut bells, ..
        },
        fds,
    ) = create(part, direction, capacity_bytes)?;
    let part = part.clone();
    let act: crate::streams::role::Act = match part.case.test {
        Test::Echo => {
            let mut source = source(&part)?;
            Box::new(move |stage| send_and_take_back(&mut nic, &mut bells, &mut source, stage))
        }
        Test::OneWay => {
            let mut source = source(&part)?;
            Box::new(move |stage| send(&mut nic, &mut bells, &mut source, stage))
        }
        Test::RoundTrip => {
            let mut source = source(&part)?;
            Box::new(move |stage| ping(&mut nic, &mut bells, &mut source, stage))
        }
        Test::Stream | Test::StreamUnbatched => {
            let sending = Sending::of(part.case)?;
            let mut messages = Messages::new(sending.message_bytes);
            Box::new(move |stage| {
                send_messages(&mut nic, &mut bells, &mut messages, sending, stage)
            })
        }
    };
    Ok(Prepared {
        note: String::new(),
        fds,
        act,
    })
}

/// The daemon's half.
struct Ends {
    nic: NicPipe,
    bells: NearBells,
    /// Returned packets are copied here to be checked.
    copied: Vec<u8>,
}

fn create(part: &Part, direction: Direction, capacity_bytes: u64) -> Result<(Ends, Vec<OwnedFd>)> {
    let memory = PipeMemory::create(&PipeSpec {
        direction,
        capacity_bytes,
        pages: if part.huge_pages {
            PagePolicy::Require
        } else {
            PagePolicy::Never
        },
    })
    .context("making a pipe")?;
    let mut fds = Vec::new();
    for fd in memory.fds() {
        fds.push(fd.try_clone_to_owned().context("handing a pipe over")?);
    }
    let nic = NicPipe::new(memory);
    let bells = NearBells::prepare(part.means == Means::Pipe, &mut fds)?;
    let copied = Vec::new();
    Ok((Ends { nic, bells, copied }, fds))
}

/// The near side, for a measurement that plays it itself.
pub fn open_near(part: &Part) -> Result<Opened> {
    let (ends, fds) = create(part, Direction::RxTx, part.ring_bytes)?;
    Ok(Opened {
        fds,
        ..Opened::plain(ends)
    })
}

impl NearEnd for Ends {
    fn meet(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn put(&mut self, message: &[u8]) -> Result<bool> {
        if self.nic.push(message).is_err() {
            return Ok(false);
        }
        self.bells.publish(&mut self.nic)?;
        Ok(true)
    }

    fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.bells.answer(&mut self.nic)?;
        let copied = &mut self.copied;
        self.nic.take_tx(usize::MAX, |packet| {
            copied.resize(packet.len(), 0);
            packet.copy_to(copied);
            each(copied);
            true
        })?;
        self.nic.complete_tx();
        Ok(())
    }
}

fn far(
    part: &Part,
    mut fds: Vec<OwnedFd>,
    direction: Direction,
    capacity_bytes: u64,
) -> Result<Prepared> {
    let mut bells = FarBells::prepare(part.means == Means::Pipe, &mut fds)?;
    let fds: [OwnedFd; 2] = fds.try_into().ok().context("a pipe has two descriptors")?;
    let memory = PipeMemory::open(fds, direction, capacity_bytes).context("opening a pipe")?;
    Ok(match part.case.test {
        Test::Echo | Test::RoundTrip => {
            let mut pipe = RxTxPipe::new(memory).context("opening a pipe")?;
            Prepared::plain(move |stage| echo(&mut pipe, &mut bells, stage))
        }
        Test::OneWay => {
            let mut pipe = RxPipe::new(memory).context("opening a pipe")?;
            Prepared::plain(move |stage| receive(&mut pipe, stage))
        }
        Test::Stream | Test::StreamUnbatched => {
            let mut pipe = BytePipe::new(memory).context("opening a pipe")?;
            Prepared::plain(move |stage| receive_messages(&mut pipe, stage))
        }
    })
}

/// Runs the daemon's core: copies packets in, publishes them, takes back sent packets and checks
/// the byte that the application changed.
fn send_and_take_back(
    nic: &mut NicPipe,
    bells: &mut NearBells,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let (mut returned, mut bytes, mut wrong) = (0, 0, 0);
    while stage.meter.continues(returned, bytes) {
        push_burst(nic, bells, source)?;
        bells.answer(nic)?;
        returned += nic.take_tx(usize::MAX, |packet| {
            wrong += u64::from(packet.byte(TOUCHED) != Some(AFTER));
            bytes += packet.len() as u64;
            true
        })? as u64;
        nic.complete_tx();
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(returned, bytes))
}

fn send(
    nic: &mut NicPipe,
    bells: &mut NearBells,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut sent = 0;
    while stage.meter.continues(sent, 0) {
        sent += push_burst(nic, bells, source)?;
        bells.answer(nic)?;
    }
    Ok(stage.meter.finish(sent, 0))
}

#[inline]
fn push_burst(nic: &mut NicPipe, bells: &mut NearBells, source: &mut Source) -> Result<u64> {
    let mut pushed = 0;
    // The packet that does not fit is dropped, as a NIC would; the next one is another.
    while pushed < BURST as u64 && nic.push(source.next_packet()).is_ok() {
        pushed += 1;
    }
    bells.publish(nic)?;
    Ok(pushed)
}

fn ping(
    nic: &mut NicPipe,
    bells: &mut NearBells,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let (mut trips, mut wrong) = (0, 0);
    while stage.meter.observe(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_POLL {
            nic.push(source.next_packet())?;
            bells.publish(nic)?;
            let Some(byte) = stage.await_some(|| answer(nic, bells).transpose()) else {
                return Ok(stage.meter.finish(trips, 0));
            };
            wrong += u64::from(byte? != AFTER);
            nic.advance_tx();
            nic.complete_tx();
            trips += 1;
        }
        stage.meter.time(before.elapsed() / TRIPS_PER_POLL);
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(trips, 0))
}

/// The byte that the application changed, once the packet is back.
#[inline]
fn answer(nic: &mut NicPipe, bells: &mut NearBells) -> Result<Option<u8>> {
    bells.answer(nic)?;
    Ok(nic.peek_tx()?.and_then(|packet| packet.byte(TOUCHED)))
}

/// The application's core: changes a byte of each packet where it lies, and sends them on.
fn echo(pipe: &mut RxTxPipe, bells: &mut FarBells, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes) = (0, 0);
    while stage.meter.continues(count, bytes) {
        let Some(mut batch) = pipe.recv_mut() else {
            continue;
        };
        let mut packets = 0;
        while packets < BURST
            && let Some(mut packet) = batch.next_packet()
        {
            touch(&mut packet);
            bytes += packet.len() as u64;
            packets += 1;
        }
        if batch.send_taken() {
            bells.ring()?;
        }
        count += packets as u64;
    }
    if let Some(violation) = pipe.violation() {
        bail!("{violation}");
    }
    Ok(stage.meter.finish(count, bytes))
}

fn receive(pipe: &mut RxPipe, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes, mut touched) = (0, 0, 0);
    while stage.meter.continues(count, bytes) {
        let Some(batch) = pipe.recv() else {
            continue;
        };
        let mut packets = 0;
        let mut walk = batch.iter();
        for packet in walk.by_ref().take(BURST) {
            touched += u64::from(packet[TOUCHED]);
            bytes += packet.len() as u64;
            packets += 1;
        }
        let position = walk.position();
        batch.free_to(position);
        count += packets;
    }
    ensure!(touched == count, "{count} packets add up to {touched}");
    Ok(stage.meter.finish(count, bytes))
}

/// Bytes without gaps: where a batch ends is not to be seen.
fn send_messages(
    nic: &mut NicPipe,
    bells: &mut NearBells,
    messages: &mut Messages,
    sending: Sending,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut sent = 0;
    let mut batch = vec![0; sending.batch_bytes()];
    let mut is_filled = false;
    while stage.meter.continues(sent, 0) {
        if !is_filled {
            messages.fill(&mut batch);
            is_filled = true;
        }
        match nic.push(&batch) {
            Ok(()) => {
                is_filled = false;
                bells.publish(nic)?;
                sent += sending.per_batch as u64;
            }
            Err(PushRefusal::Full) => {}
            // The ring holds several, so there is no other refusal.
            Err(_) => break,
        }
        bells.answer(nic)?;
    }
    Ok(stage.meter.finish(sent, 0))
}

fn receive_messages(pipe: &mut BytePipe, mut stage: Stage<'_>) -> Result<Tally> {
    let framing = LengthPrefixed::u32_le(pipe.capacity_bytes() as usize);
    let mut received = Received::default();
    while stage.meter.continues(received.count, received.bytes) {
        let Some(batch) = pipe.recv() else {
            continue;
        };
        let mut messages = batch.messages(framing);
        for message in messages.by_ref().take(MESSAGES_PER_POLL) {
            received.take(message);
        }
        let used_bytes = messages.consumed_bytes();
        if let Some(problem) = messages.error() {
            bail!("{problem}");
        }
        batch.free(used_bytes);
    }
    received.check()?;
    Ok(stage.meter.finish(received.count, received.bytes))
}
