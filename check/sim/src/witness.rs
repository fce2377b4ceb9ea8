//! Shows everything that happens to every checker, and keeps the book, the regions and the trace.

use std::collections::HashSet;

use covalent_protocol::{ExchangeId, Outcome};

use crate::{
    book::{Book, Ended, Exchange, Execution},
    checkers::{self, Links, Scene},
    fact::{Fact, Subject},
    harness::{Entry, Record, Violation, Watch, When},
    journal::Journal,
    plan::Plan,
    records,
    region::{self, Region},
};

/// Sees everything.
#[derive(Debug)]
pub struct Witness {
    /// All exchanges.
    pub book: Book,
    /// Memory that the nodes' applications share.
    pub regions: Vec<Region>,
    /// The journals of those that have one.
    pub journals: Vec<Option<Journal>>,
    /// Requests that nodes keep though no initiator sent them.
    pub inventions: HashSet<(usize, ExchangeId)>,
    /// The nodes at the ends of each cable.
    pub cables: Vec<[usize; 2]>,
    /// Events so far.
    pub step: u32,
    /// Calls into nodes so far.
    pub call: u64,
    /// The call gives a node a frame.
    pub receiving: bool,
    /// Record the cable on which each exchange is sent.
    pub follow: bool,
    watch: Watch<Links>,
    record: Record<Subject>,
}

impl Witness {
    /// Watches a world with this plan. `record` keeps a trace.
    #[must_use]
    pub fn new(plan: &Plan, record: bool) -> Self {
        let forgetful: &[usize] = if plan.spares.is_empty() { &[] } else { &[0] };
        Self {
            book: Book::new(plan.nodes, forgetful),
            regions: (0..plan.nodes).map(|_| region::opened()).collect(),
            journals: plan
                .durable
                .iter()
                .map(|durable| durable.then(Journal::default))
                .collect(),
            inventions: HashSet::new(),
            cables: plan.cables.clone(),
            step: 0,
            call: 0,
            receiving: false,
            follow: false,
            watch: Watch::new(checkers::all(plan)),
            record: Record::new(record),
        }
    }

    /// Returns the first broken invariant.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.watch.violation()
    }

    /// Returns the events, if they were recorded.
    #[must_use]
    pub fn into_trace(self) -> Vec<Entry<Subject>> {
        self.record.into_trace()
    }

    /// Shows a fact to the checkers, then enters it.
    pub fn see(&mut self, fact: Fact<'_>) {
        let when = When::Step(self.step);
        self.record.add(when, || {
            let resolved = match &fact {
                Fact::Received { at, frame, .. } => records::resolutions(frame)
                    .into_iter()
                    .map(|what| (Subject::Link, format!("{at} {what}")))
                    .collect(),
                _ => Vec::new(),
            };
            std::iter::once((fact.subject(), fact.to_string())).chain(resolved)
        });
        let scene = Scene {
            book: &self.book,
            regions: &self.regions,
            cables: &self.cables,
            call: self.call,
            receiving: self.receiving,
        };
        self.watch.see(&fact, &scene, when);
        self.enter(fact);
    }

    fn enter(&mut self, fact: Fact<'_>) {
        match fact {
            Fact::Requested { exchange, .. } => self.book.enter(exchange),
            Fact::Sent { from, frame, .. } if self.follow => {
                for token in records::requested(frame) {
                    if let Some(exchange) = self.exchange_mut(Some(token)) {
                        exchange.sent_on = Some(from.cable);
                    }
                }
            }
            Fact::Executed {
                at, payload, reply, ..
            } => {
                let token = self.book.of_request(payload).map(|(token, _)| token);
                if let Some(exchange) = self.exchange_mut(token) {
                    exchange.executed.get_or_insert_with(|| Execution {
                        node_incarnation: at,
                        reply: reply.to_vec(),
                    });
                }
            }
            Fact::Reported { token, outcome, .. } => {
                if let Some(exchange) = self.exchange_mut(Some(token)) {
                    exchange.ended.get_or_insert(match outcome {
                        Outcome::Committed(_) => Ended::Committed,
                        Outcome::Refused(_) => Ended::Refused,
                        Outcome::PeerRestarted => Ended::Restarted,
                    });
                }
            }
            Fact::Doubted { token, name, .. } => {
                if let Some(exchange) = self.exchange_mut(Some(token)) {
                    exchange.name.get_or_insert(*name);
                }
            }
            Fact::Queried { by, token, .. } => self.book.open_query(by, token),
            Fact::QueryRefused { question } | Fact::Answered { question, .. } => {
                self.book.close(question);
            }
            Fact::Canceled { token } => {
                if let Some(exchange) = self.exchange_mut(Some(token)) {
                    exchange.canceled = true;
                }
            }
            Fact::Crashed { node, .. } => {
                self.inventions.retain(|(at, _)| *at != node);
                self.book.crash(node);
                self.regions[node] = region::opened();
                if let Some(journal) = &mut self.journals[node] {
                    *journal = Journal::default();
                }
            }
            Fact::Restarted { node, words, .. } => {
                self.inventions.retain(|(at, _)| *at != node);
                self.book.restart(node);
                self.regions[node] = region::restored(words);
            }
            Fact::Scrambled { node, .. } => self.book.scramble(node),
            Fact::Converged { .. } => self.book.settle(),
            Fact::Moved { cables } => self.cables = cables.to_vec(),
            _ => {}
        }
    }

    fn exchange_mut(&mut self, token: Option<u64>) -> Option<&mut Exchange> {
        self.book.exchange_mut(token?)
    }
}
