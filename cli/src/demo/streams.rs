//! Streams: node a sends captures through TX pipes, node b echoes them in place, and node a
//! receives them in RX pipes, over both links.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    application::Application,
    medium::Medium,
    narrator::Narrator,
    nodes::{Nodes, PORTS},
    patience::stretched,
    telemetry::PipeDrops,
};
use crate::{
    interrupt::Interrupt,
    output::{duration, grouped},
};

/// How the names of captures end.
const CAPTURE: &str = "pcap";

/// Where captures are looked for, seen from the current directory, if no place is named.
const USUAL_PLACES: [&str; 2] = ["../shared/data", "shared/data"];

const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Extra time for the replay until it has received all frames.
const GRACE: Duration = Duration::from_secs(10);

/// The result of the replay.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Replay {
    /// Whether every frame returned unchanged and in order.
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
    /// Frames that returned.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that the TX pipes refused, by cause.
    pub refusals: std::collections::BTreeMap<String, u64>,
    /// Frames that returned changed.
    pub mismatched_packets: u64,
    /// Frames that did not come back.
    pub lost_packets: u64,
    /// Frames that returned out of order.
    #[serde(default)]
    pub reordered_packets: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames per second that were sent and returned.
    pub packets_per_s: f64,
    /// Median time from the TX pipe to the RX pipe, in nanoseconds.
    pub rtt_p50_ns: u64,
    /// 99th percentile of the same.
    pub rtt_p99_ns: u64,
    /// Descriptions of the problems.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// The result of the echo.
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

/// Returns the folders of captures to replay: the named folder, or a default one, and the folders
/// in it.
///
/// # Errors
/// Fails if a folder was named and contains no capture.
pub fn captures(named: Option<&Path>) -> Result<Vec<PathBuf>> {
    match named {
        Some(named) => {
            let folders = folders_with_captures(named);
            if folders.is_empty() {
                bail!(
                    "there is no capture (*.{CAPTURE}) in {} or in a folder of it",
                    named.display()
                );
            }
            Ok(folders)
        }
        None => Ok(USUAL_PLACES
            .iter()
            .map(|place| folders_with_captures(Path::new(place)))
            .find(|folders| !folders.is_empty())
            .unwrap_or_default()),
    }
}

fn folders_with_captures(place: &Path) -> Vec<PathBuf> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect()
    };
    let mut folders = inside(place);
    folders.sort();
    folders.insert(0, place.to_owned());
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|end| end == CAPTURE);
    folders.retain(|folder| folder.is_dir() && inside(folder).iter().any(is_capture));
    folders
}

/// Frames in flight on each port. A veth queues at most 256 frames for a late receiver and silently
/// drops the rest; half of them leaves space for kernel traffic. The cable refuses frames instead,
/// so the application's default suffices.
fn window(medium: Medium) -> Option<&'static str> {
    (medium == Medium::AfXdp).then_some("128")
}

/// Runs echo and replay for `seconds`.
///
/// # Errors
/// When one of them breaks off or a node ends.
pub fn run(
    nodes: &mut Nodes,
    captures: &[PathBuf],
    seconds: u64,
    pipe_drops: &mut PipeDrops,
    narrator: &Narrator,
    interrupt: &Interrupt,
) -> Result<Streams> {
    let step = narrator.step("streams")?;
    let echo = nodes.b.launch_application("covalent-echo", None, "echo")?;
    let mut echo: Application<Nothing, Echo> = Application::start(echo.options("--port", PORTS))?;
    echo.wait_ready(interrupt)?;
    let replay = nodes
        .a
        .launch_application("covalent-replay", None, "replay")?;
    let mut replay: Application<Progress, Replay> = Application::start(
        replay
            .options("--port", PORTS)
            .options("--window", window(nodes.medium))
            .options("--captures", captures)
            .option("--seconds", seconds.to_string()),
    )?;
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
        pipe_drops.poll(nodes)?;
        nodes.expect_running()?;
        echo.expect_running()?;
        if began.elapsed() > Duration::from_secs(seconds) + stretched(GRACE) {
            bail!("the replay does not end: frames are missing and it waits for them");
        }
        interrupt.sleep(RECHECK_INTERVAL)?;
    }
    let replay = replay.report()?;
    pipe_drops.poll_now(nodes)?;
    let echo = echo.stop()?;
    let verdict = if replay.ok {
        "returned byte for byte"
    } else {
        "returned, BUT NOT ALL AS THEY WERE SENT"
    };
    step.done(&format!(
        "{} frames of {} ({} files) {verdict}, p50 {}",
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
    fn captures_are_found_in_a_place_and_in_its_folders() {
        let place = tempfile::tempdir().expect("temporary directory");
        let error = captures(Some(place.path()))
            .expect_err("it is empty")
            .to_string();
        assert!(
            error.contains(&place.path().display().to_string()),
            "{error}"
        );
        for folder in ["b", "a", "notes"] {
            fs::create_dir(place.path().join(folder)).expect("made");
        }
        for file in ["b/x.pcap", "a/y.pcap", "notes/readme.md"] {
            fs::write(place.path().join(file), "").expect("written");
        }
        let found = captures(Some(place.path())).expect("found");
        assert_eq!(found, [place.path().join("a"), place.path().join("b")]);
    }
}
