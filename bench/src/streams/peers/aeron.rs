//! Aeron over IPC: the C media driver in its own process, exclusive publications, claimed in place.

use std::{
    ffi::CString,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rusteron_client::{
    Aeron, AeronExclusivePublication, AeronOfferError, AeronSubscription, Handlers,
};
use rusteron_media_driver::{AeronDriver, AeronDriverContext, bindings::aeron_threading_mode_enum};

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

/// Both directions' channel, without its parameters.
const CHANNEL: &str = "aeron:ipc?term-length=16m";

/// From the daemon's side, and back.
const STREAMS: [i32; 2] = [1001, 1002];

/// Longest message that is not cut in pieces: all packets here.
const MTU_BYTES: usize = 8192;

/// How long the shared thread of the driver sleeps when idle.
const DRIVER_SLEEP: &str = "50us";

/// How long publications and subscriptions may take to find each other.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the version that the C library reports.
pub fn version() -> String {
    Aeron::version_text().to_owned()
}

/// The tuning, for people.
pub fn tuning() -> String {
    format!(
        "channel {CHANNEL}, MTU {MTU_BYTES}; exclusive publications with try_claim, polled {BURST} \
         fragments at a time; media driver in a separate process, not pinned, threading SHARED, \
         idle strategy sleep-ns {DRIVER_SLEEP}, non-sparse terms"
    )
}

/// Gets one side ready.
pub fn prepare(part: &Part) -> Result<Prepared> {
    let folder = part.folder.join("aeron");
    let folder = folder.to_str().context("a folder's name is UTF-8")?;
    if part.side == Side::Aid {
        return driver(folder);
    }
    let Ends { aeron, out, from } = Ends::open(part, folder)?;
    let test = part.case.test;
    let near = part.side == Side::Near;
    let mut source = near.then(|| source(part)).transpose()?;
    let act: Act = Box::new(move |stage| {
        let _aeron = aeron;
        wait_until_connected(&out)?;
        match (&mut source, test) {
            (Some(source), Test::Echo) => send_and_take_back(&out, &from, source, stage),
            (Some(source), Test::OneWay) => send(&out, source, stage),
            (Some(source), Test::RoundTrip) => ping(&out, &from, source, stage),
            (None, Test::Echo | Test::RoundTrip) => echo(&from, &out, stage),
            (None, Test::OneWay) => receive(&from, stage),
            _ => bail!("Aeron has no such part here"),
        }
    });
    Ok(Prepared {
        note: String::new(),
        fds: Vec::new(),
        act,
    })
}

/// The client and streams that both sides open.
struct Ends {
    /// Must not end before the others.
    aeron: Aeron,
    out: AeronExclusivePublication,
    from: AeronSubscription,
}

impl Ends {
    fn open(part: &Part, folder: &str) -> Result<Self> {
        let aeron = Aeron::connect_dir(folder)
            .map_err(|error| anyhow!("connecting to Aeron: {error:?}"))?;
        let channel = CString::new(CHANNEL)?;
        let [there, back] = STREAMS;
        let (out, from) = if part.side == Side::Near {
            (there, back)
        } else {
            (back, there)
        };
        let out = aeron
            .async_add_exclusive_publication(&channel, out)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(|error| anyhow!("adding an Aeron publication: {error:?}"))?;
        let from = aeron
            .async_add_subscription(&channel, from, Handlers::NONE, Handlers::NONE)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(|error| anyhow!("adding an Aeron subscription: {error:?}"))?;
        Ok(Self { aeron, out, from })
    }
}

/// The near side, for a measurement that plays it itself.
pub fn near(part: &Part) -> Result<Opened> {
    let folder = part.folder.join("aeron");
    let folder = folder.to_str().context("a folder's name is UTF-8")?;
    Ok(Opened::plain(Ends::open(part, folder)?))
}

impl NearEnd for Ends {
    fn meet(&mut self) -> Result<bool> {
        Ok(self.out.is_connected())
    }

    fn put(&mut self, message: &[u8]) -> Result<bool> {
        put(&self.out, message.len(), copy(message))
    }

    fn take(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        poll(&self.from, each).map(|_| ())
    }
}

/// Runs the media driver until it is stopped.
fn driver(folder: &str) -> Result<Prepared> {
    let context = AeronDriverContext::new().map_err(|error| anyhow!("Aeron: {error:?}"))?;
    let folder = CString::new(folder)?;
    let sleep = CString::new("sleep-ns")?;
    let sleep_time = CString::new(DRIVER_SLEEP)?;
    context
        .set_dir(&folder)
        .and_then(|_| context.set_dir_delete_on_start(true))
        .and_then(|_| context.set_dir_delete_on_shutdown(true))
        .and_then(|_| {
            context.set_threading_mode(aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED)
        })
        .and_then(|_| context.set_shared_idle_strategy(&sleep))
        .and_then(|_| context.set_shared_idle_strategy_init_args(&sleep_time))
        .and_then(|_| context.set_term_buffer_sparse_file(false))
        .and_then(|_| context.set_ipc_mtu_length(MTU_BYTES))
        .map_err(|error| anyhow!("configuring Aeron's media driver: {error:?}"))?;
    let (end, running) = AeronDriver::launch_embedded(context, false);
    Ok(Prepared::plain(move |mut stage| {
        while stage.meter.observe(0, 0) {
            thread::sleep(Duration::from_millis(1));
        }
        end.store(true, Ordering::SeqCst);
        match running.join() {
            Ok(Ok(())) => Ok(stage.meter.finish(0, 0)),
            Ok(Err(error)) => bail!("Aeron's media driver: {error:?}"),
            Err(_) => bail!("Aeron's media driver panicked"),
        }
    }))
}

fn wait_until_connected(out: &AeronExclusivePublication) -> Result<()> {
    let start = Instant::now();
    while !out.is_connected() {
        ensure!(start.elapsed() < PATIENCE, "no Aeron subscriber connected");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Claims space for a packet and calls `fill` to write it. Returns `false` if there is no space
/// now.
#[inline]
fn put(
    out: &AeronExclusivePublication,
    length: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<bool> {
    match out.try_claim_owned(length) {
        Ok(mut claim) => {
            fill(claim.data());
            claim
                .commit()
                .map_err(|error| anyhow!("Aeron: {error:?}"))?;
            Ok(true)
        }
        Err(error) if error.is_retryable() => Ok(false),
        // The receiver has counted enough.
        Err(AeronOfferError::NotConnected) => Ok(false),
        Err(error) => bail!("Aeron: {error:?}"),
    }
}

#[inline]
fn copy(packet: &[u8]) -> impl FnOnce(&mut [u8]) {
    move |room| room.copy_from_slice(packet)
}

#[inline]
fn poll(from: &AeronSubscription, mut each: impl FnMut(&[u8])) -> Result<usize> {
    let fragments = from
        .poll_fn(|packet, _| each(packet), BURST)
        .map_err(|error| anyhow!("Aeron: {error:?}"))?;
    Ok(fragments as usize)
}

fn send_and_take_back(
    out: &AeronExclusivePublication,
    back: &AeronSubscription,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let (mut returned, mut bytes, mut wrong) = (0, 0, 0);
    while stage.meter.continues(returned, bytes) {
        for _ in 0..BURST {
            let packet = source.next_packet();
            if !put(out, packet.len(), copy(packet))? {
                break;
            }
        }
        while poll(back, |packet| {
            wrong += u64::from(packet[TOUCHED] != AFTER);
            bytes += packet.len() as u64;
            returned += 1;
        })? > 0
        {}
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(returned, bytes))
}

fn send(
    out: &AeronExclusivePublication,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let mut sent = 0;
    while stage.meter.continues(sent, 0) {
        for _ in 0..BURST {
            let packet = source.next_packet();
            if !put(out, packet.len(), copy(packet))? {
                break;
            }
            sent += 1;
        }
    }
    Ok(stage.meter.finish(sent, 0))
}

fn receive(from: &AeronSubscription, mut stage: Stage<'_>) -> Result<Tally> {
    let (mut count, mut bytes, mut touched) = (0, 0, 0);
    while stage.meter.continues(count, bytes) {
        poll(from, |packet| {
            touched += u64::from(packet[TOUCHED]);
            bytes += packet.len() as u64;
            count += 1;
        })?;
    }
    ensure!(touched == count, "{count} packets add up to {touched}");
    Ok(stage.meter.finish(count, bytes))
}

fn echo(
    from: &AeronSubscription,
    back: &AeronExclusivePublication,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let (mut count, mut bytes) = (0, 0);
    let mut failed = None;
    while stage.meter.continues(count, bytes) {
        let stop = stage.stop;
        poll(from, |packet| {
            loop {
                let sent = put(back, packet.len(), |room| {
                    room.copy_from_slice(packet);
                    touch(room);
                });
                match sent {
                    Ok(true) => break,
                    Ok(false) if stop.load(Ordering::Relaxed) => break,
                    Ok(false) => {}
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            bytes += packet.len() as u64;
            count += 1;
        })?;
        if let Some(error) = failed.take() {
            return Err(error);
        }
    }
    Ok(stage.meter.finish(count, bytes))
}

fn ping(
    out: &AeronExclusivePublication,
    back: &AeronSubscription,
    source: &mut Source,
    mut stage: Stage<'_>,
) -> Result<Tally> {
    let (mut trips, mut wrong) = (0, 0);
    while stage.meter.observe(trips, 0) {
        let before = Instant::now();
        for _ in 0..TRIPS_PER_POLL {
            let packet = source.next_packet();
            let sent = stage.await_some(|| match put(out, packet.len(), copy(packet)) {
                Ok(false) => None,
                sent => Some(sent),
            });
            let Some(sent) = sent else {
                return Ok(stage.meter.finish(trips, 0));
            };
            sent?;
            let mut byte = None;
            let came =
                stage.await_some(|| match poll(back, |packet| byte = Some(packet[TOUCHED])) {
                    Ok(0) => None,
                    came => Some(came),
                });
            let Some(came) = came else {
                return Ok(stage.meter.finish(trips, 0));
            };
            came?;
            wrong += u64::from(byte != Some(AFTER));
            trips += 1;
        }
        stage.meter.time(before.elapsed() / TRIPS_PER_POLL);
    }
    ensure!(wrong == 0, "{wrong} packets were returned altered");
    Ok(stage.meter.finish(trips, 0))
}
