//! `covalent-echo`: sends every frame back from where it lies.

use std::{
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use covalent::{Device, Error, Match, RxTxPipe};
use covalent_apps::{
    device::{MATCH_HELP, MatchArg, SocketArgs},
    output::{self, Output, OutputArgs, count, per_second},
    stop::{POLL_INTERVAL, Stop},
};
use serde::Serialize;

/// Sends every frame that arrives on a port back on the same port, unchanged and without a copy.
///
/// Each port has its own thread with one RX/TX pipe. The program prints `ready` when it receives
/// frames, and a report when it exits: after --count frames, or on SIGINT or SIGTERM.
///
/// Exit code: 0, or 2 if it could not run.
#[derive(Debug, Parser)]
#[command(name = "covalent-echo", version)]
#[command(after_help = "Example: covalent-echo --port p0 --match udp:7 --format json")]
struct Args {
    #[command(flatten)]
    socket: SocketArgs,
    /// A port to echo on; may be given several times
    #[arg(long = "port", required = true)]
    ports: Vec<String>,
    #[arg(long = "match", default_value = "any", help = format!("Frames to take: {MATCH_HELP}"))]
    matches: MatchArg,
    /// Ends after so many frames, on all ports together
    #[arg(long)]
    count: Option<u64>,
    /// Size of each pipe in KiB, a power of two from 64
    #[arg(long, default_value_t = 2048)]
    pipe_kib: u64,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Ready<'a> {
    app: &'static str,
    ports: &'a [String],
}

#[derive(Serialize)]
struct Progress {
    app: &'static str,
    elapsed_ns: u64,
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    app: &'static str,
    ok: bool,
    elapsed_ns: u64,
    packets: u64,
    bytes: u64,
    packets_per_s: f64,
    ports: Vec<PortReport<'a>>,
}

#[derive(Serialize)]
struct PortReport<'a> {
    port: &'a str,
    packets: u64,
    bytes: u64,
}

/// Counters of one port.
#[derive(Debug, Default)]
struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
}

const APP: &str = "echo";

/// How long the lane may take to send the last frames.
const LAST_FRAMES: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    output::exit("covalent-echo", run(&Args::parse()))
}

fn run(args: &Args) -> Result<bool> {
    ensure!(args.count != Some(0), "--count 0 leaves nothing to do");
    let stop = Stop::on_signals()?;
    let tallies: Vec<Tally> = args.ports.iter().map(|_| Tally::default()).collect();
    let budget = Budget(Mutex::new(args.count));
    let mut output = Output::new(args.output);
    let started = Instant::now();
    thread::scope(|scope| {
        let (bound, are_bound) = mpsc::channel();
        let workers: Vec<_> = args
            .ports
            .iter()
            .zip(&tallies)
            .map(|(port, tally)| {
                let (bound, stop, budget) = (bound.clone(), &stop, &budget);
                scope.spawn(move || {
                    let result = echo_port(args, port, tally, budget, stop, &bound);
                    // One port's failure ends all.
                    if result.is_err() {
                        stop.request();
                    }
                    result.with_context(|| format!("port {port}"))
                })
            })
            .collect();
        drop(bound);
        if are_bound.iter().take(args.ports.len()).count() == args.ports.len() {
            output.ready(&Ready {
                app: APP,
                ports: &args.ports,
            })?;
        }
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(POLL_INTERVAL);
            let now = Instant::now();
            if output.wants_progress(now) {
                let (packets, bytes) = sum(&tallies);
                let elapsed_ns = (now - started).as_nanos() as u64;
                output.progress(
                    now,
                    &Progress {
                        app: APP,
                        elapsed_ns,
                        packets,
                        bytes,
                    },
                )?;
            }
        }
        for worker in workers {
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("a port's thread panicked"))??;
        }
        anyhow::Ok(())
    })?;
    report(args, &tallies, started, &output)?;
    Ok(true)
}

fn echo_port(
    args: &Args,
    port: &str,
    tally: &Tally,
    budget: &Budget,
    stop: &Stop,
    bound: &mpsc::Sender<()>,
) -> Result<()> {
    let device = args.socket.attach_to(port, "covalent-echo")?;
    let mut pipe = device.rx_tx_pipe(args.pipe_kib * 1024, port)?;
    bind(&mut pipe, &args.matches.0)?;
    bound.send(())?;
    while !stop.is_requested() {
        let mut batch = match pipe.recv(POLL_INTERVAL) {
            Err(Error::Deadline { .. }) => continue,
            batch => batch?,
        };
        let mut lengths = Vec::new();
        while let Some(packet) = batch.next_packet() {
            lengths.push(packet.len() as u64);
        }
        let allowed = budget.take(lengths.len() as u64);
        batch.send(allowed as usize)?;
        tally.packets.fetch_add(allowed, Ordering::Relaxed);
        tally.bytes.fetch_add(
            lengths.iter().take(allowed as usize).sum(),
            Ordering::Relaxed,
        );
        if budget.is_spent() {
            stop.request();
        }
    }
    wait_until_sent(&device, &pipe, tally.packets.load(Ordering::Relaxed))
}

fn bind(pipe: &mut RxTxPipe<'_>, matches: &Match) -> Result<()> {
    Ok(pipe.bind(matches)?)
}

/// Waits until the lane has sent the last frames: closing a pipe drops the frames that the lane has
/// not sent.
fn wait_until_sent(device: &Device, pipe: &RxTxPipe<'_>, packets: u64) -> Result<()> {
    let deadline = Instant::now() + LAST_FRAMES;
    loop {
        let status = device.status()?;
        let ours = |status: &&covalent::status::PipeStatus| {
            status.session == device.session() && status.pipe == pipe.id().number()
        };
        if status
            .pipes
            .iter()
            .find(ours)
            .is_none_or(|status| status.tx_packets >= packets)
            || Instant::now() >= deadline
        {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Frames that may still be sent, on all ports together.
struct Budget(Mutex<Option<u64>>);

impl Budget {
    /// Takes up to `wanted` frames from the budget.
    fn take(&self, wanted: u64) -> u64 {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => wanted,
            Some(left) => {
                let taken = wanted.min(*left);
                *left -= taken;
                taken
            }
        }
    }

    fn is_spent(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(0)
    }
}

fn sum(tallies: &[Tally]) -> (u64, u64) {
    tallies.iter().fold((0, 0), |(packets, bytes), tally| {
        (
            packets + tally.packets.load(Ordering::Relaxed),
            bytes + tally.bytes.load(Ordering::Relaxed),
        )
    })
}

fn report(args: &Args, tallies: &[Tally], started: Instant, output: &Output) -> Result<()> {
    let (packets, bytes) = sum(tallies);
    let elapsed_ns = started.elapsed().as_nanos() as u64;
    let ports = args
        .ports
        .iter()
        .zip(tallies)
        .map(|(port, tally)| PortReport {
            port,
            packets: tally.packets.load(Ordering::Relaxed),
            bytes: tally.bytes.load(Ordering::Relaxed),
        });
    let report = Report {
        app: APP,
        ok: true,
        elapsed_ns,
        packets,
        bytes,
        packets_per_s: per_second(packets, elapsed_ns),
        ports: ports.collect(),
    };
    let mut rows = vec![
        ("packets", count(packets)),
        ("bytes", count(bytes)),
        ("packets/s", count(report.packets_per_s as u64)),
    ];
    for port in &report.ports {
        rows.push((port.port, count(port.packets)));
    }
    Ok(output.report(&report, &rows)?)
}
