//! UCX and libfabric: each packet and each message is a message of the library.
//!
//! The far side changes a packet where it arrived and sends it back from there.

use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::{
    messenger::{End, Library},
    streams::{
        case::{Size, Test},
        part::{Means, Part, Side},
        peers::{
            BURST, TRIPS_PER_POLL,
            messages::{Messages, Places, Received},
            near::{NearEnd, Opened},
        },
        role::{Prepared, Stage, source},
        source::{AFTER, Source, TOUCHED, touch},
        tally::Tally,
    },
};

/// Longest packet, in bytes.
const PACKET_BYTES_MAX: usize = 2048;

/// The near side, for a measurement that plays it itself.
pub fn near(part: &Part) -> Result<Opened> {
    let end = open(part, PACKET_BYTES_MAX, Box::default())?;
    Ok(Opened {
        note: note(&end)?,
        ..Opened::plain(end)
    })
}

impl NearEnd for End {
    fn meet(&mut self) -> Result<bool> {
        self.accept()
    }

    fn put(&mut self, message: &[u8]) -> Result<bool> {
        put(self, message)
    }

    fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        while let Some(message) = self.receive()? {
            each(message);
        }
        Ok(())
    }
}

fn open(part: &Part, bytes_max: usize, pool: Box<[u8]>) -> Result<End> {
    let library = match part.means {
        Means::Ucx => Library::Ucx,
        Means::Libfabric => Library::Libfabric,
        means => bail!("{means:?} carries no messages"),
    };
    let name = format!("{}{:?}", part.shared_memory_prefix(), part.side);
    End::open(library, &name, bytes_max, pool)
}

/// Encodes the address that the far side connects to.
fn note(end: &End) -> Result<String> {
    serde_json::to_string(&end.address()?).context("writing an address")
}

/// Gets one side ready.
pub fn prepare(part: &Part) -> Result<Prepared> {
    let (bytes_max, pool) = match (part.case.test, part.case.size) {
        (Test::Stream, Size::Bytes(bytes)) => {
            let bytes = bytes as usize;
            let messages = (part.side == Side::Near).then(|| Messages::new(bytes));
            (bytes, messages)
        }
        (Test::Stream, Size::Mix) => bail!("messages have one size in a run"),
        _ => (PACKET_BYTES_MAX, None),
    };
    let (places, pool) = pool.map(Messages::split).unzip();
    let mut end = open(part, bytes_max, pool.unwrap_or_default())?;
    let test = part.case.test;
    match part.side {
        Side::Near => {
            let note = note(&end)?;
            let mut source = places.is_none().then(|| source(part)).transpose()?;
            Ok(Prepared {
                note,
                fds: Vec::new(),
                act: Box::new(move |stage| {
                    if !met(&stage, || end.accept())? {
                        return Ok(stage.meter.finish(0, 0));
                    }
                    match (test, &mut source, places) {
                        (Test::Echo, Some(source), _) => {
                            send_and_take_back(&mut end, source, stage)
                        }
                        (Test::OneWay, Some(source), _) => send(&mut end, source, stage),
                        (Test::RoundTrip, Some(source), _) => ping(&mut end, source, stage),
                        (_, _, Some(mut places)) => send_messages(&mut end, &mut places, stage),
                        _ => bail!("there is nothing to send"),
                    }
                }),
            })
        }
        Side::Far => {
            let address: Vec<u8> =
                serde_json::from_str(&part.note).context("reading an address")?;
            end.connect(&address)?;
            Ok(Prepared::plain(move |stage| {
                if !met(&stage, || end.greet())? {
                    return Ok(stage.meter.finish(0, 0));
                }
                match test {
                    Test::OneWay => receive(&mut end, stage),
                    Test::Stream => receive_messages(&mut end, stage),
                    _ => echo(&mut end, stage),
                }
            }))
        }
        Side::Aid => bail!("{:?} needs no third process", part.means),
    }
}

/// Calls `meet` until both ends are connected. Returns `false` if a stop is requested.
fn met(stage: &Stage<'_>, mut meet: impl FnMut() -> Result<bool>) -> Result<bool> {
    let done = stage.await_some(|| match meet() {
        Ok(false) => None,
        done => Some(done),
    });
    done.unwrap_or(Ok(false))
}

fn put(end: &mut End, packet: &[u8]) -> Result<bool> {
    end.send(packet.len(), |room| room.copy_from_slice(packet))
}

fn send_and_take_back(end: &mut End, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut sent, mut returned, mut bytes, mut wrong) = (0, 0, 0, 0);
    while stage.meter.continues(returned, bytes) {
        for _ in 0..BURST {
            // More would arrive where nothing is posted for it, and be copied once more.
            if sent - returned >= end.depth() || !put(end, source.next_packet())? {
                break;
            }
            sent += 1;
        }
        while let Some(packet) = end.receive()? {
            wrong += u64::from(packet[TOUCHED] != AFTER);
            bytes += packet.len() as u64;
            returned += 1;
        }
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(returned, bytes))
}

fn send(end: &mut End, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let mut sent = 0;
    while stage.meter.continues(sent, 0) {
        for _ in 0..BURST {
            if !put(end, source.next_packet())? {
                break;
            }
            sent += 1;
        }
    }
    Ok(stage.meter.finish(sent, 0))
}

fn receive(end: &mut End, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes, mut touched) = (0, 0, 0);
    while stage.meter.continues(count, bytes) {
        for _ in 0..BURST {
            let Some(packet) = end.receive()? else { break };
            touched += u64::from(packet[TOUCHED]);
            bytes += packet.len() as u64;
            count += 1;
        }
    }
    ensure!(touched == count, "{count} packets add up to {touched}");
    Ok(stage.meter.finish(count, bytes))
}

fn echo(end: &mut End, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes) = (0, 0);
    while stage.meter.continues(count, bytes) {
        for _ in 0..BURST {
            let Some(packet) = end.receive()? else { break };
            touch(packet);
            bytes += packet.len() as u64;
            if !met(&stage, || end.answer())? {
                break;
            }
            count += 1;
        }
    }
    Ok(stage.meter.finish(count, bytes))
}

fn ping(end: &mut End, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut trips, mut wrong) = (0, 0);
    while stage.meter.observe(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_POLL {
            let packet = source.next_packet();
            if !met(&stage, || put(end, packet))? {
                return Ok(stage.meter.finish(trips, 0));
            }
            let byte = stage.await_some(|| {
                end.receive()
                    .map(|packet| packet.map(|packet| packet[TOUCHED]))
                    .transpose()
            });
            let Some(byte) = byte else {
                return Ok(stage.meter.finish(trips, 0));
            };
            wrong += u64::from(byte? != AFTER);
            trips += 1;
        }
        stage.meter.time(before.elapsed() / TRIPS_PER_POLL);
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(trips, 0))
}

/// Sends from the application's buffers: the library copies each message or lets the other side
/// read it.
fn send_messages(end: &mut End, messages: &mut Places, mut stage: Stage<'_>) -> Result<Tally> {
    let mut sent = 0;
    let mut place = messages.next_place();
    while stage.meter.continues(sent, 0) {
        for _ in 0..BURST {
            if !end.send_from(place.clone())? {
                break;
            }
            place = messages.next_place();
            sent += 1;
        }
    }
    Ok(stage.meter.finish(sent, 0))
}

fn receive_messages(end: &mut End, mut stage: Stage<'_>) -> Result<Tally> {
    let mut received = Received::default();
    while stage.meter.continues(received.count, received.bytes) {
        for _ in 0..BURST {
            let Some(message) = end.receive()? else { break };
            received.take(message);
        }
    }
    received.check()?;
    Ok(stage.meter.finish(received.count, received.bytes))
}
