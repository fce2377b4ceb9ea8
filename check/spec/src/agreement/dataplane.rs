//! The daemon: the host thread, and the change of the lanes that it has in progress.
//!
//! The lanes are threads of the daemon. They commit together or not at all, which
//! `dataplane/src/server/reconfigure.rs` and its tests are about. So they are one register here.

use covalent_protocol::agreement::{Acceptor, Held, Proposal, Refusal, Verdict, acceptor::Waiting};

use super::{
    control::Down,
    mutant::Mutant,
    sight::Observation,
    world::{Breach, World},
};

/// A running daemon.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dataplane {
    /// The production machine.
    pub acceptor: Acceptor,
    /// The configuration that every lane holds.
    pub lanes: Held,
    /// The change in progress.
    pub job: Option<Job>,
}

/// A change of the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    /// The client that offered it.
    from: u64,
    proposal: Proposal,
    /// The configuration that the offer believed to be in force, before a mutant changed it.
    believed: Held,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// It may fail.
    Preparing,
    /// Every lane has prepared.
    Prepared,
    /// Every lane has committed, or rolled back. The host thread has not read it yet.
    Ended { taken: bool },
}

impl Dataplane {
    /// All lanes hold `held`.
    #[must_use]
    pub const fn new(held: Held) -> Self {
        Self {
            acceptor: Acceptor::new(held),
            lanes: held,
            job: None,
        }
    }

    /// Whether the change in progress may fail.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        self.job.is_some_and(|job| job.stage == Stage::Preparing)
    }
}

impl World {
    /// The host thread receives a query.
    pub(super) fn queried(&mut self, mutant: Mutant, from: u64) {
        let Some(dataplane) = &mut self.dataplane else {
            return;
        };
        let held = match dataplane.acceptor.queried(from) {
            None if mutant == Mutant::AnswersInTheMiddle => Some(dataplane.acceptor.held()),
            held => held,
        };
        if let Some(held) = held {
            self.send(from, Down::Report(held));
        }
    }

    /// The host thread receives an offer.
    pub(super) fn offered(&mut self, mutant: Mutant, from: u64, mut proposal: Proposal) {
        let Some(Dataplane { acceptor, job, .. }) = &mut self.dataplane else {
            return;
        };
        let believed = proposal.believes;
        if matches!(mutant, Mutant::NoPartner | Mutant::BelievesNothing) && !acceptor.is_open() {
            // Every client counts as a partner.
            acceptor.queried(from);
        }
        if mutant == Mutant::BelievesNothing {
            proposal.believes = acceptor.held();
            proposal.epoch = proposal.epoch.max(acceptor.held().epoch + 1);
        }
        match acceptor.offered(from, proposal) {
            Ok(()) => {
                *job = Some(Job {
                    from,
                    proposal,
                    believed,
                    stage: Stage::Preparing,
                });
            }
            Err(refusal) => {
                let held = acceptor.held();
                if refusal == Refusal::Stale {
                    self.observed(Observation::Stale);
                }
                self.send(from, Down::Reply(Verdict::Refused(refusal), held));
            }
        }
    }

    /// The host thread learns that a client is gone.
    pub(super) fn gone(&mut self, mutant: Mutant, from: u64) {
        let Some(Dataplane { acceptor, job, .. }) = &mut self.dataplane else {
            return;
        };
        acceptor.gone(from);
        if mutant == Mutant::GivesUp && job.is_some_and(|job| job.from == from) {
            *acceptor = Acceptor::new(acceptor.held());
        }
    }

    /// The change in progress goes on by one step, or fails.
    pub(super) fn job_goes_on(&mut self, mutant: Mutant, fails: bool) {
        let Some(dataplane) = &mut self.dataplane else {
            return;
        };
        let Some(job) = &mut dataplane.job else {
            return;
        };
        match job.stage {
            Stage::Preparing if fails => job.stage = Stage::Ended { taken: false },
            Stage::Preparing => {
                job.stage = Stage::Prepared;
                if mutant == Mutant::RepliesWhenPrepared {
                    let waiting = dataplane.acceptor.ended(true);
                    self.report_end(waiting, Verdict::Taken);
                }
            }
            Stage::Prepared => {
                let client = &self.connections[job.from as usize];
                if mutant == Mutant::WaitsForControl && !client.client_end {
                    return;
                }
                job.stage = Stage::Ended { taken: true };
                let was_stale = job.believed != dataplane.lanes;
                let held = job.proposal.held();
                dataplane.lanes = held;
                self.committed(held, was_stale);
            }
            Stage::Ended { taken } => {
                dataplane.job = None;
                let waiting = dataplane.acceptor.ended(taken);
                self.observed(if taken {
                    Observation::Taken
                } else {
                    Observation::Refused
                });
                let refused = Verdict::Refused(Refusal::Unready);
                self.report_end(waiting, if taken { Verdict::Taken } else { refused });
            }
        }
    }

    fn committed(&mut self, held: Held, was_stale: bool) {
        let key = (held.incarnation, held.epoch);
        if was_stale {
            self.breaches.record(Breach::Stale);
        }
        let first = *self.meanings.entry(key).or_insert(held.digest);
        let later = self.meanings.range((key.0, key.1 + 1)..(key.0 + 1, 0));
        if first != held.digest || later.count() > 0 {
            self.breaches.record(Breach::Meaning);
        }
    }

    fn report_end(&mut self, waiting: Waiting, verdict: Verdict) {
        let Some(held) = self.dataplane.as_ref().map(|it| it.acceptor.held()) else {
            return;
        };
        if let Some(to) = waiting.verdict {
            self.send(to, Down::Reply(verdict, held));
        }
        for to in waiting.reports {
            self.send(to, Down::Report(held));
        }
    }

    /// Puts a datagram into a connection, if the client's end is open.
    fn send(&mut self, to: u64, datagram: Down) {
        let connection = &mut self.connections[to as usize];
        if connection.client_end {
            connection.down.push_back(datagram);
        }
    }
}
