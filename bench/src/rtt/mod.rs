//! How long a compare-and-swap of 8 bytes takes to another node and back.
//!
//! It has two meanings, which are measured beside each other and never told as one:
//!
//! ```text
//!   bare      client (near core) ◄══ veth ══► echo (far core), which returns what it received; and once more with all frames left unread
//!   lane      node, verbs and port in one thread (near core) ◄══ veth ══► the same (far core) ─► region        [in_lane]
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ─► region         [application]
//!   UDP       client (near core) ◄─ kernel ══ veth ══ kernel ─► server (far core)                               [udp_echo]
//! ```
//! *In the lane* whoever asks polls the port itself, as the bare client does: that is what the protocol adds to a bare echo. *Application*
//! is another process, which hands its verb to the lane through a pipe and waits for the answer in another; where there are two cores it
//! shares one with its lane. One at a time everywhere: the next leaves when the answer is there. All sides take turns in each round.

mod application;
mod exchange;
mod goals;
mod in_lane;
mod results;
mod section;
mod table;

use anyhow::{Context, Result, ensure};

use self::{
    application::Nodes,
    in_lane::{FarLane, FarNode},
    results::{Results, Setup, SideName},
};
pub use self::{goals::Verdict, section::section};
use crate::{
    arguments::Wire,
    bare_echo::{self, BURST, FRAME_BYTES},
    cores::Cores,
    hand_over,
    host::Host,
    kept::{Kept, now_unix_ms},
    node::find_daemon,
    stage::Stage,
    trips::{Side, Slice},
    udp_echo::{self, Waiting},
    watch::Watch,
};
use covalent_verbs::Mode;

/// Name of the region, at whatever end it is.
const REGION: &str = "bench";

/// Measures all sides in turn and tells them. What came of the goals.
pub fn measure(arguments: &Wire) -> Result<Vec<Verdict>> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::look(), Watch::begin()?, Cores::choose()?);
    let stage = Stage::build(1, 1)?;
    udp_echo::prepare(&stage)?;
    let mut sides: Vec<(SideName, Side)> = Vec::new();
    let mut running = None;
    let mut frames = in_lane::Frames::default();
    for _ in 0..arguments.repeats.least {
        let mut add = |name, slice: Slice| -> Result<()> {
            match sides.iter_mut().find(|(found, _)| *found == name) {
                Some((_, side)) => side.add(slice),
                None => {
                    let mut side = Side::new()?;
                    side.add(slice)?;
                    sides.push((name, side));
                    Ok(())
                }
            }
        };
        for (name, frames) in [
            (SideName::Bare, bare_echo::Frames::Read),
            (SideName::BareUnread, bare_echo::Frames::Unread),
        ] {
            let slice = bare_echo::slice(&stage, cores, arguments, frames)?;
            add(name, slice)?;
        }
        let far = FarLane;
        let (slice, moved) = in_lane::slice(&stage, cores, arguments, &far)?;
        add(SideName::Lane, slice)?;
        frames.add(moved);
        let far = FarNode { daemon: &daemon };
        let (slice, moved) = in_lane::slice(&stage, cores, arguments, &far)?;
        add(SideName::LaneToDaemon, slice)?;
        frames.add(moved);
        for (name, waiting) in [
            (SideName::Udp, Waiting::Sleeping),
            (SideName::UdpSpinning, Waiting::Spinning),
        ] {
            add(name, udp_echo::slice(&stage, cores, arguments, waiting)?)?;
        }
        add(
            SideName::BareHandedOver,
            hand_over::slice(&stage, cores, arguments)?,
        )?;
        let nodes = Nodes::start(&stage, cores, arguments, &daemon)?;
        for (name, mode) in [
            (SideName::Application, Mode::OnePhase),
            (SideName::ApplicationTwoPhase, Mode::TwoPhase),
        ] {
            add(name, nodes.slice(cores, arguments, mode)?)?;
        }
        running = Some((nodes.mode()?, nodes.commands()));
    }
    let (mode, daemons) = running.context("nothing was measured")?;
    let frame_bytes = frames.mean_bytes();
    // Else the bare echo is one of something else. Some frames are the ball of a link at rest, as long as a verb's.
    ensure!(
        (frame_bytes - FRAME_BYTES as f64).abs() < 1.0,
        "the bare echo's frames have {FRAME_BYTES} bytes, those of the exchanges {frame_bytes:.1} in the mean"
    );
    let (application_core, application_shares) = cores.application_beside(cores.near);
    let mut results = Results {
        name: Results::NAME.to_owned(),
        began_unix_ms,
        host: host.seen_by(watch)?,
        setup: Setup {
            rounds: arguments.repeats.least,
            slice_ms: u64::try_from(arguments.slice().as_millis()).unwrap_or(u64::MAX),
            ring_slots: arguments.ring_slots,
            burst: BURST,
            frame_bytes: FRAME_BYTES,
            frames_per_exchange: frames.per_exchange(),
            idle: "poll".to_owned(),
            mode,
            near_core: cores.near,
            far_core: cores.far,
            application_core,
            application_shares,
            daemons,
        },
        sides: sides
            .iter()
            .map(|(name, side)| results::Figures::of(*name, side))
            .collect::<Result<_>>()?,
        goals: Vec::new(),
    };
    results.goals = goals::judge(&results);
    results.tell(&arguments.output)?;
    Ok(results.goals)
}
