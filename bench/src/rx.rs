//! How fast one lane receives 64-byte frames into an application's pipe.
//!
//! ```text
//!   bare sender (near core) ══ veth ══► bare receiver (far core)                       counts frames
//!   bare sender (near core) ══ veth ══► covalentd's lane (far core) ─► pipe ─► application counts frames
//! ```
//! The sender offers as much as it can and is the same for both. What is not received is lost, and the rate counts only what arrived:
//! at the receiver, or in the hands of the application. The lane and the application are both Covalent's cost.

use anyhow::{Context, Result};
use serde_json::json;

use crate::{
    arguments::Wire,
    cores::Cores,
    host::Host,
    node::find_daemon,
    receive::{BURST, Load, SMALL_BYTES, Slice, Turn, bare, lane},
    report::{Report, Setup},
    stage::Stage,
    summary::Summary,
    watch::Watch,
};

const GOAL: f64 = 0.90;

/// Measures both sides in turn.
pub fn measure(arguments: &Wire) -> Result<Report> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let (host, watch) = (Host::look(), Watch::begin()?);
    let cores = Cores::choose()?;
    let stage = Stage::build(1, 1)?;
    let turn = Turn {
        stage: &stage,
        cores,
        ring_slots: arguments.ring_slots,
        slice: arguments.slice(),
        load: &Load::of_one_type(),
        daemon: &daemon,
    };
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    let mut running = None;
    for _ in 0..arguments.repeats {
        bare.push(bare::slice(&turn, None)?);
        let (slice, how) = lane::slice(&turn)?;
        ours.push(slice);
        running = Some(how);
    }
    let running = running.context("nothing was measured")?;
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
        peer_name: "bare",
        covalent: our_rate.median,
        unit: "Mpps",
        ratio,
        margin: ratio / GOAL,
        met: ratio >= GOAL,
        ours: side(&ours, &our_rate),
        peer: side(&bare, &bare_rate),
        setup: Setup {
            ring_slots: arguments.ring_slots,
            burst: BURST,
            frame_bytes: SMALL_BYTES,
            idle: "poll",
            mode: Some(running.mode),
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
            daemons: vec![running.command],
        },
        host: host.seen_by(watch)?,
    })
}

fn side(slices: &[Slice], rate: &Summary) -> serde_json::Value {
    let (sent, received) = slices.iter().fold((0, 0), |(sent, received), slice| {
        (sent + slice.sent, received + slice.received)
    });
    json!({"mpps": rate, "sent": sent, "received": received, "lost": sent - received})
}
