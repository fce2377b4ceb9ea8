//! The final checks. Each is a function of the collected results alone.

use serde::Serialize;

use super::{
    goals::Goal,
    losses::Losses,
    refusals::Refusals,
    rest::IdleUsage,
    streams::Streams,
    telemetry::{Figures, NodeFigures, total, words},
    transfer::Outcome,
    verbs::{ClientReport, Verbs, Work},
};
use crate::output::{bytes, grouped};

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The condition.
    pub check: &'static str,
    /// Whether it is.
    pub passed: bool,
    /// The finding.
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

/// Streams: checks the returned frames, and that telemetry agrees. `before` and `after` are the
/// figures before and after the streams.
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
            "streams: every frame returned byte for byte and in order",
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

/// Streams: checks that telemetry counted each refusal reported to the replay, with the same
/// reason.
pub fn refusals(streams: &Streams, refusals: &Refusals) -> Check {
    let mut reported = streams.replay.refusals.clone();
    reported.retain(|_, count| *count > 0);
    Check::new(
        "streams: the application and telemetry count the same frames as refused",
        reported == refusals.refused,
        format!(
            "reported to the replay: {}; counted by both nodes: {}",
            words(&reported),
            words(&refusals.refused)
        ),
    )
}

/// Verbs: checks that the region holds exactly the clients' operations, and that telemetry agrees.
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
    // Verbs that the clients saw complete. The daemons' own count may include verbs that a client
    // left behind.
    let completed = sum(|client| client.verbs + client.lookup_verbs);
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
                "{} submitted to the daemons, {} seen complete by the clients, {in_doubt} in doubt",
                grouped(submitted),
                grouped(completed)
            ),
        ),
    ]
}

/// The cut: checks that it met open work, that the outcome of all such work was resolved, and that
/// the link recovered.
pub fn cut(verbs: &Verbs, after: &Figures) -> Vec<Check> {
    let cut = &verbs.cut;
    let restored = match (cut.cuts, cut.restored_epoch) {
        (0, _) => "the link was never cut".to_owned(),
        (_, Some(epoch)) => format!("up again under epoch {epoch}"),
        (_, None) => "still down".to_owned(),
    };
    let since = |of: fn(&NodeFigures) -> u64| {
        let before = verbs.before_cut.as_ref().map_or(0, |before| of(&before.a));
        of(&after.a).saturating_sub(before)
    };
    let (resolved, reversed) = (since(|node| node.resolved), since(|node| node.reversed));
    vec![
        Check::new(
            "cut: one link was cut while work was open on it",
            cut.cuts > 0 && cut.open_transactions > 0,
            if cut.cuts == 0 {
                "the link was never cut".to_owned()
            } else {
                format!(
                    "{} exchanges open on {} ({})",
                    cut.open_transactions, cut.port, cut.reason
                )
            },
        ),
        Check::new(
            "cut: the outcome of each open exchange was learned",
            resolved == cut.unresolved_transactions,
            format!(
                "{} were open, {resolved} resolved, of which {reversed} were applied again",
                cut.unresolved_transactions
            ),
        ),
        Check::new(
            "cut: the link came up again",
            cut.cuts > 0 && cut.restored_epoch.is_some(),
            restored,
        ),
    ]
}

/// The kernel's transfer: whether it lost nothing.
pub fn transfer(outcome: &Outcome) -> Check {
    let retransmitted = match outcome.retransmitted_segments {
        Some(count) => format!(", {count} of its segments sent again"),
        None => ", but its kernel does not report how many segments were sent again".to_owned(),
    };
    Check::new(
        "kernel TCP over the same interface lost nothing",
        outcome.is_whole(),
        format!(
            "{} sent, {} received, checksums {}{retransmitted}",
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

/// No frame was dropped anywhere, except those in flight on a link when it was cut.
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

/// The links dropped no record that the cut does not explain. An earlier failure of a link is
/// reported, because it explains other drops.
pub fn records(losses: &Losses) -> Check {
    let failed = total(&losses.failures_before);
    let mut found = format!(
        "dropped: {}; outdated: {}",
        words(&losses.records_dropped),
        words(&losses.records_outdated)
    );
    if failed > 0 {
        found += &format!(
            "; links that failed before one was cut: {}",
            words(&losses.failures_before)
        );
    }
    Check::new(
        "no link dropped a record but for its age",
        total(&losses.records_dropped) == 0 && failed == 0,
        found,
    )
}

/// The performance goals, including those at rest: checks that they could be measured. A missed
/// goal is no failed check.
pub fn measured(goals: &anyhow::Result<Vec<Goal>>, rest: &[IdleUsage]) -> Check {
    let found = match goals {
        Ok(goals) => {
            let met = goals.iter().filter(|goal| goal.met).count();
            let modest = rest.iter().filter(|rest| rest.is_modest()).count();
            format!(
                "{} of {} met: {met} of {} against bare AF_XDP and kernel UDP, {modest} of {} at \
                 rest",
                met + modest,
                goals.len() + rest.len(),
                goals.len(),
                rest.len()
            )
        }
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
    Check::new("both nodes shut down gracefully", result.is_ok(), found)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{
        super::{
            cut::Cut,
            streams::{Echo, Replay},
            telemetry::NodeFigures,
            verbs::HostReport,
        },
        *,
    };

    const WORK: Work = Work {
        fetch_adds: 8,
        transfers: 4,
        locks: 4,
    };

    fn figures(a: NodeFigures, b: NodeFigures) -> Figures {
        Figures {
            at: Instant::now(),
            a,
            b,
        }
    }

    /// A run in which two clients were handed 0..5 and 5..8.
    fn exact() -> (Verbs, Figures) {
        let client = |from: u64, to: u64| ClientReport {
            ok: true,
            delta_sum: to - from,
            squares: to * to - from * from,
            cubes: to.pow(3) - from.pow(3),
            fetch_adds: to - from,
            transfers: 2,
            locks: 2,
            verbs: 2,
            lookup_verbs: 1,
            ..ClientReport::default()
        };
        let verbs = Verbs {
            remote: vec![client(0, 5)],
            local: vec![client(5, 8)],
            host: HostReport {
                counter: 8,
                guarded: [4, 4],
                accounts_sum: 640,
                accounts_sum_expected: 640,
            },
            cut: Cut {
                cuts: 1,
                open_transactions: 3,
                unresolved_transactions: 3,
                restored_epoch: Some(2),
                ..Cut::default()
            },
            before_cut: Some(figures(
                NodeFigures {
                    resolved: 2,
                    ..NodeFigures::default()
                },
                NodeFigures::default(),
            )),
            elapsed_ns: 1,
        };
        let a = NodeFigures {
            resolved: 5,
            ..NodeFigures::default()
        };
        let b = NodeFigures {
            verbs_executed: [("fetch_add".to_owned(), 8)].into(),
            verbs_submitted: 6,
            ..NodeFigures::default()
        };
        (verbs, figures(a, b))
    }

    /// Names of the checks that fail when `spoil` has changed one thing of an exact run.
    fn failed(spoil: impl FnOnce(&mut Verbs, &mut Figures)) -> Vec<&'static str> {
        let (mut run, mut after) = exact();
        spoil(&mut run, &mut after);
        let checks = verbs(&run, WORK, &after)
            .into_iter()
            .chain(cut(&run, &after));
        checks
            .filter(|check| !check.passed)
            .map(|check| check.check)
            .collect()
    }

    #[test]
    fn an_exact_run_passes_and_each_single_fault_is_found() {
        assert_eq!(failed(|_, _| {}), [""; 0]);
        assert_eq!(
            failed(|run, _| run.host.guarded[1] -= 1),
            ["verbs: the count behind the lock is exact"]
        );
        assert_eq!(
            failed(|run, _| run.host.accounts_sum += 1),
            ["verbs: the sum of all accounts is exact"]
        );
        assert_eq!(
            failed(|run, _| run.remote[0].ok = false),
            ["verbs: no client found anything wrong"]
        );
        assert_eq!(
            failed(|_, after| *after
                .b
                .verbs_executed
                .entry("fetch_add".into())
                .or_default() += 1),
            ["verbs: node b's telemetry counts each fetch-and-add once"]
        );
        assert_eq!(
            failed(|run, _| run.remote[0].verbs -= 1),
            ["verbs: none is left in doubt"]
        );
        assert_eq!(
            failed(|_, after| after.a.verbs_in_doubt += 1),
            ["verbs: none is left in doubt"]
        );
        assert_eq!(
            failed(|_, after| after.a.resolved -= 1),
            ["cut: the outcome of each open exchange was learned"]
        );
        let never = failed(|run, after| {
            run.cut = Cut::default();
            run.before_cut = None;
            after.a.resolved = 0;
        });
        assert_eq!(
            never,
            [
                "cut: one link was cut while work was open on it",
                "cut: the link came up again"
            ]
        );
        assert_eq!(
            failed(|run, _| run.cut.open_transactions = 0),
            ["cut: one link was cut while work was open on it"]
        );
        assert_eq!(
            failed(|run, _| run.cut.restored_epoch = None),
            ["cut: the link came up again"]
        );
        // A fetch-and-add that was executed twice moves the counter beyond the values returned to
        // the clients.
        let doubled = failed(|run, _| run.host.counter += 1);
        assert_eq!(
            doubled,
            [
                "verbs: the shared counter is exact",
                "verbs: no fetch-and-add was lost or doubled"
            ]
        );
    }

    #[test]
    fn one_lost_and_one_doubled_add_do_not_cancel_out() {
        // The local client received 4 twice and never 7: its sum of deltas is still correct.
        let found = failed(|run, _| {
            run.local[0].squares = run.local[0].squares + (25 - 16) - (64 - 49);
            run.local[0].cubes = run.local[0].cubes + (125 - 64) - (512 - 343);
        });
        assert_eq!(found, ["verbs: no fetch-and-add was lost or doubled"]);
    }

    fn streamed(spoil: impl FnOnce(&mut Streams, &mut Figures)) -> Vec<&'static str> {
        let replay = Replay {
            ok: true,
            sent_packets: 10,
            sent_bytes: 640,
            received_packets: 10,
            received_bytes: 640,
            ..Replay::default()
        };
        let mut run = Streams {
            replay,
            echo: Echo {
                packets: 10,
                bytes: 640,
            },
        };
        // Three frames of links each way lie between the ten of applications.
        let node = NodeFigures {
            rx_packets: 13,
            rx_link_frames: 3,
            tx_packets: 13,
            tx_link_frames: 3,
            ..NodeFigures::default()
        };
        let before = figures(NodeFigures::default(), NodeFigures::default());
        let mut after = figures(node.clone(), node);
        spoil(&mut run, &mut after);
        let checks = streams(&run, &before, &after).into_iter();
        checks
            .filter(|check| !check.passed)
            .map(|check| check.check)
            .collect()
    }

    #[test]
    fn a_frame_that_is_lost_changed_or_miscounted_is_found() {
        const BYTES: &str = "streams: every frame returned byte for byte and in order";
        const COUNTS: &str =
            "streams: applications and both nodes' telemetry count the same frames";
        assert_eq!(streamed(|_, _| {}), [""; 0]);
        assert_eq!(streamed(|run, _| run.replay.received_packets -= 1), [BYTES]);
        assert_eq!(
            streamed(|run, _| run.replay.mismatched_packets = 1),
            [BYTES]
        );
        assert_eq!(streamed(|run, _| run.replay.reordered_packets = 1), [BYTES]);
        assert_eq!(streamed(|run, _| run.echo.packets += 1), [COUNTS]);
        assert_eq!(streamed(|_, after| after.a.rx_packets -= 1), [COUNTS]);
        assert_eq!(streamed(|_, after| after.b.tx_link_frames -= 1), [COUNTS]);
        let nothing = streamed(|run, after| {
            *run = Streams {
                replay: Replay {
                    ok: true,
                    ..Replay::default()
                },
                echo: Echo {
                    packets: 0,
                    bytes: 0,
                },
            };
            *after = figures(NodeFigures::default(), NodeFigures::default());
        });
        assert_eq!(nothing, [BYTES], "a run without a frame shows nothing");
    }

    #[test]
    fn a_refusal_that_only_one_side_saw_is_found() {
        let causes = |list: &[(&str, u64)]| -> super::super::telemetry::Causes {
            list.iter()
                .map(|&(cause, count)| (cause.to_owned(), count))
                .collect()
        };
        let passes = |reported: &[(&str, u64)], counted: &[(&str, u64)]| {
            let run = Streams {
                replay: Replay {
                    refusals: causes(reported),
                    ..Replay::default()
                },
                echo: Echo {
                    packets: 0,
                    bytes: 0,
                },
            };
            let counted = Refusals {
                refused: causes(counted),
                put_off: causes(&[("full", 4)]),
            };
            refusals(&run, &counted).passed
        };
        assert!(passes(&[], &[]));
        assert!(passes(&[("runt", 2), ("too_long", 0)], &[("runt", 2)]));
        assert!(!passes(&[("runt", 2)], &[("runt", 3)]));
        assert!(
            !passes(&[("runt", 2)], &[("too_long", 2)]),
            "another reason"
        );
        assert!(!passes(&[("runt", 2)], &[]));
        assert!(
            !passes(&[], &[("link_type", 1)]),
            "the refusal was not reported to the application"
        );
    }

    #[test]
    fn a_byte_or_a_segment_that_the_kernel_lost_is_found() {
        let whole = Outcome {
            sent_bytes: 5,
            received_bytes: 5,
            checksums_agree: true,
            retransmitted_segments: Some(0),
            elapsed_ns: 1,
        };
        assert!(transfer(&whole).passed);
        assert!(
            !transfer(&Outcome {
                received_bytes: 4,
                ..whole.clone()
            })
            .passed
        );
        assert!(
            !transfer(&Outcome {
                checksums_agree: false,
                ..whole.clone()
            })
            .passed
        );
        for retransmitted_segments in [Some(1), None] {
            assert!(
                !transfer(&Outcome {
                    retransmitted_segments,
                    ..whole.clone()
                })
                .passed
            );
        }
        assert!(
            !transfer(&Outcome {
                sent_bytes: 0,
                received_bytes: 0,
                ..whole
            })
            .passed
        );
    }

    #[test]
    fn drops_count_and_frames_taken_by_the_cut_do_not() {
        let one = super::super::telemetry::Causes::from([("no_pipe".to_owned(), 1)]);
        assert!(
            drops(&Losses {
                taken_by_the_cut: one.clone(),
                ..Losses::default()
            })
            .passed
        );
        assert!(
            !drops(&Losses {
                dropped: one.clone(),
                ..Losses::default()
            })
            .passed
        );
        assert!(
            records(&Losses {
                records_outdated: one.clone(),
                ..Losses::default()
            })
            .passed
        );
        assert!(
            !records(&Losses {
                records_dropped: one,
                ..Losses::default()
            })
            .passed
        );
        let failed = records(&Losses {
            failures_before: [("peer_silent".to_owned(), 1)].into(),
            ..Losses::default()
        });
        assert!(!failed.passed && failed.found.contains("peer_silent 1"));
    }

    #[test]
    fn the_goals_at_idle_are_counted_with_the_others() {
        let goal = |met| Goal {
            goal: "rate".into(),
            bare: 1.0,
            covalent: 1.0,
            ratio: 1.0,
            unit: "Mpps".into(),
            met,
            ratio_to_hand_over: None,
        };
        let rest = IdleUsage {
            node: "a",
            program: "covalentd".into(),
            cpu_share: 0.0,
            resident_bytes: 1,
        };
        let check = measured(&Ok(vec![goal(true), goal(false)]), &[rest.clone(), rest]);
        assert!(
            check.passed && check.found.starts_with("3 of 4 met"),
            "{check:?}"
        );
    }
}
