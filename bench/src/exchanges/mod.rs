//! Exchanges per second between two ends of one link, and the limit of the cable.
//!
//! ```text
//!   asks: node, engine, port (near core) ◄══ memory cable ══► (far core) the same ─► region [end]
//!   raw:  frames full of records         ◄══ same cable   ══►                               [raw]
//! ```
//! There is no application and no pipe: the benchmark measures the link, from the verb to its
//! reply. All sides take turns in each round, each on a new cable. No exchange may allocate
//! ([`allocations`] counts this). No exchange may be lost or executed twice (the word shows this).

mod allocations;
pub mod end;
mod load;
mod phase;
mod raw;
mod results;
pub mod slice;

use anyhow::{Context, Result};

pub use self::results::Run;
use self::{
    results::{Figures, Results, Setup, SideName},
    slice::Slice,
};
use crate::{
    arguments::Exchanges, cores::Cores, host::Host, kept::now_unix_ms, summary::Summary,
    watch::Watch,
};

/// Measures all sides in turn and prints the results. Returns whether every goal is met.
pub fn measure(arguments: &Exchanges) -> Result<bool> {
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let span = arguments.slice();
    let mut sides: Vec<(SideName, Vec<Slice>)> = SideName::all()
        .into_iter()
        .map(|side| (side, Vec::new()))
        .collect();
    let mut rounds = 0;
    while arguments.repeats.continues(rounds, medians(&sides)?.iter()) {
        rounds += 1;
        for (side, slices) in &mut sides {
            let slice = slice::measure(*side, cores, arguments.ring_slots, span)
                .with_context(|| format!("measuring {}", side.words()))?;
            slices.push(slice);
        }
    }
    let run = Run {
        setup: Setup {
            rounds,
            spread_max: arguments.repeats.spread_max,
            slice_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
            ring_slots: arguments.ring_slots,
            near_core: cores.near,
            far_core: cores.far,
        },
        sides: sides
            .iter()
            .map(|(side, slices)| figures(*side, slices))
            .collect::<Result<_>>()?,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&arguments.output)
}

/// The median of each side, once it was measured.
fn medians(sides: &[(SideName, Vec<Slice>)]) -> Result<Vec<Summary>> {
    sides
        .iter()
        .filter(|(_, slices)| !slices.is_empty())
        .map(|(side, slices)| Ok(figures(*side, slices)?.records_mops))
        .collect()
}

/// Aggregates the slices of a side.
fn figures(side: SideName, slices: &[Slice]) -> Result<Figures> {
    let millions = |of: fn(&Slice) -> f64| {
        let figures = slices.iter().map(|slice| of(slice) / 1e6).collect();
        Summary::of(figures).context("nothing was measured")
    };
    let exchanges_mops = match side {
        SideName::Exchanges { .. } => Some(millions(|slice| slice.exchanges_per_s)?),
        SideName::Sealed | SideName::Plain => None,
    };
    let per_frame: f64 = slices.iter().map(|slice| slice.records_per_frame).sum();
    Ok(Figures {
        side,
        exchanges_mops,
        records_mops: millions(|slice| slice.records_per_s)?,
        records_per_frame: per_frame / slices.len() as f64,
        exchanges: slices.iter().map(|slice| slice.exchanges).sum(),
        allocations: slices.iter().map(|slice| slice.allocations).sum(),
    })
}
