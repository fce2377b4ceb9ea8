//! A client of the bank at work on a device.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use covalent::{Completion, Error, Refusal, RemoteRegion, Target, Verbs};
use serde::Serialize;

use crate::{
    bank::{
        client::{Client, Counts, Plan, Retries},
        intervals::Digest,
        layout,
    },
    latency::Latency,
    output::{Output, per_second},
    stop::{POLL_INTERVAL, Stop},
};

/// How a client's run went.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `bank-client`.
    pub app: &'static str,
    /// Whether no problem occurred and, unless the run was stopped early, all work was done.
    pub ok: bool,
    /// Whether all work was done.
    pub complete: bool,
    /// From the first verb to the last completion.
    pub elapsed_ns: u64,
    /// Jobs done.
    #[serde(flatten)]
    pub done: Counts,
    /// Sums over the values that the additions returned. Together with those of all other clients
    /// they prove exactness.
    #[serde(flatten)]
    pub digest: Digest,
    /// Verbs that found the bank, before the work began.
    pub lookup_verbs: u64,
    /// Verbs of the work completed.
    pub verbs: u64,
    /// Of those, in each second.
    pub verbs_per_s: f64,
    /// Verbs done again, by cause.
    pub retries: Retries,
    /// Times that a verb was reported in doubt.
    pub in_doubt_seen: u64,
    /// From posting a verb to its completion: half of them took no longer.
    pub rtt_p50_ns: u64,
    /// 99 of 100 took no longer.
    pub rtt_p99_ns: u64,
    /// The longest.
    pub rtt_max_ns: u64,
    /// The longest time without a completion while verbs were in flight: a failover as a client
    /// sees it.
    pub longest_gap_ns: u64,
    /// The first few things that must never happen and did.
    pub problems: Vec<String>,
    /// How many there were.
    pub problems_count: u64,
}

#[derive(Serialize)]
struct Progress {
    app: &'static str,
    elapsed_ns: u64,
    #[serde(flatten)]
    done: Counts,
    verbs: u64,
    outstanding: u64,
    in_doubt: u64,
    longest_gap_ns: u64,
}

const APP: &str = "bank-client";

/// Completions taken at a time.
const BURST: usize = 64;

/// How long between two looks for a bank that is not there yet.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(20);

/// A bank found on its node.
#[derive(Debug)]
pub struct Bank {
    /// Its region.
    pub region: RemoteRegion,
    /// How many accounts it has.
    pub accounts: u32,
    /// The first balance of each account.
    pub balance: u64,
    /// Verbs that it took to find out.
    pub lookup_verbs: u64,
}

/// Finds a bank. Waits until `deadline` for its node to be reachable and for its host to open it.
///
/// # Errors
/// The bank is not found in time, the region is not a bank, or the daemon is gone.
pub fn find(
    verbs: &mut Verbs<'_>,
    target: Target<'_>,
    name: &str,
    deadline: Instant,
    stop: &Stop,
) -> Result<Bank> {
    let mut reason = None;
    let mut lookup_verbs = 0;
    let (region, accounts) = loop {
        match lookup_once(verbs, target, name, deadline, &mut lookup_verbs) {
            Ok(found) => break found,
            // A deadline is less informative than the result of the previous attempt.
            Err(error @ Error::Deadline { .. }) => reason = reason.or(Some(error)),
            Err(
                error @ (Error::UnknownNode { .. }
                | Error::NoSuchPeer
                | Error::VerbRefused {
                    refusal: Refusal::UnknownRegion | Refusal::NoResources,
                    ..
                }),
            ) => reason = Some(error),
            Err(error) => return Err(error).context("looking for the bank"),
        }
        if Instant::now() >= deadline || stop.is_requested() {
            let not_found = anyhow!("region `{name}` was not found in time");
            return Err(match reason {
                Some(reason) => anyhow!(reason).context(not_found),
                None => not_found,
            });
        }
        thread::sleep(LOOKUP_INTERVAL);
    };
    let balance = word(verbs, &region, layout::FIRST_BALANCE, deadline)?;
    lookup_verbs += 1;
    let accounts = u32::try_from(accounts).ok().filter(|accounts| {
        (layout::ACCOUNTS_MIN..=layout::ACCOUNTS_MAX).contains(accounts)
            && layout::region_bytes(*accounts) <= region.size_bytes()
            && balance <= layout::FIRST_BALANCE_MAX
    });
    match accounts {
        Some(accounts) => Ok(Bank {
            region,
            accounts,
            balance,
            lookup_verbs,
        }),
        None => bail!("region `{name}` is no bank: its number of accounts does not fit its size"),
    }
}

/// One look for a bank that is open.
fn lookup_once(
    verbs: &mut Verbs<'_>,
    target: Target<'_>,
    name: &str,
    deadline: Instant,
    completed: &mut u64,
) -> covalent::Result<(RemoteRegion, u64)> {
    let mut count = |is_answer: bool| *completed += u64::from(is_answer);
    let region = verbs.open_region(target, name, deadline);
    count(matches!(region, Ok(_) | Err(Error::VerbRefused { .. })));
    let region = region?;
    let accounts = word(verbs, &region, layout::ACCOUNTS_COUNT, deadline);
    count(matches!(accounts, Ok(_) | Err(Error::VerbRefused { .. })));
    match accounts? {
        // Its host has registered it and not laid it out yet.
        0 => Err(Error::VerbRefused {
            node: target.to_string(),
            region: format!("`{name}`"),
            refusal: Refusal::UnknownRegion,
        }),
        accounts => Ok((region, accounts)),
    }
}

fn word(
    verbs: &mut Verbs<'_>,
    region: &RemoteRegion,
    offset_bytes: u64,
    deadline: Instant,
) -> covalent::Result<u64> {
    let mut bytes = [0; 8];
    verbs.read(region, offset_bytes, &mut bytes, deadline)?;
    Ok(u64::from_le_bytes(bytes))
}

/// The inputs of a run besides its plan.
#[derive(Debug)]
pub struct Work<'a> {
    /// The bank.
    pub bank: &'a Bank,
    /// Ends the run early.
    pub stop: &'a Stop,
    /// How long to wait without a finished job before giving up. Completions do not count: attempts
    /// at a lock whose holder has died complete forever.
    pub patience: Duration,
}

/// Executes `plan`.
///
/// # Errors
/// The daemon refuses or is gone. Problems at the bank are in the report.
pub fn run(
    verbs: &mut Verbs<'_>,
    plan: Plan,
    work: &Work<'_>,
    output: &mut Output,
) -> Result<Report> {
    let mut client = Client::new(plan, work.bank.accounts, work.bank.balance);
    let mut completions = vec![Completion::default(); BURST];
    let mut posted_at = vec![Instant::now(); plan.depth.max(1) as usize];
    let mut rtt = Latency::new();
    let mut count = 0;
    let mut longest_gap = Duration::ZERO;
    let started = Instant::now();
    let mut last_completion = started;
    let mut gap_began = started;
    let mut last_job = (0, started);
    let mut lock_pause_ends = None;
    let mut stalled = None;
    while !client.is_finished() {
        post(verbs, &mut client, work.bank, &mut posted_at)?;
        let deadline = Instant::now() + POLL_INTERVAL;
        let deadline = lock_pause_ends.map_or(deadline, |end| deadline.min(end));
        // Of a job that pauses no completion is expected.
        let expects = client.in_flight() > usize::from(client.lock_pause().is_some());
        let taken = match verbs.poll(&mut completions, deadline) {
            Err(Error::Deadline { .. }) => 0,
            taken => taken?,
        };
        let now = Instant::now();
        for completion in &completions[..taken] {
            if completion.outcome.is_final() {
                count += 1;
                if let Some(posted) = posted_at.get(completion.user_data as usize) {
                    rtt.record((now - *posted).as_nanos() as u64);
                }
            }
            let data = verbs.data(completion.id).unwrap_or_default();
            client.completed(completion.user_data, &completion.outcome, data);
        }
        if expects {
            longest_gap = longest_gap.max(now - gap_began);
        }
        if taken > 0 {
            last_completion = now;
        }
        if taken > 0 || !expects {
            gap_began = now;
        }
        if work.stop.is_requested() {
            client.start_no_more();
        }
        lock_pause_ends = match (client.lock_pause(), lock_pause_ends) {
            (Some(_), Some(end)) if now >= end => {
                client.retry_lock();
                None
            }
            (Some(pause), None) => Some(now + pause),
            (Some(_), end) => end,
            (None, _) => None,
        };
        if client.finished_jobs() != last_job.0 {
            last_job = (client.finished_jobs(), now);
        } else if now - last_job.1 > work.patience && !client.is_finished() {
            stalled = Some(now - last_job.1);
            break;
        }
        if output.wants_progress(now) {
            let progress = Progress {
                app: APP,
                elapsed_ns: (now - started).as_nanos() as u64,
                done: client.done(),
                verbs: count,
                outstanding: client.in_flight() as u64,
                in_doubt: client.in_doubt(),
                longest_gap_ns: longest_gap.as_nanos() as u64,
            };
            output.progress(now, &progress)?;
        }
    }
    let (problems, mut problems_count) = client.problems();
    let mut problems = problems.to_vec();
    if let Some(silence) = stalled {
        problems_count += 1;
        let lock = client
            .lock_held_by()
            .map_or_else(String::new, |(holder, attempts)| {
                format!(
                    "; {attempts} attempts found the lock held by {holder:#x}, which may have died"
                )
            });
        problems.push(format!(
            "{} jobs in flight and none completed for {silence:.1?}{lock}",
            client.in_flight()
        ));
    }
    let complete = client.is_complete();
    let (done, retries, in_doubt_seen) = (client.done(), client.retries(), client.in_doubt_seen());
    let digest = client.into_digest();
    let elapsed_ns = (last_completion - started).as_nanos() as u64;
    Ok(Report {
        app: APP,
        ok: problems_count == 0 && digest.overlaps == 0 && (complete || work.stop.is_requested()),
        complete,
        elapsed_ns,
        done,
        digest,
        lookup_verbs: work.bank.lookup_verbs,
        verbs: count,
        verbs_per_s: per_second(count, elapsed_ns),
        retries,
        in_doubt_seen,
        rtt_p50_ns: rtt.percentile_ns(50.0),
        rtt_p99_ns: rtt.percentile_ns(99.0),
        rtt_max_ns: rtt.max_ns(),
        longest_gap_ns: longest_gap.as_nanos() as u64,
        problems,
        problems_count,
    })
}

/// Posts all that can be posted now.
fn post(
    verbs: &mut Verbs<'_>,
    client: &mut Client,
    bank: &Bank,
    posted_at: &mut [Instant],
) -> Result<()> {
    while let Some((user_data, request)) = client.next_verb() {
        match verbs.post(&bank.region, request.verb(), request.mode(), user_data) {
            Ok(_) => posted_at[user_data as usize] = Instant::now(),
            Err(Error::QueueFull { .. }) => {
                client.not_posted(user_data);
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
