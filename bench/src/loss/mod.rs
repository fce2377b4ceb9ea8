//! The cost of lost frames: Covalent beside systems that wait for a timer, on one cable that loses
//! frames of all alike and is cut.
//!
//! The sides are those of [`latency`]; only the cable differs. [`wire`] loses frames. [`outage`]
//! cuts the cable and determines the time to recover.

mod arguments;
mod outage;
mod plot;
mod results;
mod wire;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

pub use self::{
    arguments::Loss,
    outage::Method,
    results::{Run, cuts_blocks},
};
use self::{
    outage::{Recovery, cut_repeatedly, recovery, within},
    results::{Cuts, Lossy, Results, Setup},
    wire::{Condition, LossyWire},
};
use crate::{
    beside::join,
    cores::Cores,
    host::Host,
    kept::now_unix_ms,
    latency::{self, Gathered, Keep, Load, Medium, Peer, Player, Scene},
    node::find_daemon,
    report::{Entry, Suite as _},
    stop,
    summary::Summary,
    watch::Watch,
};

#[cfg(test)]
pub fn example_cuts() -> Vec<Cuts> {
    results::example::results().run.cuts
}

/// Time between two cuts, in addition to the length of a cut, so that a retransmission timer
/// has recovered.
const BETWEEN_CUTS: Duration = Duration::from_millis(1500);

/// How often a repeat with cuts is made at most: connections are made anew, daemons started.
const REPEATS_WITH_CUTS_MAX: u32 = 2;

/// Measures all sides under all conditions in turn and prints the results. The only goal is that
/// our sides take part.
pub fn measure(arguments: &Loss) -> Result<bool> {
    let peers = on_the_wire(&arguments.against)?;
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let wire = LossyWire::build()?;
    let scene = Scene {
        stage: Some(&wire.ends),
        cores,
        ring_slots: arguments.ring_slots,
        daemon: &daemon,
    };
    let mut players = peers
        .into_iter()
        .map(|peer| Player::prepare(peer, &scene))
        .collect::<Result<Vec<_>>>()?;
    let trial = Trial {
        arguments,
        wire: &wire,
        scene: &scene,
    };
    let losses = trial.losses(&mut players)?;
    let cuts = trial.cuts(&mut players)?;
    let plan = arguments.plan(arguments.slice());
    let run = Run {
        setup: Setup {
            pacing: plan.pacing,
            bytes: arguments.size as usize,
            repeats: arguments.repeats,
            slice_ms: plan.slice_ns / 1_000_000,
            cut_ms: arguments.cut_ms,
            near_core: cores.near,
            far_core: cores.far,
        },
        contestants: players.into_iter().map(Player::into_entry).collect(),
        losses,
        cuts,
    };
    let results = Results::new(began_unix_ms, host.seen_by(watch)?, run);
    let is_met = results.finish(&arguments.output)?;
    ensure!(
        !results.losses.is_empty() || !results.cuts.is_empty(),
        "nothing was measured: see the lines above"
    );
    Ok(is_met)
}

/// Returns the sides over a cable that `wanted` names, and ours.
fn on_the_wire(wanted: &[String]) -> Result<Vec<Box<dyn Peer>>> {
    let mut all = latency::all();
    all.retain(|peer| peer.medium() == Medium::Wire);
    latency::chosen(all, Run::NAME, wanted)
}

/// Results on one cable that is cut and restored, without other losses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Severed {
    /// How long a cut lasted, in milliseconds.
    pub cut_ms: u64,
    /// The sides that took part, and those that did not, with the reason.
    pub contestants: Vec<Entry>,
    /// Each side, in each way.
    pub cuts: Vec<Cuts>,
}

/// Cuts the cable under the sides that `arguments` names, and ours.
///
/// # Errors
/// The cable cannot be built; [`stop::Stopped`].
pub fn severed(arguments: &Loss) -> Result<Severed> {
    let peers = on_the_wire(&arguments.against)?;
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let wire = LossyWire::build()?;
    let scene = Scene {
        stage: Some(&wire.ends),
        cores: Cores::choose()?,
        ring_slots: arguments.ring_slots,
        daemon: &daemon,
    };
    let mut players = peers
        .into_iter()
        .map(|peer| Player::prepare(peer, &scene))
        .collect::<Result<Vec<_>>>()?;
    let trial = Trial {
        arguments,
        wire: &wire,
        scene: &scene,
    };
    let cuts = trial.cuts(&mut players)?;
    Ok(Severed {
        cut_ms: arguments.cut_ms,
        contestants: players.into_iter().map(Player::into_entry).collect(),
        cuts,
    })
}

struct Trial<'a> {
    arguments: &'a Loss,
    wire: &'a LossyWire,
    scene: &'a Scene<'a>,
}

impl Trial<'_> {
    /// Every side under every loss.
    fn losses(&self, players: &mut [Player]) -> Result<Vec<Lossy>> {
        let load = self.load(self.arguments.slice(), Keep::Histogram);
        let parts = &self.arguments.parts_per_million;
        let mut found = parts
            .iter()
            .flat_map(|&parts| (0..players.len()).map(move |at| (parts, at)))
            .map(|(parts, at)| Ok((parts, at, [0, 0], Gathered::new()?)))
            .collect::<Result<Vec<_>>>()?;
        for _ in 0..self.arguments.repeats {
            for (parts, at, lost_frames, gathered) in &mut found {
                let before = self.wire.lost_frames()?;
                self.wire.set(Condition::Loses(*parts))?;
                let measured = players[*at].measure(self.scene, &load);
                self.wire.set(Condition::Loses(0))?;
                let after = self.wire.lost_frames()?;
                if let Some((repeat, watched)) = measured? {
                    gathered.add(&repeat, watched)?;
                    for way in 0..2 {
                        lost_frames[way] += after[way] - before[way];
                    }
                }
            }
        }
        let lossy =
            found
                .into_iter()
                .filter_map(|(parts_per_million, at, lost_frames, gathered)| {
                    Some(Lossy {
                        parts_per_million,
                        lost_frames,
                        figures: gathered.figures(players[at].name(), load.bytes)?,
                    })
                });
        Ok(lossy.collect())
    }

    /// Every side with the cable cut in every way.
    fn cuts(&self, players: &mut [Player]) -> Result<Vec<Cuts>> {
        let mut found = Vec::new();
        if self.arguments.cuts == 0 {
            return Ok(found);
        }
        for way in [Method::Silent, Method::Carrier] {
            for player in players.iter_mut() {
                found.extend(self.cut(player, way)?);
            }
        }
        Ok(found)
    }

    /// Measures one side with the cable cut in one way. Returns `None` if there is no figure.
    fn cut(&self, player: &mut Player, way: Method) -> Result<Option<Cuts>> {
        let period = self.arguments.cut() + BETWEEN_CUTS;
        let repeats = self.arguments.cuts.min(REPEATS_WITH_CUTS_MAX);
        let cuts_each = self.arguments.cuts.div_ceil(repeats);
        // One cut more than requested: the first may happen before the first request.
        let load = self.load(period * (cuts_each + 1), Keep::Everything);
        let (mut gathered, mut recovered, mut longest) = (Gathered::new()?, Vec::new(), Vec::new());
        let mut unrecovered = 0;
        for _ in 0..repeats {
            let over = AtomicBool::new(false);
            let (measured, outages) = thread::scope(|scope| {
                let over = &over;
                let cutting = scope.spawn(move || {
                    cut_repeatedly(self.wire, way, period, self.arguments.cut(), over)
                });
                let measured = player.measure(self.scene, &load);
                over.store(true, Ordering::Relaxed);
                Ok::<_, anyhow::Error>((measured?, join(cutting)?))
            })?;
            let Some((repeat, watched)) = measured else {
                continue;
            };
            for outage in within(&repeat.trace, load.plan.slice_ns, &outages) {
                let found = recovery(&repeat.trace, outage).unwrap_or_else(|| {
                    unrecovered += 1;
                    // A lower bound: no reply arrived in time after this cut.
                    Recovery {
                        first_ns: load.plan.patience_ns,
                        longest_ns: load.plan.patience_ns,
                    }
                });
                recovered.push(found.first_ns as f64 / 1e6);
                longest.push(found.longest_ns as f64 / 1e6);
            }
            gathered.add(&repeat, watched)?;
            stop::check()?;
        }
        Ok(Summary::of(recovered)
            .zip(Summary::of(longest))
            .zip(gathered.figures(player.name(), load.bytes))
            .map(|((recovered_ms, longest_ms), figures)| Cuts {
                way,
                recovered_ms,
                longest_ms,
                unrecovered,
                figures,
            }))
    }

    fn load(&self, length: Duration, keep: Keep) -> Load {
        Load {
            bytes: self.arguments.size as usize,
            plan: self.arguments.plan(length),
            keep,
            cores: self.scene.cores,
        }
    }
}
