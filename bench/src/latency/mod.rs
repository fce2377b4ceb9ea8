//! Round-trip times of requests that are due at fixed times, for our applications and for others.
//!
//! [`pacing`] defines when requests are due, and [`drive`] sends them and records how long each
//! took. [`peer`] describes a side, ours or another. [`results`], [`table`] and [`plot`] print the
//! results. A new system is a file that implements [`peer::Peer`] and a line in [`peer::all`].

mod arguments;
mod busy_poll;
mod covalent;
mod drive;
mod frames;
mod handed_over;
mod in_lane;
mod memory;
mod pacing;
mod peer;
mod plot;
mod redis;
mod results;
mod rxe;
mod rxe_pair;
mod sockets;
mod table;

use anyhow::{Result, ensure};

use self::results::Setup;
// Shared with the other round-trip measurements.
pub use self::{
    arguments::{Latency, rate},
    drive::{Clock, Keep, Monotonic, Plan, Repeat, Traced},
    pacing::Pacing,
    peer::{Load, Medium, Peer, Scene, all, chosen},
    results::{Figures, Gathered, Results, Run, Times},
    sockets::{give_addresses, server_at},
    table::HEADER,
};
#[cfg(test)]
pub fn example_table() -> String {
    table::table(&results::example::results())
}
#[cfg(test)]
pub use self::results::example::results as example_results;
use crate::{
    cores::Cores,
    host::Host,
    kept::now_unix_ms,
    node::find_daemon,
    report::{Description, Entry, Suite},
    stage::Stage,
    stop::{self, Stopped},
    summary::Summary,
    watch::{Watch, Watched},
};

/// One side of the comparison in this run.
pub struct Player {
    peer: Box<dyn Peer>,
    entry: Entry,
    /// Its measurements, by size.
    gathered: Vec<(usize, Gathered)>,
}

/// Measures all sides in turn and prints the results. Returns whether every goal is met and the
/// spread is within its bound.
pub fn measure(arguments: &Latency) -> Result<bool> {
    let peers = chosen(all(), Run::NAME, &arguments.against.against)?;
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let on_the_wire = peers.iter().any(|peer| peer.medium() == Medium::Wire);
    let stage = on_the_wire.then(|| Stage::build(1, 1)).transpose()?;
    let scene = Scene {
        stage: stage.as_ref(),
        cores,
        ring_slots: arguments.ring_slots,
        daemon: &daemon,
    };
    let plan = arguments.plan();
    let loads: Vec<Load> = arguments
        .sizes
        .iter()
        .map(|&bytes| Load {
            bytes: bytes as usize,
            plan,
            keep: Keep::Histogram,
            cores,
        })
        .collect();
    let mut players = peers
        .into_iter()
        .map(|peer| Player::prepare(peer, &scene))
        .collect::<Result<Vec<_>>>()?;
    let mut repeats = 0;
    while arguments
        .repeats
        .continues(repeats, medians(&players).iter())
    {
        for load in &loads {
            for player in &mut players {
                player.play(&scene, load)?;
            }
        }
        repeats += 1;
    }
    let settled = arguments.repeats.settled(repeats, medians(&players).iter());
    let figures: Vec<Figures> = players.iter().flat_map(Player::figures).collect();
    let run = Run {
        setup: Setup {
            pacing: plan.pacing,
            slice_ms: plan.slice_ns / 1_000_000,
            warm_up: plan.warm_up,
            patience_ms: plan.patience_ns / 1_000_000,
            near_core: cores.near,
            far_core: cores.far,
        },
        contestants: players.into_iter().map(|player| player.entry).collect(),
        figures,
        settled,
    };
    let results = Results::new(began_unix_ms, host.seen_by(watch)?, run);
    let is_met = results.finish(&arguments.output)?;
    ensure!(
        !results.figures.is_empty(),
        "nothing was measured: see the lines above"
    );
    Ok(is_met)
}

/// The median of each side at each size.
fn medians(players: &[Player]) -> Vec<Summary> {
    players
        .iter()
        .flat_map(|player| &player.gathered)
        .filter_map(|(_, gathered)| gathered.p50_us())
        .collect()
}

impl Player {
    /// Prepares `peer` and records if it is not available.
    pub fn prepare(mut peer: Box<dyn Peer>, scene: &Scene<'_>) -> Result<Self> {
        let (description, absent) = match peer.prepare(scene) {
            Ok(description) => (description, None),
            Err(problem) if problem.is::<Stopped>() => return Err(problem),
            Err(problem) => (Description::default(), Some(format!("{problem:#}"))),
        };
        Ok(Self {
            entry: Entry {
                name: peer.name().to_owned(),
                description,
                absent,
                failures: Vec::new(),
            },
            peer,
            gathered: Vec::new(),
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns its entry in the results.
    pub fn into_entry(self) -> Entry {
        self.entry
    }

    /// Runs one repeat. Also returns the machine's other activity. Returns `None` if the side
    /// cannot run it or failed; a failure is recorded.
    pub fn measure(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Option<(Repeat, Watched)>> {
        stop::check()?;
        if self.entry.absent.is_some() || self.peer.refuses(load).is_some() {
            return Ok(None);
        }
        let watch = Watch::begin()?;
        let repeat = match self.peer.repeat(scene, load) {
            Ok(repeat) => repeat,
            Err(problem) if problem.is::<Stopped>() => return Err(problem),
            Err(problem) => {
                self.entry
                    .failures
                    .push(format!("{} bytes: {problem:#}", load.bytes));
                return Ok(None);
            }
        };
        Ok(Some((repeat, watch.end()?)))
    }

    /// One repeat, added to those before.
    fn play(&mut self, scene: &Scene<'_>, load: &Load) -> Result<()> {
        let Some((repeat, watched)) = self.measure(scene, load)? else {
            return Ok(());
        };
        let at = match self
            .gathered
            .iter()
            .position(|(bytes, _)| *bytes == load.bytes)
        {
            Some(at) => at,
            None => {
                self.gathered.push((load.bytes, Gathered::new()?));
                self.gathered.len() - 1
            }
        };
        self.gathered[at].1.add(&repeat, watched)
    }

    fn figures(&self) -> Vec<Figures> {
        self.gathered
            .iter()
            .filter_map(|(bytes, gathered)| gathered.figures(&self.entry.name, *bytes))
            .collect()
    }
}
