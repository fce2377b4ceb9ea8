//! What must be true at the end. Each check is a function of what was gathered, and of nothing else.

use serde::Serialize;

use super::{
    goals::Goal,
    losses::Losses,
    streams::Streams,
    telemetry::{Figures, total, words},
    transfer::Outcome,
    verbs::{ClientReport, Verbs, Work},
};
use crate::output::{bytes, grouped};

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What must be true.
    pub check: &'static str,
    /// Whether it is.
    pub passed: bool,
    /// What was found.
    pub found: String,
}

impl Check {
    fn new(check: &'static str, passed: bool, found: impl Into<String>) -> Self {
        Self {
            check,
            passed,
            found: found.into(),
        }
    }
}

/// Streams: what came back, and whether the telemetry saw the same. The figures are those before and after.
pub fn streams(streams: &Streams, before: &Figures, after: &Figures) -> Vec<Check> {
    let replay = &streams.replay;
    let mut found = format!(
        "{} sent, {} back, {} changed, {} out of order, {} lost",
        grouped(replay.sent_packets),
        grouped(replay.received_packets),
        replay.mismatched_packets,
        replay.reordered_packets,
        replay.lost_packets
    );
    for problem in &replay.problems {
        found = format!("{found}; {problem}");
    }
    let clean = replay.ok
        && replay.sent_packets > 0
        && replay.sent_packets == replay.received_packets
        && replay.sent_bytes == replay.received_bytes
        && replay.mismatched_packets + replay.reordered_packets + replay.lost_packets == 0;
    let seen = [
        replay.sent_packets,
        streams.echo.packets,
        after.a.application_tx_packets() - before.a.application_tx_packets(),
        after.b.application_rx_packets() - before.b.application_rx_packets(),
        after.b.application_tx_packets() - before.b.application_tx_packets(),
        after.a.application_rx_packets() - before.a.application_rx_packets(),
    ];
    vec![
        Check::new(
            "streams: every frame came back byte for byte and in order",
            clean,
            found,
        ),
        Check::new(
            "streams: applications and both nodes' telemetry count the same frames",
            seen.iter().all(|&count| count == seen[0]),
            format!(
                "replay {}, echo {}; a sent {}, b received {}, b sent {}, a received {}",
                grouped(seen[0]),
                grouped(seen[1]),
                grouped(seen[2]),
                grouped(seen[3]),
                grouped(seen[4]),
                grouped(seen[5])
            ),
        ),
    ]
}

/// Verbs: whether the region holds exactly what the clients did, and whether the telemetry saw the same.
pub fn verbs(verbs: &Verbs, work: Work, after: &Figures) -> Vec<Check> {
    let sum = |of: fn(&ClientReport) -> u64| verbs.clients().map(of).fold(0_u64, u64::wrapping_add);
    let host = &verbs.host;
    let counter = host.counter;
    let powers = |exponent: u32| (0..exponent).fold(1_u64, |power, _| power.wrapping_mul(counter));
    let problems: Vec<&str> = verbs
        .clients()
        .flat_map(|client| client.problems.iter().map(String::as_str))
        .collect();
    let executed = after
        .b
        .verbs_executed
        .get("fetch_add")
        .copied()
        .unwrap_or(0);
    let in_doubt = after.a.verbs_in_doubt + after.b.verbs_in_doubt;
    let submitted = after.a.verbs_submitted + after.b.verbs_submitted;
    let completed = after.a.verbs_completed + after.b.verbs_completed;
    vec![
        Check::new(
            "verbs: the shared counter is exact",
            counter == sum(|client| client.delta_sum)
                && sum(|client| client.fetch_adds) == work.fetch_adds,
            format!(
                "{} after {} fetch-and-adds",
                grouped(counter),
                grouped(sum(|client| client.fetch_adds))
            ),
        ),
        Check::new(
            "verbs: no fetch-and-add was lost or doubled",
            sum(|client| client.squares) == powers(2) && sum(|client| client.cubes) == powers(3),
            "the values handed out tile the counter without gap or overlap",
        ),
        Check::new(
            "verbs: the count behind the lock is exact",
            host.guarded == [work.locks; 2] && sum(|client| client.locks) == work.locks,
            format!(
                "{} and {} after {} locked sections",
                host.guarded[0], host.guarded[1], work.locks
            ),
        ),
        Check::new(
            "verbs: the sum of all accounts is exact",
            host.accounts_sum == host.accounts_sum_expected
                && sum(|client| client.transfers) == work.transfers,
            format!(
                "{} after {} transfers",
                grouped(host.accounts_sum),
                grouped(work.transfers)
            ),
        ),
        Check::new(
            "verbs: no client found anything wrong",
            problems.is_empty() && verbs.clients().all(|client| client.ok),
            if problems.is_empty() {
                "nothing".to_owned()
            } else {
                problems.join("; ")
            },
        ),
        Check::new(
            "verbs: node b's telemetry counts each fetch-and-add once",
            executed == work.fetch_adds,
            format!("{} executed", grouped(executed)),
        ),
        Check::new(
            "verbs: none is left in doubt",
            in_doubt == 0 && submitted == completed,
            format!(
                "{} submitted, {} completed, {in_doubt} in doubt",
                grouped(submitted),
                grouped(completed)
            ),
        ),
    ]
}

/// The cut: whether it met open work and was healed.
pub fn cut(verbs: &Verbs, after: &Figures) -> Vec<Check> {
    let cut = &verbs.cut;
    let restored = match cut.restored_epoch {
        Some(epoch) => format!("up again under epoch {epoch}"),
        None => "still down".to_owned(),
    };
    vec![
        Check::new(
            "cut: one link was cut while work was open on it",
            cut.open_transactions > 0,
            format!(
                "{} exchanges open on {} ({}); {} resolved over the other link, {} applied afresh",
                cut.open_transactions, cut.port, cut.reason, after.a.resolved, after.a.reversed
            ),
        ),
        Check::new(
            "cut: the link came back",
            cut.restored_epoch.is_some(),
            restored,
        ),
    ]
}

/// The kernel's transfer: whether it lost nothing.
pub fn transfer(outcome: &Outcome) -> Check {
    let again = outcome
        .retransmitted_segments
        .map_or_else(String::new, |count| {
            format!(", {count} of its segments sent again")
        });
    Check::new(
        "kernel TCP over the same interface lost nothing",
        outcome.is_whole(),
        format!(
            "{} sent, {} received, checksums {}{again}",
            bytes(outcome.sent_bytes),
            bytes(outcome.received_bytes),
            if outcome.checksums_agree {
                "agree"
            } else {
                "DIFFER"
            }
        ),
    )
}

/// No frame was dropped anywhere, but for those that were under way on a link when it was cut.
pub fn drops(losses: &Losses) -> Check {
    Check::new(
        "no frame was dropped at any port or pipe",
        total(&losses.dropped) == 0,
        format!(
            "dropped: {}; taken by the cut: {}",
            words(&losses.dropped),
            words(&losses.taken_by_the_cut)
        ),
    )
}

/// The performance goals: whether they could be measured. That one is missed is no failed check.
pub fn measured(goals: &anyhow::Result<Vec<Goal>>) -> Check {
    let found = match goals {
        Ok(goals) => format!(
            "{} of {} met",
            goals.iter().filter(|goal| goal.met).count(),
            goals.len()
        ),
        Err(error) => format!("{error:#}"),
    };
    Check::new(
        "the performance goals could be measured",
        goals.is_ok(),
        found,
    )
}

/// The nodes' end.
pub fn ended(result: &anyhow::Result<()>) -> Check {
    let found = match result {
        Ok(()) => "four processes ended by themselves, no socket left".to_owned(),
        Err(error) => format!("{error:#}"),
    };
    Check::new("both nodes ended in order", result.is_ok(), found)
}
