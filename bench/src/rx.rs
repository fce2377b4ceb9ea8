//! How fast one lane receives 64-byte frames into an application's pipe.
//!
//! ```text
//!   bare sender (near core) ══ veth ══► bare receiver (far core)                       counts frames
//!   bare sender (near core) ══ veth ══► covalentd's lane (far core) ─► pipe ─► application counts frames
//! ```
//! The sender offers as much as it can and is the same for both. What is not received is lost, and the rate counts only what arrived:
//! at the receiver, or in the hands of the application. The lane and the application are both Covalent's cost.

use std::{
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use covalent_verbs::{Device, Match, status::PortMode};
use serde_json::json;

use crate::{
    arguments::Wire,
    bare::{Steered, open_patiently},
    bare_echo::join,
    cores::{Cores, pin, run_first},
    host::Host,
    node::{Node, Plan, find_daemon},
    report::{Report, Setup},
    stage::Stage,
    stop,
    summary::Summary,
};

/// Of a frame, in bytes without FCS.
const FRAME_BYTES: usize = 64;

/// EtherType of the frames (IEEE 802 "local experimental 2"): not that of links, so that they go to pipes.
const ETHERTYPE: u16 = 0x88b6;

/// Frames moved at a time, on both sides: the dataplane's default.
const BURST: u32 = 64;

/// The application's pipe: 64 Ki frames of 64 bytes.
const PIPE_BYTES: u64 = 4 << 20;

/// How often the application empties its pipe.
const APPLICATION_PACE: Duration = Duration::from_millis(1);

/// How long after the sender's end the last frames may arrive.
const AFTERMATH: Duration = Duration::from_millis(30);

const GOAL: f64 = 0.90;

/// What one slice came to.
#[derive(Debug, Clone, Copy)]
struct Slice {
    sent: u64,
    received: u64,
    elapsed: Duration,
}

impl Slice {
    fn mpps(&self) -> f64 {
        self.received as f64 / self.elapsed.as_secs_f64() / 1e6
    }
}

/// Measures both sides in turn.
pub fn measure(arguments: &Wire) -> Result<Report> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let host = Host::look();
    let cores = Cores::choose()?;
    let stage = Stage::build(1, 1)?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    let mut running = None;
    for _ in 0..arguments.repeats {
        bare.push(bare_slice(&stage, cores, arguments)?);
        let (slice, mode, command) = our_slice(&stage, cores, arguments, &daemon)?;
        ours.push(slice);
        running = Some((mode, command));
    }
    let (mode, command) = running.context("nothing was measured")?;
    let rates = |slices: &[Slice]| Summary::of(slices.iter().map(Slice::mpps).collect());
    let bare_rate = rates(&bare).context("nothing was measured")?;
    let our_rate = rates(&ours).context("nothing was measured")?;
    let ratio = our_rate.median / bare_rate.median;
    let (application, shared) = cores.application_beside(cores.far);
    Ok(Report {
        name: "rx",
        goal: "rx",
        target: "one lane receives 64 B frames into a pipe at 0.90 or more of a bare AF_XDP receiver's rate",
        bare: bare_rate.median,
        covalent: our_rate.median,
        unit: "Mpps",
        ratio,
        margin: ratio / GOAL,
        met: ratio >= GOAL,
        ours: side(&ours, &our_rate),
        peer: side(&bare, &bare_rate),
        second_peer: None,
        setup: Setup {
            ring_slots: arguments.ring_slots,
            burst: BURST,
            frame_bytes: FRAME_BYTES,
            idle: "poll",
            mode: Some(mode),
            slice_seconds: arguments.slice().as_secs_f64(),
            cores: format!(
                "sender on core {}, receiver or lane on core {}, application on core {application}{}",
                cores.near,
                cores.far,
                if shared {
                    " (shared with the lane)"
                } else {
                    ""
                }
            ),
            daemons: vec![command],
        },
        host,
    })
}

fn side(slices: &[Slice], rate: &Summary) -> serde_json::Value {
    let (sent, received) = slices.iter().fold((0, 0), |(sent, received), slice| {
        (sent + slice.sent, received + slice.received)
    });
    json!({"mpps": rate, "sent": sent, "received": received, "lost": sent - received})
}

fn bare_slice(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<Slice> {
    receive_while_sending(stage, cores, arguments, |ready, over| {
        stage.b.enter()?;
        pin(cores.far)?;
        let mut steered = Steered::open("b0", ETHERTYPE, arguments.ring_slots, BURST)?;
        drop(ready);
        let mut received = 0;
        while !over.load(Ordering::Relaxed) {
            steered
                .socket
                .receive(|frame| received += u64::from(is_ours(frame)));
        }
        Ok(received)
    })
}

fn our_slice(
    stage: &Stage,
    cores: Cores,
    arguments: &Wire,
    daemon: &Path,
) -> Result<(Slice, PortMode, Vec<String>)> {
    let plan = Plan {
        name: "b",
        idle: "poll",
        core: Some(cores.far),
        interfaces: &["b0"],
        link: false,
        ring_slots: arguments.ring_slots,
    };
    let node = Node::start(daemon, &stage.b, &plan)?;
    let measured = receive_while_sending(stage, cores, arguments, |ready, over| {
        let (core, shared) = cores.application_beside(cores.far);
        pin(core)?;
        if shared {
            run_first()?;
        }
        let device = Device::attach(node.socket(), "bench-rx").context("attaching to covalentd")?;
        let mut pipe = device
            .rx_pipe_on(PIPE_BYTES, "b0")
            .context("opening a pipe")?;
        pipe.bind(&Match::EtherType {
            ethertype: ETHERTYPE,
        })
        .context("binding a pipe")?;
        drop(ready);
        let mut received = 0;
        while !over.load(Ordering::Relaxed) {
            while let Some(batch) = pipe.recv().context("receiving")? {
                received += batch.iter().filter(|frame| is_ours(frame)).count() as u64;
                batch.free_all();
            }
            thread::sleep(APPLICATION_PACE);
        }
        Ok(received)
    })?;
    let status = node.status()?;
    let port = status
        .ports
        .into_iter()
        .next()
        .context("the daemon has no port")?;
    Ok((measured, port.mode, node.command()))
}

/// Runs `receive` on a thread and sends for one slice as soon as it has dropped the [`Ready`] given to it. `receive` ends when the flag
/// is set and returns how many frames came.
fn receive_while_sending(
    stage: &Stage,
    cores: Cores,
    arguments: &Wire,
    receive: impl FnOnce(Ready, &AtomicBool) -> Result<u64> + Send,
) -> Result<Slice> {
    let over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(Ready(ready), &over));
        // A receiver that failed drops it too, and then tells why when it is joined.
        let _ = is_ready.recv();
        let sent = send(stage, cores, arguments);
        over.store(true, Ordering::Relaxed);
        let received = join(receiver)?;
        slice(sent?, received)
    })
}

/// Tells, when dropped, that the receiver is ready.
struct Ready(#[expect(dead_code, reason = "its end is its message")] mpsc::Sender<()>);

/// Sends for one slice, then waits until what is on its way has arrived. Returns how many frames, and in what time.
fn send(stage: &Stage, cores: Cores, arguments: &Wire) -> Result<(u64, Duration)> {
    thread::scope(|scope| {
        join(scope.spawn(|| {
            stage.a.enter()?;
            pin(cores.near)?;
            let mut socket = open_patiently("a0", arguments.ring_slots, BURST)?;
            let frame = frame();
            let mut sent = 0;
            let start = Instant::now();
            while start.elapsed() < arguments.slice() && !stop::is_asked() {
                sent += socket.send(&frame, BURST as usize).context("sending")? as u64;
            }
            let elapsed = start.elapsed();
            stop::check()?;
            let end = Instant::now() + AFTERMATH;
            while Instant::now() < end {
                socket.kick().context("sending")?;
                thread::sleep(APPLICATION_PACE);
            }
            Ok((sent, elapsed))
        }))
    })
}

fn slice((sent, elapsed): (u64, Duration), received: u64) -> Result<Slice> {
    ensure!(received > 0, "no frame arrived of {sent} sent");
    ensure!(received <= sent, "{received} frames arrived of {sent} sent");
    Ok(Slice {
        sent,
        received,
        elapsed,
    })
}

fn frame() -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].fill(0xff);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    frame
}

fn is_ours(frame: &[u8]) -> bool {
    frame.len() == FRAME_BYTES && frame[12..14] == ETHERTYPE.to_be_bytes()
}
