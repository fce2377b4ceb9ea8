//! `covalent-replay`: sends captured frames and compares the frames that come back.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use covalent_apps::{
    device::{MATCH_HELP, MatchArg, SocketArgs},
    latency::Latency,
    output::{self, Output, OutputArgs, count, per_second, time},
    replay::{
        capture::{self, BadCapture, Loaded},
        compare::Tally,
        run::{self, Length, Live, Outcome, Settings},
        sample,
    },
    stop::{POLL_INTERVAL, Stop},
};
use serde::Serialize;

/// Sends every frame of every capture through a TX pipe, receives the returning frames through an
/// RX pipe, and compares them: every frame, every byte, in order. Another program must send the
/// frames back, for example covalent-echo on the node at the other end.
///
/// The pipe refuses frames that the port cannot carry (too long, or shorter than an Ethernet
/// header). The report counts them by cause. The report names broken capture files; their readable
/// frames are sent. Without --captures, a small built-in sample is sent.
///
/// With several ports, the files are assigned to the ports in turn. Each port has its own thread
/// and its own device.
///
/// Exit code: 0 if every frame came back unaltered and in order, 1 if not, 2 if it could not run.
#[derive(Debug, Parser)]
#[command(name = "covalent-replay", version)]
#[command(after_help = "Example: covalent-replay --port p0 --captures ./captures --seconds 10")]
struct Args {
    #[command(flatten)]
    socket: SocketArgs,
    /// A port to send on; may be given several times
    #[arg(long = "port", required = true)]
    ports: Vec<String>,
    /// A .pcap file, or a folder of them; may be given several times
    #[arg(long, num_args = 1..)]
    captures: Vec<PathBuf>,
    /// Ends after so many rounds through all frames [default: 1]
    #[arg(long, conflicts_with = "seconds")]
    rounds: Option<u64>,
    /// Ends after so many seconds
    #[arg(long)]
    seconds: Option<f64>,
    /// Maximum frames in flight on each port
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// Maximum bytes in flight on each port, each frame rounded up to a multiple of 64
    #[arg(long, default_value_t = 512 * 1024)]
    window_bytes: usize,
    #[arg(long = "match", default_value = "any", help = format!("Which of the returning frames to \
        receive: {MATCH_HELP}"))]
    matches: MatchArg,
    /// Size of each pipe in KiB, a power of two from 64
    #[arg(long, default_value_t = 2048)]
    pipe_kib: u64,
    /// How long to wait for a frame that does not come back, in milliseconds
    #[arg(long, default_value_t = 1000)]
    patience_ms: u64,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Ready<'a> {
    app: &'static str,
    ports: &'a [String],
    source: &'static str,
    files: usize,
    frames: usize,
}

#[derive(Serialize)]
struct Progress {
    app: &'static str,
    elapsed_ns: u64,
    sent_packets: u64,
    sent_bytes: u64,
    received_packets: u64,
    received_bytes: u64,
    in_flight_packets: u64,
    refused_packets: u64,
    mismatched_packets: u64,
    lost_packets: u64,
    rtt_p50_ns: u64,
    rtt_p99_ns: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    app: &'static str,
    ok: bool,
    source: &'static str,
    files: usize,
    frames: usize,
    rounds: u64,
    elapsed_ns: u64,
    sent_packets: u64,
    sent_bytes: u64,
    #[serde(flatten)]
    tally: Tally,
    packets_per_s: f64,
    bits_per_s: f64,
    rtt_p50_ns: u64,
    rtt_p99_ns: u64,
    rtt_max_ns: u64,
    refused_packets: u64,
    refusals: BTreeMap<&'static str, u64>,
    bad_captures: &'a [BadCapture],
    problems: Vec<String>,
}

const APP: &str = "replay";

fn main() -> ExitCode {
    output::exit("covalent-replay", run(&Args::parse()))
}

fn run(args: &Args) -> Result<bool> {
    let length = length(args)?;
    ensure!(
        args.window > 0 && args.window_bytes > 0,
        "a window of 0 admits no frame: set `--window` and `--window-bytes` to 1 or more"
    );
    let stop = Stop::on_signals()?;
    let (source, loaded) = if args.captures.is_empty() {
        (
            sample::SOURCE,
            Loaded {
                captures: sample::captures(),
                bad: Vec::new(),
            },
        )
    } else {
        (
            "captures",
            capture::load(&args.captures).context("reading captures")?,
        )
    };
    ensure!(
        !loaded.captures.is_empty(),
        "there is not one frame in {:?}",
        args.captures
    );
    let files = loaded.captures.len();
    let frames = loaded
        .captures
        .iter()
        .map(|capture| capture.frames.len())
        .sum();
    ensure!(
        files >= args.ports.len(),
        "{files} files cannot be dealt out to {} ports",
        args.ports.len()
    );
    let shares = deal(&loaded, args.ports.len());
    let mut output = Output::new(args.output);
    let live_counts: Vec<Live> = args.ports.iter().map(|_| Live::default()).collect();
    let outcomes = thread::scope(|scope| {
        let (bound, are_bound) = mpsc::channel();
        let workers: Vec<_> = args
            .ports
            .iter()
            .zip(&shares)
            .zip(&live_counts)
            .map(|((port, share), live)| {
                let (bound, stop) = (bound.clone(), &stop);
                scope.spawn(move || {
                    let result = replay_port(args, port, share, length, live, stop, &bound);
                    if result.is_err() {
                        stop.request();
                    }
                    result.with_context(|| format!("port {port}"))
                })
            })
            .collect();
        drop(bound);
        // Ends early when a thread ends without having bound.
        if are_bound.iter().take(args.ports.len()).count() == args.ports.len() {
            output.ready(&Ready {
                app: APP,
                ports: &args.ports,
                source,
                files,
                frames,
            })?;
        }
        let started = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(POLL_INTERVAL);
            let now = Instant::now();
            if output.wants_progress(now) {
                output.progress(now, &progress(&live_counts, now - started))?;
            }
        }
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .map_err(|_| anyhow::anyhow!("a port's thread panicked"))?
            })
            .collect::<Result<Vec<Outcome>>>()
    })?;
    report(source, files, frames, &loaded.bad, outcomes, &output)
}

fn length(args: &Args) -> Result<Length> {
    match (args.rounds, args.seconds) {
        (Some(0), _) => anyhow::bail!("--rounds 0 leaves nothing to do"),
        (rounds, None) => Ok(Length::Rounds(rounds.unwrap_or(1))),
        (_, Some(seconds)) => {
            let time = Duration::try_from_secs_f64(seconds).context("--seconds")?;
            ensure!(!time.is_zero(), "--seconds 0 leaves nothing to do");
            Ok(Length::Time(time))
        }
    }
}

/// Each port's frames: the files in turn.
fn deal(loaded: &Loaded, ports: usize) -> Vec<Vec<Box<[u8]>>> {
    let mut shares = vec![Vec::new(); ports];
    for (index, capture) in loaded.captures.iter().enumerate() {
        shares[index % ports].extend(capture.frames.iter().cloned());
    }
    shares
}

fn replay_port(
    args: &Args,
    port: &str,
    frames: &[Box<[u8]>],
    length: Length,
    live: &Live,
    stop: &Stop,
    bound: &mpsc::Sender<()>,
) -> Result<Outcome> {
    let device = args.socket.attach_to(port, "covalent-replay")?;
    let settings = Settings {
        port: port.to_owned(),
        matches: args.matches.0.clone(),
        length,
        window_packets: args.window,
        window_bytes: args.window_bytes,
        pipe_bytes: args.pipe_kib * 1024,
        patience: Duration::from_millis(args.patience_ms.max(1)),
    };
    let pipes = run::open(&device, &settings)?;
    bound.send(())?;
    run::run(pipes, frames, &settings, live, stop)
}

fn progress(live_counts: &[Live], elapsed: Duration) -> Progress {
    let sum = |of: fn(&Live) -> &AtomicU64| {
        live_counts
            .iter()
            .map(|live| of(live).load(Ordering::Relaxed))
            .sum()
    };
    // Of several ports, report the slowest.
    let most = |of: fn(&Live) -> &AtomicU64| {
        live_counts
            .iter()
            .map(|live| of(live).load(Ordering::Relaxed))
            .max()
            .unwrap_or(0)
    };
    Progress {
        app: APP,
        elapsed_ns: elapsed.as_nanos() as u64,
        sent_packets: sum(|live| &live.sent_packets),
        sent_bytes: sum(|live| &live.sent_bytes),
        received_packets: sum(|live| &live.received_packets),
        received_bytes: sum(|live| &live.received_bytes),
        in_flight_packets: sum(|live| &live.in_flight_packets),
        refused_packets: sum(|live| &live.refused_packets),
        mismatched_packets: sum(|live| &live.mismatched_packets),
        lost_packets: sum(|live| &live.lost_packets),
        rtt_p50_ns: most(|live| &live.rtt_p50_ns),
        rtt_p99_ns: most(|live| &live.rtt_p99_ns),
    }
}

fn report(
    source: &'static str,
    files: usize,
    frames: usize,
    bad_captures: &[BadCapture],
    outcomes: Vec<Outcome>,
    output: &Output,
) -> Result<bool> {
    let mut all = Outcome {
        rounds: u64::MAX,
        ..Outcome::default()
    };
    let mut rtt = Latency::new();
    for outcome in outcomes {
        all.rounds = all.rounds.min(outcome.rounds);
        all.sent_packets += outcome.sent_packets;
        all.sent_bytes += outcome.sent_bytes;
        all.tally.add(&outcome.tally);
        all.elapsed_ns = all.elapsed_ns.max(outcome.elapsed_ns);
        for (cause, refused) in outcome.refusals {
            *all.refusals.entry(cause).or_default() += refused;
        }
        rtt.add(&outcome.rtt);
        all.problems.extend(outcome.problems);
    }
    let ok = all.tally.is_exact()
        && all.tally.received_packets == all.sent_packets
        && all.sent_packets > 0;
    let report = Report {
        app: APP,
        ok,
        source,
        files,
        frames,
        rounds: all.rounds,
        elapsed_ns: all.elapsed_ns,
        sent_packets: all.sent_packets,
        sent_bytes: all.sent_bytes,
        tally: all.tally,
        packets_per_s: per_second(all.tally.received_packets, all.elapsed_ns),
        bits_per_s: per_second(all.tally.received_bytes * 8, all.elapsed_ns),
        rtt_p50_ns: rtt.percentile_ns(50.0),
        rtt_p99_ns: rtt.percentile_ns(99.0),
        rtt_max_ns: rtt.max_ns(),
        refused_packets: all.refusals.values().sum(),
        refusals: all.refusals,
        bad_captures,
        problems: all.problems,
    };
    output.report(&report, &rows(&report))?;
    Ok(ok)
}

fn rows<'a>(report: &'a Report<'_>) -> Vec<(&'a str, String)> {
    let tally = &report.tally;
    let mut rows = vec![
        ("source", report.source.to_owned()),
        (
            "files, frames",
            format!(
                "{}, {}",
                count(report.files as u64),
                count(report.frames as u64)
            ),
        ),
        ("rounds", count(report.rounds)),
        ("sent", count(report.sent_packets)),
        ("returned unaltered", count(tally.received_packets)),
        ("altered", count(tally.mismatched_packets)),
        ("lost", count(tally.lost_packets)),
        ("out of order", count(tally.reordered_packets)),
        ("twice", count(tally.duplicated_packets)),
        ("others' frames", count(tally.foreign_packets)),
        (
            "rate",
            format!(
                "{:.3} Mpps, {:.3} Gb/s",
                report.packets_per_s / 1e6,
                report.bits_per_s / 1e9
            ),
        ),
        (
            "round trip p50, p99",
            format!("{}, {}", time(report.rtt_p50_ns), time(report.rtt_p99_ns)),
        ),
    ];
    for (cause, refused) in &report.refusals {
        rows.push((cause, format!("{} refused", count(*refused))));
    }
    for bad in report.bad_captures {
        rows.push((
            "broken capture",
            format!("{}: {}", bad.file.display(), bad.problem),
        ));
    }
    for problem in &report.problems {
        rows.push(("problem", problem.clone()));
    }
    rows
}
