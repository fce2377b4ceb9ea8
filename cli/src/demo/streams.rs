//! Streams: captures leave node a through TX pipes, are echoed in place on b, and come back into RX pipes, over both links.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    application::Application,
    narrator::Narrator,
    nodes::{Nodes, PORTS},
};
use crate::{
    interrupt::Interrupt,
    output::{duration, grouped},
};

/// Where captures are looked for, seen from the current directory, if no place is named.
const USUAL_PLACES: [&str; 2] = ["../shared/data", "shared/data"];

const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How much longer than asked for the replay may take until it has everything back.
const GRACE: Duration = Duration::from_secs(10);

/// What the replay did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Replay {
    /// Whether every frame came back as it was sent, in order.
    pub ok: bool,
    /// `captures` or `built-in sample`.
    pub source: String,
    /// Capture files read.
    pub files: u64,
    /// Different frames in them.
    pub frames: u64,
    /// Frames sent.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that came back.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that the TX pipes refused, by cause.
    pub refusals: std::collections::BTreeMap<String, u64>,
    /// Frames that came back changed.
    pub mismatched_packets: u64,
    /// Frames that did not come back.
    pub lost_packets: u64,
    /// Frames that came back out of order.
    #[serde(default)]
    pub reordered_packets: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames that went out and came back, each second.
    pub packets_per_s: f64,
    /// Median time from the TX pipe to the RX pipe, in nanoseconds.
    pub rtt_p50_ns: u64,
    /// 99th percentile of the same.
    pub rtt_p99_ns: u64,
    /// What went wrong, in words.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// What the echo did.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Echo {
    /// Frames that it sent back.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Streams {
    /// Node a.
    pub replay: Replay,
    /// Node b.
    pub echo: Echo,
}

#[derive(Debug, Deserialize)]
struct Progress {
    sent_packets: u64,
    received_packets: u64,
    refused_packets: u64,
}

#[derive(Debug, Deserialize)]
struct Nothing {}

/// Which captures to replay.
///
/// # Errors
/// When a place was named and is not there.
pub fn captures(named: Option<&Path>) -> Result<Option<PathBuf>> {
    match named {
        Some(named) if named.is_dir() => Ok(Some(named.to_owned())),
        Some(named) => bail!("{} is not a directory with captures", named.display()),
        None => Ok(USUAL_PLACES
            .iter()
            .map(PathBuf::from)
            .find(|place| place.is_dir())),
    }
}

/// Runs echo and replay for `seconds`.
///
/// # Errors
/// When one of them breaks off or a node ends.
pub fn run(
    nodes: &mut Nodes,
    captures: Option<&Path>,
    seconds: u64,
    narrator: &Narrator,
    interrupt: &Interrupt,
) -> Result<Streams> {
    let step = narrator.step("streams")?;
    let with_ports = |launch| {
        PORTS
            .into_iter()
            .fold(launch, |launch: crate::process::Launch, port| {
                launch.arg("--port").arg(port)
            })
    };
    let mut echo: Application<Nothing, Echo> = Application::start(with_ports(
        nodes.b.launch_application("covalent-echo", None, "echo")?,
    ))?;
    echo.wait_ready(interrupt)?;
    let mut launch = with_ports(
        nodes
            .a
            .launch_application("covalent-replay", None, "replay")?,
    )
    .arg("--seconds")
    .arg(seconds.to_string());
    if let Some(captures) = captures {
        launch = launch.arg("--captures").arg(captures);
    }
    let mut replay: Application<Progress, Replay> = Application::start(launch)?;
    let began = Instant::now();
    while !replay.has_ended()? {
        if let Some(progress) = replay.progress()? {
            let text = format!(
                "{} frames out, {} back, {} refused",
                grouped(progress.sent_packets),
                grouped(progress.received_packets),
                grouped(progress.refused_packets)
            );
            step.at(began.elapsed().as_secs_f64() / seconds as f64, &text)?;
        }
        nodes.expect_running()?;
        echo.expect_running()?;
        if began.elapsed() > Duration::from_secs(seconds) + GRACE {
            bail!("the replay does not end: frames are missing and it waits for them");
        }
        interrupt.sleep(LOOK_AGAIN)?;
    }
    let replay = replay.report()?;
    let echo = echo.stop()?;
    step.done(&format!(
        "{} frames of {} ({} files) came back byte for byte, p50 {}",
        grouped(replay.received_packets),
        replay.source,
        replay.files,
        duration(replay.rtt_p50_ns),
    ))?;
    Ok(Streams { replay, echo })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_place_must_exist() {
        let directory = tempfile::tempdir().expect("temporary directory");
        assert_eq!(
            captures(Some(directory.path())).expect("there"),
            Some(directory.path().to_owned())
        );
        let absent = directory.path().join("absent");
        assert!(
            captures(Some(&absent))
                .expect_err("not there")
                .to_string()
                .contains("absent")
        );
    }
}
