//! iceoryx2: publish and subscribe, memory loaned by the publisher and read where it lies.
//!
//! A received sample cannot be sent on, so the echo loans another and copies into it.

use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use iceoryx2::{
    config::Config,
    node::{Node, NodeBuilder},
    port::{publisher::Publisher, subscriber::Subscriber},
    prelude::{BackpressureStrategy, FileName, Path, SemanticString, SignalHandlingMode, ipc},
};

use crate::streams::{
    case::Test,
    part::{Part, Side},
    peers::{
        BURST, TRIPS_PER_POLL,
        near::{NearEnd, Opened},
    },
    role::{Act, Prepared, Stage, source},
    source::{AFTER, Source, TOUCHED, touch},
    tally::Tally,
};

/// Samples that a subscriber's queue holds; in an echo, the samples in flight.
const QUEUE: usize = 1024;

/// Longest packet, in bytes.
const PACKET_BYTES_MAX: usize = 2048;

/// Names of the services, from the daemon's side and back.
const DIRECTIONS: (&str, &str) = ("there", "back");

/// The tuning, for people.
pub fn tuning() -> String {
    format!(
        "one publisher and one subscriber each way, queues of {QUEUE} samples, no history, no \
         overflow: a full queue discards; bursts of {BURST}"
    )
}

type Out = Publisher<ipc::Service, [u8], ()>;
type In = Subscriber<ipc::Service, [u8], ()>;

/// Gets one side ready.
pub fn prepare(part: &Part) -> Result<Prepared> {
    let node = node(part)?;
    let (there, back) = DIRECTIONS;
    let test = part.case.test;
    match part.side {
        Side::Near => {
            let out = publisher(&node, there)?;
            let back = subscriber(&node, back)?;
            let mut source = source(part)?;
            let act: Act = match test {
                Test::Echo => Box::new(move |stage| {
                    let _node = node;
                    send_and_take_back(&out, &back, &mut source, stage)
                }),
                Test::OneWay => Box::new(move |stage| {
                    let _node = node;
                    send(&out, &mut source, stage)
                }),
                Test::RoundTrip => Box::new(move |stage| {
                    let _node = node;
                    ping(&out, &back, &mut source, stage)
                }),
                _ => bail!("iceoryx2 carries messages, not streams"),
            };
            Ok(Prepared {
                note: String::new(),
                fds: Vec::new(),
                act,
            })
        }
        Side::Far => {
            let there = subscriber(&node, there)?;
            let back = publisher(&node, back)?;
            Ok(Prepared::plain(move |stage| {
                let _node = node;
                if test == Test::OneWay {
                    receive(&there, stage)
                } else {
                    echo(&there, &back, stage)
                }
            }))
        }
        Side::Aid => bail!("iceoryx2 needs no third process"),
    }
}

/// The near side, for a measurement that plays it itself.
pub fn near(part: &Part) -> Result<Opened> {
    let node = node(part)?;
    let (there, back) = DIRECTIONS;
    Ok(Opened::plain(Ends {
        out: publisher(&node, there)?,
        back: subscriber(&node, back)?,
        _node: node,
    }))
}

struct Ends {
    out: Out,
    back: In,
    _node: Node<ipc::Service>,
}

impl NearEnd for Ends {
    fn meet(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn put(&mut self, message: &[u8]) -> Result<bool> {
        put(&self.out, message)
    }

    fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        while take(&self.back, &mut *each)?.is_some() {}
        Ok(())
    }
}

/// Creates a node whose files lie in this pair's folder and whose shared memory has the pair's
/// prefix.
fn node(part: &Part) -> Result<Node<ipc::Service>> {
    let mut config = Config::default();
    let folder = part.folder.as_os_str().as_encoded_bytes();
    let root = Path::new(folder).map_err(|error| anyhow!("a folder for iceoryx2: {error:?}"))?;
    config.global.set_root_path(&root);
    config.global.prefix = FileName::new(part.shared_memory_prefix().as_bytes())
        .map_err(|error| anyhow!("a prefix for iceoryx2: {error:?}"))?;
    NodeBuilder::new()
        .config(&config)
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create()
        .map_err(|error| anyhow!("making an iceoryx2 node: {error:?}"))
}

macro_rules! service {
    ($node:expr, $name:expr) => {
        $node
            .service_builder(
                &$name
                    .try_into()
                    .map_err(|error| anyhow!("a name: {error:?}"))?,
            )
            .publish_subscribe::<[u8]>()
            .max_publishers(1)
            .max_subscribers(1)
            .history_size(0)
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(QUEUE)
            .subscriber_max_borrowed_samples(2)
            .open_or_create()
            .map_err(|error| anyhow!("opening an iceoryx2 service: {error:?}"))
    };
}

fn publisher(node: &Node<ipc::Service>, name: &str) -> Result<Out> {
    service!(node, name)?
        .publisher_builder()
        .initial_max_slice_len(PACKET_BYTES_MAX)
        .max_loaned_samples(2)
        .backpressure_strategy(BackpressureStrategy::DiscardData)
        .create()
        .map_err(|error| anyhow!("making an iceoryx2 publisher: {error:?}"))
}

fn subscriber(node: &Node<ipc::Service>, name: &str) -> Result<In> {
    service!(node, name)?
        .subscriber_builder()
        .buffer_size(QUEUE)
        .create()
        .map_err(|error| anyhow!("making an iceoryx2 subscriber: {error:?}"))
}

/// Sends one packet; `false`: the queue is full.
#[inline]
fn put(out: &Out, packet: &[u8]) -> Result<bool> {
    let sample = out
        .loan_slice_uninit(packet.len())
        .map_err(|error| anyhow!("loaning from iceoryx2: {error:?}"))?;
    let receivers = sample
        .write_from_slice(packet)
        .send()
        .map_err(|error| anyhow!("sending with iceoryx2: {error:?}"))?;
    Ok(receivers > 0)
}

/// Takes one packet if there is one, and gives it to `use_it`.
#[inline]
fn take<T>(from: &In, use_it: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
    let sample = from
        .receive()
        .map_err(|error| anyhow!("receiving with iceoryx2: {error:?}"))?;
    Ok(sample.map(|sample| use_it(sample.payload())))
}

fn send_and_take_back(
    out: &Out,
    back: &In,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let (mut sent, mut returned, mut bytes, mut wrong) = (0, 0, 0, 0);
    while stage.meter.continues(returned, bytes) {
        for _ in 0..BURST {
            if sent - returned >= QUEUE as u64 || !put(out, source.next_packet())? {
                break;
            }
            sent += 1;
        }
        while let Some((length, byte)) = take(back, |packet| (packet.len(), packet[TOUCHED]))? {
            wrong += u64::from(byte != AFTER);
            bytes += length as u64;
            returned += 1;
        }
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(returned, bytes))
}

fn send(out: &Out, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let mut sent = 0;
    while stage.meter.continues(sent, 0) {
        for _ in 0..BURST {
            // A packet that the full queue refuses is dropped, as by a NIC.
            sent += u64::from(put(out, source.next_packet())?);
        }
    }
    Ok(stage.meter.finish(sent, 0))
}

fn receive(there: &In, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes, mut touched) = (0, 0, 0);
    while stage.meter.continues(count, bytes) {
        for _ in 0..BURST {
            let Some((length, byte)) = take(there, |packet| (packet.len(), packet[TOUCHED]))?
            else {
                break;
            };
            touched += u64::from(byte);
            bytes += length as u64;
            count += 1;
        }
    }
    ensure!(touched == count, "{count} packets add up to {touched}");
    Ok(stage.meter.finish(count, bytes))
}

fn echo(there: &In, back: &Out, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes) = (0, 0);
    while stage.meter.continues(count, bytes) {
        for _ in 0..BURST {
            let sent = take(there, |packet| {
                let sample = back
                    .loan_slice_uninit(packet.len())
                    .map_err(|error| anyhow!("loaning from iceoryx2: {error:?}"))?;
                let mut sample = sample.write_from_slice(packet);
                touch(sample.payload_mut());
                sample
                    .send()
                    .map_err(|error| anyhow!("sending with iceoryx2: {error:?}"))?;
                Ok::<_, anyhow::Error>(packet.len())
            })?;
            let Some(length) = sent else { break };
            bytes += length? as u64;
            count += 1;
        }
    }
    Ok(stage.meter.finish(count, bytes))
}

fn ping(out: &Out, back: &In, source: &mut Source, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut trips, mut wrong) = (0, 0);
    while stage.meter.observe(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_POLL {
            put(out, source.next_packet())?;
            let Some(byte) = stage.await_some(|| take(back, |packet| packet[TOUCHED]).transpose())
            else {
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
