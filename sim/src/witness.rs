//! Shows everything that happens to every checker, and keeps the book, the regions and the trace.

use std::collections::HashSet;

use covalent_protocol::{ExchangeId, Outcome};
use serde::Serialize;

use crate::{
    book::{Book, Ended, Exchange, Execution},
    checkers::{self, Checker, Scene},
    fact::{Fact, Subject},
    journal::Journal,
    plan::Plan,
    records,
    region::{self, Region},
};

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Events before.
    pub step: u32,
    /// Topic of the entry.
    pub subject: Subject,
    /// Description of the event.
    pub text: String,
}

/// An invariant was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The checker that saw it.
    pub checker: &'static str,
    /// Description by the checker.
    pub what: String,
    /// Events before.
    pub step: u32,
}

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
    checkers: Vec<Box<dyn Checker>>,
    violation: Option<Violation>,
    trace: Option<Vec<Entry>>,
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
            checkers: checkers::all(plan),
            violation: None,
            trace: record.then(Vec::new),
        }
    }

    /// Returns the first broken invariant.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Returns the events, if they were recorded.
    #[must_use]
    pub fn into_trace(self) -> Vec<Entry> {
        self.trace.unwrap_or_default()
    }

    /// Shows a fact to the checkers, then enters it.
    pub fn see(&mut self, fact: Fact<'_>) {
        if let Some(trace) = &mut self.trace {
            trace.push(Entry {
                step: self.step,
                subject: fact.subject(),
                text: fact.to_string(),
            });
            if let Fact::Received { at, frame, .. } = &fact {
                let resolved = records::resolutions(frame).into_iter().map(|what| Entry {
                    step: self.step,
                    subject: Subject::Link,
                    text: format!("{at} {what}"),
                });
                trace.extend(resolved);
            }
        }
        let scene = Scene {
            book: &self.book,
            regions: &self.regions,
            cables: &self.cables,
            call: self.call,
            receiving: self.receiving,
        };
        // Keep the first violation: later ones come from a world that is already broken.
        for checker in &mut self.checkers {
            if let Err(what) = checker.see(&fact, &scene)
                && self.violation.is_none()
            {
                self.violation = Some(Violation {
                    checker: checker.name(),
                    what,
                    step: self.step,
                });
            }
        }
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
