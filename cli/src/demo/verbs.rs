//! Atomic verbs: four clients share a region on node b. One link is cut while work is in flight on
//! it, and restored.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    application::Application,
    cut::{Cut, Cutter},
    narrator::Narrator,
    nodes::{Node, Nodes},
    patience::stretched,
    telemetry::{Figures, PipeDrops},
};
use crate::{
    interrupt::Interrupt,
    output::{duration, grouped},
};

/// Clients on each node.
const CLIENTS_PER_NODE: u64 = 2;

/// Longest time without a completed job of any client. Verbs do not count: attempts at a lock whose
/// holder crashed complete forever.
const STALL_MAX: Duration = Duration::from_secs(15);

const RECHECK_INTERVAL: Duration = Duration::from_millis(10);

/// How much there is to do, by all clients together.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Fetch-and-adds on the counter.
    pub fetch_adds: u64,
    /// Multi-word transfers between accounts.
    pub transfers: u64,
    /// Compare-and-swap locks taken, each guarding two counts.
    pub locks: u64,
}

impl Work {
    /// Returns the share of one of `clients`. The shares add up to the whole; the first ones take
    /// the remainder.
    fn share(self, index: u64, clients: u64) -> Self {
        let part = |whole: u64| whole / clients + u64::from(index < whole % clients);
        Self {
            fetch_adds: part(self.fetch_adds),
            transfers: part(self.transfers),
            locks: part(self.locks),
        }
    }

    /// Returns the approximate number of verbs: a locked section takes four if the lock is free.
    const fn verbs(self) -> u64 {
        self.fetch_adds + self.transfers + 4 * self.locks
    }

    const fn total(self) -> u64 {
        self.fetch_adds + self.transfers + self.locks
    }
}

/// The result of a client.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClientReport {
    /// Whether it found nothing wrong.
    pub ok: bool,
    /// Sum of the values that its fetch-and-adds added.
    pub delta_sum: u64,
    /// Sum of squares of the intervals' ends minus those of their starts, wrapping.
    pub squares: u64,
    /// The same with cubes.
    pub cubes: u64,
    /// Fetch-and-adds done.
    pub fetch_adds: u64,
    /// Transfers done.
    pub transfers: u64,
    /// Locks taken and given back.
    pub locks: u64,
    /// Verbs that found the bank, before the work began.
    pub lookup_verbs: u64,
    /// Verbs of every kind that completed in the work.
    pub verbs: u64,
    /// Verbs each second.
    pub verbs_per_s: f64,
    /// Completions that were first reported as in doubt.
    pub in_doubt_seen: u64,
    /// Median round trip, in nanoseconds.
    pub rtt_p50_ns: u64,
    /// 99th percentile.
    pub rtt_p99_ns: u64,
    /// Longest time between two completions, in nanoseconds.
    pub longest_gap_ns: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Descriptions of the problems.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// The contents of the region at the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostReport {
    /// The counter.
    pub counter: u64,
    /// The two counts behind the lock.
    pub guarded: [u64; 2],
    /// Sum of all accounts.
    pub accounts_sum: u64,
    /// The required sum.
    pub accounts_sum_expected: u64,
}

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct Verbs {
    /// Clients on node a: over the links.
    pub remote: Vec<ClientReport>,
    /// Clients on node b: beside the region.
    pub local: Vec<ClientReport>,
    /// The region.
    pub host: HostReport,
    /// The cut.
    pub cut: Cut,
    /// The telemetry right before the cut; `None` if there was no cut.
    #[serde(skip)]
    pub before_cut: Option<Figures>,
    /// From the first client's start to the last one's end, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Verbs {
    /// Every client.
    pub fn clients(&self) -> impl Iterator<Item = &ClientReport> {
        self.remote.iter().chain(&self.local)
    }
}

#[derive(Debug, Deserialize)]
struct Progress {
    fetch_adds: u64,
    transfers: u64,
    locks: u64,
    verbs: u64,
}

#[derive(Debug, Deserialize)]
struct Nothing {}

type BankClient = Application<Progress, ClientReport>;

/// Runs the bank.
///
/// # Errors
/// When a client breaks off or stands still, a node ends, or the link does not come up again.
pub fn run(
    nodes: &mut Nodes,
    work: Work,
    pipe_drops: &mut PipeDrops,
    narrator: &Narrator,
    interrupt: &Interrupt,
) -> Result<Verbs> {
    let step = narrator.step("verbs")?;
    let mut host: Application<Nothing, HostReport> = Application::start(
        nodes
            .b
            .launch_application("covalent-bank", Some("host"), "bank-host")?,
    )?;
    host.wait_ready(interrupt)?;
    let mut cut = Cutter::new(nodes, work.verbs() / 2)?;
    let began = Instant::now();
    let mut clients = Clients {
        remote: start_clients(&nodes.a, nodes.b.name(), work, 0)?,
        local: start_clients(&nodes.b, "local", work, CLIENTS_PER_NODE)?,
    };
    let mut watch = Watch {
        done: 0,
        since: Instant::now(),
    };
    while !clients.have_ended()? {
        let seen = clients.poll()?;
        watch.see(seen.done)?;
        cut.poll(nodes)?;
        pipe_drops.poll(nodes)?;
        step.at(
            seen.done as f64 / work.total().max(1) as f64,
            &format!("{} verbs{}", grouped(seen.verbs), cut.words()),
        )?;
        nodes.expect_running()?;
        host.expect_running()?;
        interrupt.sleep(RECHECK_INTERVAL)?;
    }
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (cut, before_cut) = cut.finish(nodes, interrupt)?;
    let remote: Vec<ClientReport> = clients
        .remote
        .into_iter()
        .map(Application::report)
        .collect::<Result<_>>()?;
    let local: Vec<ClientReport> = clients
        .local
        .into_iter()
        .map(Application::report)
        .collect::<Result<_>>()?;
    let verbs = Verbs {
        remote,
        local,
        host: host.stop()?,
        cut,
        before_cut,
        elapsed_ns,
    };
    let gap = verbs
        .remote
        .iter()
        .map(|client| client.longest_gap_ns)
        .max()
        .unwrap_or(0);
    step.done(&format!(
        "{} verbs of four clients; link {} was cut with {} exchanges open, longest gap {}",
        grouped(verbs.clients().map(|client| client.verbs).sum()),
        verbs.cut.port,
        verbs.cut.open_transactions,
        duration(gap),
    ))?;
    Ok(verbs)
}

fn start_clients(node: &Node, target: &str, work: Work, first: u64) -> Result<Vec<BankClient>> {
    (first..first + CLIENTS_PER_NODE)
        .map(|index| {
            let share = work.share(index, 2 * CLIENTS_PER_NODE);
            let launch = node
                .launch_application(
                    "covalent-bank",
                    Some("client"),
                    &format!("bank-client-{index}"),
                )?
                .option("--node", target)
                .option("--fetch-adds", share.fetch_adds.to_string())
                .option("--transfers", share.transfers.to_string())
                .option("--locks", share.locks.to_string())
                .option("--seed", (index + 1).to_string());
            Application::start(launch)
        })
        .collect()
}

/// The four clients at work.
struct Clients {
    remote: Vec<BankClient>,
    local: Vec<BankClient>,
}

/// How far they are.
struct Seen {
    verbs: u64,
    /// Jobs done, of all kinds.
    done: u64,
}

impl Clients {
    /// Returns whether all clients have exited with success. A failed client is an error at once:
    /// it may have left the lock taken, and the others would wait forever.
    fn have_ended(&mut self) -> Result<bool> {
        let mut ended = true;
        for client in self.remote.iter_mut().chain(&mut self.local) {
            match client.exit()? {
                None => ended = false,
                Some(status) if status.success() => {}
                Some(status) => {
                    let problems = client
                        .written_report()?
                        .map(|report| report.problems.join("; "))
                        .unwrap_or_default();
                    let failure = client.failure(status);
                    return Err(if problems.is_empty() {
                        failure
                    } else {
                        failure.context(problems)
                    });
                }
            }
        }
        Ok(ended)
    }

    fn poll(&mut self) -> Result<Seen> {
        let (mut verbs, mut done) = (0, 0);
        for client in self.remote.iter_mut().chain(&mut self.local) {
            if let Some(progress) = client.progress()? {
                verbs += progress.verbs;
                done += progress.fetch_adds + progress.transfers + progress.locks;
            }
        }
        Ok(Seen { verbs, done })
    }
}

/// Sees to it that a standstill is an error and not a long wait.
struct Watch {
    done: u64,
    since: Instant,
}

impl Watch {
    fn see(&mut self, done: u64) -> Result<()> {
        if done != self.done {
            *self = Self {
                done,
                since: Instant::now(),
            };
        }
        if self.since.elapsed() > stretched(STALL_MAX) {
            bail!(
                "no job was done for {:?}: the clients stand still after {done} of them",
                stretched(STALL_MAX)
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(directory: &std::path::Path, script: &str) -> BankClient {
        let launch = crate::process::Launch::new("bank-client", "/bin/sh".into())
            .log_to(directory.join("client.log"))
            .arg("-c")
            .arg(script);
        Application::start(launch).expect("the shell starts")
    }

    #[test]
    fn a_client_that_died_is_an_error_while_the_others_still_run() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let report = r#"{"type":"report","ok":false,"delta_sum":0,"squares":0,"cubes":0,"fetch_adds":0,"transfers":0,"locks":0,"lookup_verbs":3,"verbs":0,"verbs_per_s":0,"in_doubt_seen":0,"rtt_p50_ns":0,"rtt_p99_ns":0,"longest_gap_ns":0,"elapsed_ns":0,"problems":["it went wrong"]}"#;
        for (script, wanted) in [
            ("kill -9 $$".to_owned(), "signal: 9"),
            (format!("echo '{report}'; exit 1"), "it went wrong"),
        ] {
            let mut clients = Clients {
                remote: vec![shell(directory.path(), "exec sleep 1000")],
                local: vec![shell(directory.path(), &script)],
            };
            let deadline = Instant::now() + Duration::from_secs(10);
            let error = loop {
                assert!(Instant::now() < deadline, "it is never noticed");
                match clients.have_ended() {
                    Ok(ended) => assert!(!ended),
                    Err(error) => break format!("{error:#}"),
                }
            };
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn verbs_without_jobs_are_a_standstill() {
        let mut watch = Watch {
            done: 7,
            since: Instant::now() - STALL_MAX,
        };
        watch.see(8).expect("a job was done");
        watch.since -= STALL_MAX;
        assert!(watch.see(8).is_err());
    }

    #[test]
    fn the_shares_are_the_whole() {
        let work = Work {
            fetch_adds: 1_000_003,
            transfers: 7,
            locks: 4,
        };
        let shares: Vec<Work> = (0..4).map(|index| work.share(index, 4)).collect();
        assert_eq!(
            shares.iter().map(|share| share.fetch_adds).sum::<u64>(),
            work.fetch_adds
        );
        assert_eq!(
            shares.iter().map(|share| share.total()).sum::<u64>(),
            work.total()
        );
        assert!(shares.iter().all(|share| share.locks == 1));
    }
}
