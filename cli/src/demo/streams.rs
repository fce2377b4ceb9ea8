//! Streams: captures leave node a through TX pipes, are echoed in place on b, and come back into RX pipes, over both links.

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

const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How much longer than asked for the replay may take until it has everything back.
const GRACE: Duration = Duration::from_secs(10);

/// What the replay did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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

/// Which folders of captures to replay: the place that was named, or a usual one, and the folders in it.
///
/// # Errors
/// When a place was named and holds no capture.
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

/// Frames under way on each port. A veth queues at most 256 frames for a receiver that is late, and drops the rest unseen;
/// half of them leaves room for the kernel's own traffic. The cable refuses instead, so the application's default will do.
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
        pipe_drops.look(nodes)?;
        nodes.expect_running()?;
        echo.expect_running()?;
        if began.elapsed() > Duration::from_secs(seconds) + stretched(GRACE) {
            bail!("the replay does not end: frames are missing and it waits for them");
        }
        interrupt.sleep(LOOK_AGAIN)?;
    }
    let replay = replay.report()?;
    pipe_drops.look_now(nodes)?;
    let echo = echo.stop()?;
    let verdict = if replay.ok {
        "came back byte for byte"
    } else {
        "came back, BUT NOT ALL AS THEY WERE SENT"
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
