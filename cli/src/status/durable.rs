//! Journals and durable regions as tables.

use covalent_api::status::{DurableRegionStatus, LaneStatus};

use super::render::number;
use crate::output::{Cell, Color, Table, Theme, bytes, column, wide};

/// The journal of each lane that keeps one.
pub(super) fn journals(theme: Theme, lanes: &[LaneStatus]) -> Table {
    let mut table = theme.new_table([
        column("lane"),
        column("state"),
        column("records"),
        column("on disk"),
        wide("held"),
        column("refused"),
        wide("regions"),
        wide("kept"),
        column("size"),
    ]);
    for lane in lanes {
        let Some(journal) = &lane.journal else {
            continue;
        };
        let state = match &journal.failure {
            None => theme.cell("keeps", Color::Green),
            Some(_) => theme.cell("failed", Color::Red),
        };
        table.add_row([
            Cell::new(lane.lane),
            state,
            number(journal.appended),
            number(journal.durable),
            number(journal.held),
            number(journal.refused),
            number(journal.regions),
            number(journal.kept),
            Cell::whole(bytes(journal.region_bytes)),
        ]);
    }
    table
}

/// Returns a line for each failed journal, with the failure and the remedy.
pub(super) fn failures(lanes: &[LaneStatus]) -> impl Iterator<Item = String> {
    lanes.iter().filter_map(|lane| {
        let failure = lane.journal.as_ref()?.failure.as_ref()?;
        Some(format!("lane {}: {failure}", lane.lane))
    })
}

/// Durable regions, registered or not.
pub(super) fn regions(theme: Theme, regions: &[DurableRegionStatus]) -> Table {
    let mut table = theme.new_table(["durable region", "user", "lane", "size", "session"]);
    for region in regions {
        table.add_row([
            Cell::new(&region.name),
            Cell::new(region.uid),
            Cell::new(region.lane),
            Cell::whole(bytes(region.size_bytes)),
            Cell::new(region.session.map_or_else(
                || "waits for its owner".to_owned(),
                |session| session.to_string(),
            )),
        ]);
    }
    table
}
