//! `covalent capture`: writes the frames that ports of a running node receive and send to a file
//! for Wireshark.

mod filter;
mod pcapng;

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use covalent::{Device, Error, REQUEST_TIMEOUT, RxPipe};
use covalent_api::tap::{TapFrames, TapHead};
use indicatif::ProgressBar;
use serde::Serialize;

use self::filter::Filter;
pub use self::pcapng::{Capture, Seen};
use crate::{
    args::{Format, NodeArgs},
    client::{self, Client},
    interrupt::Interrupt,
    output::{self, grouped},
    status,
};

/// Shared memory, in bytes, for captured frames of one port's lane that were not read yet.
const PIPE_BYTES: u64 = 16 << 20;

/// How long a look at idle ports waits before the next one.
const RECHECK_INTERVAL: Duration = Duration::from_millis(2);

/// `covalent capture`
#[derive(Debug, Args)]
#[command(
    after_help = "The capture contains the frames that the dataplane receives and sends. Use \
    tcpdump for frames that the XDP program passes to the kernel. Only one command at a time \
    captures a port. A captured lane copies each frame once more. Frames for which there was no \
    room are counted, also in the file (drop count). The command stops at Ctrl-C, or at a \
    limit.\n\n\
    Examples:\n  \
    sudo covalent capture node.pcapng                            both directions of all ports\n  \
    sudo covalent capture --port p0 --frames links cable.pcapng  link frames of one port\n  \
    sudo covalent capture --host 10.0.0.7 --udp 53 dns.pcapng    packets of a host and port\n  \
    sudo covalent capture --seconds 10 --snap 128 head.pcapng    10 s, 128 bytes of each frame\n  \
    sudo covalent capture - | wireshark -k -i -                  live\n  \
    tshark -r cable.pcapng -Y 'covalent.reflected == \"mismatch\"'  with the dissector installed \
    beside this program"
)]
pub struct CaptureArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The file, or `-` for standard output.
    #[arg(value_name = "FILE.pcapng")]
    pub output: PathBuf,
    /// Name of a port to capture, repeatable. Default: all ports.
    #[arg(long, value_name = "NAME")]
    pub port: Vec<String>,
    /// Frames of the link protocol, all others, or all.
    #[arg(long, value_enum, default_value_t = Frames::All)]
    pub frames: Frames,
    /// Which of them are kept.
    #[command(flatten)]
    pub filter: Filter,
    /// Number of bytes of each frame to keep.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 65_535,
        value_parser = clap::value_parser!(u32).range(14..=65_535),
    )]
    pub snap: u32,
    /// Stop after this many frames.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..),
    )]
    pub count: u64,
    /// Stop after this many seconds.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Stop when the file has this many mebibytes.
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u64).range(1..=1_048_576),
    )]
    pub max_mib: u64,
    /// Output format of the summary. None is printed if the capture goes to standard output.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// The choice of frames on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Frames {
    /// All frames.
    All,
    /// Only frames of the link protocol.
    Links,
    /// All frames except those of the link protocol.
    Data,
}

impl From<Frames> for TapFrames {
    fn from(frames: Frames) -> Self {
        match frames {
            Frames::All => Self::All,
            Frames::Links => Self::Links,
            Frames::Data => Self::Data,
        }
    }
}

/// The result of a capture.
#[derive(Debug, Default, Serialize)]
struct Summary {
    received: u64,
    sent: u64,
    /// Seen, and not kept by the filter.
    left_out: u64,
    /// Frames for which there was no space between the lane and this command.
    missed: u64,
    bytes: u64,
    /// Whether the capture stopped because the daemon exited.
    daemon_ended: bool,
}

impl Summary {
    const fn frames(&self) -> u64 {
        self.received + self.sent
    }
}

/// Runs `covalent capture`.
///
/// # Errors
/// No daemon answers, it refuses, the file cannot be written, or there is no such port.
pub fn run(args: &CaptureArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let socket = status::socket(&args.node)?;
    let to_stdout = args.output == Path::new("-");
    ensure!(
        !to_stdout || !io::stdout().is_terminal(),
        "a capture is not for a terminal; cure: name a file, or pipe it: `covalent capture - | \
         wireshark -k -i -`"
    );
    let ports = ports(&socket, &args.port)?;
    let devices = ports
        .iter()
        .map(|(_, lane)| {
            Device::attach_to_lane(&socket, "covalent capture", *lane, REQUEST_TIMEOUT)
                .map_err(client::explained)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut pipes = Vec::new();
    for ((name, _), device) in ports.iter().zip(&devices) {
        let mut pipe = device.rx_pipe_on(PIPE_BYTES, name)?;
        pipe.tap(args.frames.into(), args.snap)
            .with_context(|| format!("port `{name}`"))?;
        pipes.push(pipe);
    }
    let writer: Box<dyn Write> = if to_stdout {
        Box::new(io::stdout().lock())
    } else {
        Box::new(File::create(&args.output).with_context(|| {
            format!(
                "{} cannot be written; cure: name a file in a folder that you may write to",
                args.output.display()
            )
        })?)
    };
    let names = ports.iter().map(|(name, _)| name.clone());
    let mut file = Capture::new(writer, names, args.snap)?;
    let summary = capture(args, &mut pipes, &mut file, to_stdout, interrupt)?;
    match args.format {
        _ if to_stdout => {}
        Format::Json => output::json(&summary)?,
        Format::Table => output::line(&format!(
            "{}: {} frames ({} received, {} sent); {} excluded by the filter, {} missed for lack \
             of room{}",
            args.output.display(),
            grouped(summary.frames()),
            grouped(summary.received),
            grouped(summary.sent),
            grouped(summary.left_out),
            grouped(summary.missed),
            if summary.daemon_ended {
                "; the daemon ended"
            } else {
                ""
            },
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The named ports, or all, with their lanes.
fn ports(socket: &Path, wanted: &[String]) -> Result<Vec<(String, u32)>> {
    let status = Client::connect(socket)?.status()?;
    let known: Vec<(String, u32)> = (status.ports.into_iter())
        .map(|port| (port.name, port.lane))
        .collect();
    if wanted.is_empty() {
        ensure!(!known.is_empty(), "the node has no port");
        return Ok(known);
    }
    wanted
        .iter()
        .map(|name| {
            let found = known.iter().find(|(known, _)| known == name);
            found.cloned().with_context(|| {
                let names: Vec<&str> = known.iter().map(|(name, _)| &**name).collect();
                format!(
                    "there is no port `{name}`; cure: name one of {}",
                    names.join(", ")
                )
            })
        })
        .collect()
}

/// Copies records into the file until a bound is reached or the command is to end.
fn capture(
    args: &CaptureArgs,
    pipes: &mut [RxPipe<'_>],
    file: &mut Capture<Box<dyn Write>>,
    to_stdout: bool,
    interrupt: &Interrupt,
) -> Result<Summary> {
    let mut summary = Summary::default();
    let end = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let bar = ProgressBar::new_spinner();
    let is_full =
        |summary: &Summary| summary.frames() >= args.count || summary.bytes >= args.max_mib << 20;
    while !summary.daemon_ended && !is_full(&summary) && end.is_none_or(|end| Instant::now() < end)
    {
        let mut idle = true;
        for (interface, pipe) in (0..).zip(&mut *pipes) {
            let batch = match pipe.try_recv() {
                Err(Error::DaemonGone { .. }) => {
                    summary.daemon_ended = true;
                    break;
                }
                received => received?,
            };
            let Some(batch) = batch else { continue };
            idle = false;
            for record in &batch {
                let Some((head, frame)) = TapHead::split(record) else {
                    bail!("the daemon captures in another form; cure: a `covalent` of its release");
                };
                summary.missed += u64::from(head.missed);
                if !args.filter.keeps(frame) {
                    summary.left_out += 1;
                    continue;
                }
                if is_full(&summary) {
                    break;
                }
                file.frame(&Seen {
                    interface,
                    at: Duration::from_nanos(head.at_ns),
                    frame_bytes: head.frame_bytes,
                    missed: head.missed,
                    sent: Some(head.sent),
                    bytes: frame,
                })?;
                summary.bytes += frame.len() as u64;
                *(if head.sent {
                    &mut summary.sent
                } else {
                    &mut summary.received
                }) += 1;
            }
        }
        if idle || to_stdout {
            file.flush()?;
        }
        bar.set_message(format!("{} frames", grouped(summary.frames())));
        bar.tick();
        let pause = if idle {
            RECHECK_INTERVAL
        } else {
            Duration::ZERO
        };
        if interrupt.sleep(pause).is_err() {
            break;
        }
    }
    bar.finish_and_clear();
    file.flush()?;
    Ok(summary)
}
