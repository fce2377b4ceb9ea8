//! Checks whether journals reach the disk.

use covalent_api::status::LaneStatus;

use super::{facts::Running, finding::Finding};

/// Returns the findings for the journal of each lane that keeps one.
pub fn lanes(running: &Running) -> Vec<Finding> {
    let (before, after) = (&running.before.lanes, &running.after.lanes);
    let pairs = before.iter().zip(after);
    pairs
        .filter(|(before, after)| before.lane == after.lane)
        .filter_map(|(before, after)| lane(before, after, running))
        .collect()
}

fn lane(before: &LaneStatus, after: &LaneStatus, running: &Running) -> Option<Finding> {
    let check = format!("lane {}: journal", after.lane);
    let (before, after) = (before.journal.as_ref()?, after.journal.as_ref()?);
    if let Some(failure) = &after.failure {
        return Some(Finding::failed(
            check,
            failure.clone(),
            "fix what it names, then restart the daemon, which replays what was acknowledged",
        ));
    }
    let waited = before.appended > before.durable;
    if waited && after.durable == before.durable {
        let records = after.appended.saturating_sub(after.durable);
        let between = running.between;
        return Some(Finding::warning(
            check,
            format!(
                "{records} records wait for the disk, and none reached it within {between:?}: \
                 durable verbs are not answered meanwhile"
            ),
            "look for a frozen file system (fsfreeze -u thaws it) or a device that stands still \
             below journal.directory",
        ));
    }
    let records = after.durable.saturating_sub(before.durable);
    Some(Finding::fine(
        check,
        format!("{records} records reached the disk meanwhile"),
    ))
}

#[cfg(test)]
mod tests {
    use covalent_api::status::JournalStatus;

    use super::{
        super::{finding::Level, samples},
        *,
    };

    /// A lane with this journal before and after.
    fn judged(before: [u64; 2], after: [u64; 2], failure: Option<&str>) -> Finding {
        let mut running = samples::running();
        let journal = |[appended, durable]: [u64; 2]| JournalStatus {
            appended,
            durable,
            failure: failure.map(str::to_owned),
            ..JournalStatus::default()
        };
        running.before.lanes[0].journal = Some(journal(before));
        running.after.lanes[0].journal = Some(journal(after));
        lanes(&running).remove(0)
    }

    #[test]
    fn a_journal_is_slow_if_records_wait_and_none_reaches_the_disk() {
        for (before, after, level) in [
            ([7, 7], [7, 7], Level::Fine),
            ([7, 7], [9, 7], Level::Fine),
            ([9, 7], [12, 8], Level::Fine),
            ([9, 7], [9, 9], Level::Fine),
            ([9, 7], [9, 7], Level::Warning),
            ([9, 7], [12, 7], Level::Warning),
        ] {
            let finding = judged(before, after, None);
            assert_eq!(finding.level, level, "{before:?} {after:?}: {finding:?}");
        }
        let slow = judged([9, 7], [12, 7], None);
        assert!(slow.found.starts_with("5 records wait"), "{}", slow.found);
    }

    #[test]
    fn a_failed_journal_is_reported_with_its_reason() {
        let failed = judged([9, 7], [9, 7], Some("file x: torn"));
        assert!(failed.level == Level::Failed && failed.found == "file x: torn");
    }

    #[test]
    fn a_lane_without_a_journal_has_no_finding() {
        let mut running = samples::running();
        running.after.lanes[0].journal = None;
        assert!(
            lanes(&running)
                .iter()
                .all(|finding| finding.check != "lane 0: journal")
        );
    }
}
