//! Frames from a virtual cable into a pipe, against receivers that do less and receivers that do
//! the same by other means.
//!
//! ```text
//!   sender ─► a0 ══ veth ══► b0, the kernel ─┬─► covalentd's lane ─► pipe ─► application
//!   (near core)      (near core)             ├─► bare AF_XDP socket, DPDK's driver, AF_PACKET ring
//!                                            └   (far core)
//! ```
//! The same sender offers each receiver the maximum load. The sender calls the kernel, which moves
//! the frames to `b0` and into the receiver's ring before the call returns. The sender's core thus
//! does the kernel's work for both ends of the cable, and the receiver's core does only the
//! receiver's own work. Frames that are not received are lost. Only arrived frames count: at the
//! receiver, or at the application.
//!
//! All contestants take turns, size by size and round by round, each alone on the cable. The suite
//! compares medians, and only within one run.

mod arguments;
pub mod bare;
mod bars;
mod contestant;
mod dpdk;
pub mod lane;
mod load;
mod packet_ring;
mod results;
mod turn;

use std::io::Write;

use anyhow::{Result, ensure};

use crate::{
    cores::Cores,
    host::Host,
    kept::now_unix_ms,
    node::find_daemon,
    report::{Description, Entry},
    stage::Stage,
    stop::{self, Stopped},
    streams::{Mix, Size},
    summary::Summary,
    watch::Watch,
};
use contestant::Contestant;
use lane::Running;
use results::{Figure, Results, Setup};

pub use arguments::Rate;
pub use dpdk::Driver;
pub use load::Load;
pub use results::Run;
pub use turn::{BURST, Slice, Turn};

/// Measures all contestants in turn. Returns whether every goal that could be measured is met.
pub fn measure(options: &Rate) -> Result<bool> {
    let wire = &options.wire;
    let contestants = contestant::chosen(&options.against.against)?;
    let daemon = find_daemon(wire.covalentd.as_deref())?;
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let (loads, mix) = loads(options)?;
    let stage = Stage::build(1, 1)?;
    let turns: Vec<Turn<'_>> = loads
        .iter()
        .map(|load| Turn {
            stage: &stage,
            cores,
            ring_slots: wire.ring_slots,
            slice: wire.slice(),
            load,
            daemon: &daemon,
        })
        .collect();
    let mut players: Vec<Player> = contestants
        .into_iter()
        .map(|contestant| Player::new(contestant, &turns[0]))
        .collect();
    let mut rounds = 0;
    while wire.repeats.continues(rounds, medians(&players).iter()) {
        rounds += 1;
        // Ignore the error: a closed stderr is no reason to stop.
        let _ = writeln!(std::io::stderr(), "round {rounds}");
        for turn in &turns {
            for player in &mut players {
                player.play(turn)?;
            }
        }
    }
    let running = players.iter_mut().find_map(|player| player.running.take());
    let (mode, daemon) = running.map_or((None, Vec::new()), |running| {
        (Some(running.mode), running.command)
    });
    let run = Run {
        setup: Setup {
            rounds,
            spread_max: wire.repeats.spread_max,
            slice_ms: u64::try_from(wire.slice().as_millis()).unwrap_or(u64::MAX),
            ring_slots: wire.ring_slots,
            burst: BURST,
            sender_core: cores.near,
            receiver_core: cores.far,
            application_core: cores.application_beside(cores.far).0,
            mode,
            daemon,
            mix,
        },
        figures: players.iter().flat_map(Player::figures).collect(),
        contestants: players.into_iter().map(|player| player.entry).collect(),
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&options.wire.output)
}

/// The median of each at each size.
fn medians(players: &[Player]) -> Vec<Summary> {
    players
        .iter()
        .flat_map(Player::figures)
        .map(|figure| figure.mpps)
        .collect()
}

/// Returns the frames to send, and the source of the mix.
fn loads(options: &Rate) -> Result<(Vec<Load>, String)> {
    let mix = Mix::load(options.captures.as_deref())?;
    let mixed = Load::mix(&mix);
    let words = mixed.as_ref().map_or_else(String::new, |load| {
        format!("{}; sent: {}", mix.origin, load.words())
    });
    let mut loads = vec![Load::small()];
    loads.extend(mixed);
    let is_named =
        |name: &str| options.sizes.is_empty() || options.sizes.iter().any(|size| size == name);
    loads.retain(|load| match load.size {
        Size::Mix => is_named("mix"),
        Size::Bytes(bytes) => is_named(&bytes.to_string()),
    });
    ensure!(
        !loads.is_empty(),
        "none of the frames has such a size: 64 and mix are there"
    );
    Ok((loads, words))
}

/// A contestant and its results.
struct Player {
    contestant: Contestant,
    entry: Entry,
    slices: Vec<(Size, Slice)>,
    running: Option<Running>,
}

impl Player {
    fn new(contestant: Contestant, turn: &Turn<'_>) -> Self {
        let (description, absent) = match contestant.describe(turn) {
            Ok(description) => (description, None),
            Err(problem) => (Description::default(), Some(format!("{problem:#}"))),
        };
        Self {
            contestant,
            entry: Entry {
                name: contestant.name().to_owned(),
                description,
                absent,
                failures: Vec::new(),
            },
            slices: Vec::new(),
            running: None,
        }
    }

    fn play(&mut self, turn: &Turn<'_>) -> Result<()> {
        if self.entry.absent.is_some() {
            return Ok(());
        }
        stop::check()?;
        match self.contestant.slice(turn) {
            Ok((slice, running)) => {
                self.slices.push((turn.load.size, slice));
                self.running = running;
                Ok(())
            }
            Err(problem) if problem.is::<Stopped>() => Err(problem),
            Err(problem) => {
                let failure = format!("{}: {problem:#}", turn.load.size);
                self.entry.failures.push(failure);
                Ok(())
            }
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let mut sizes: Vec<Size> = self.slices.iter().map(|(size, _)| *size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
            .into_iter()
            .filter_map(|size| {
                let of_size = self.slices.iter().filter(|(its, _)| *its == size);
                let slices: Vec<Slice> = of_size.map(|(_, slice)| *slice).collect();
                Figure::of(self.contestant.name(), size, &slices)
            })
            .collect()
    }
}
