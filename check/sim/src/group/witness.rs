//! Shows everything that happens to every checker, and keeps the book and the trace.

use covalent_protocol::group::{BadEnvelope, End};

use super::{
    book::Book,
    checkers::{self, Groups, Scene},
    fact::{Fact, Subject},
    graph::Graph,
    report::Report,
    sent::Kind,
};
use crate::harness::{Entry, Invariant, Record, Violation, Watch, When};

/// Sees everything.
#[derive(Debug)]
pub struct Witness {
    /// Ground truth of the run.
    pub book: Book,
    /// Figures of the run.
    pub report: Report,
    /// Time, in units.
    pub now: u64,
    /// Time of the first notification that a member is lost or gone.
    pub evidence_at: Option<u64>,
    watch: Watch<Groups>,
    record: Record<Subject>,
}

impl Witness {
    /// Watches a world. `record` keeps a trace.
    #[must_use]
    pub fn new(record: bool) -> Self {
        Self::with(checkers::all(), record)
    }

    /// Watches applications of which only requests and notifications are known. Keeps no trace.
    #[must_use]
    pub fn of_applications() -> Self {
        Self::with(checkers::of_applications(), false)
    }

    fn with(checkers: Vec<Invariant<Groups>>, record: bool) -> Self {
        Self {
            book: Book::default(),
            report: Report::default(),
            now: 0,
            evidence_at: None,
            watch: Watch::new(checkers),
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
    pub fn see(&mut self, fact: &Fact<'_>, graph: &Graph) {
        let when = When::At(self.now);
        self.record
            .add(when, || [(fact.subject(), fact.to_string())]);
        let scene = Scene {
            book: &self.book,
            graph,
        };
        self.watch.see(fact, &scene, when);
        self.count(fact);
        self.book.enter(fact);
    }

    fn count(&mut self, fact: &Fact<'_>) {
        if let Fact::Path { up: false, .. } | Fact::Ended { how: End::Gone, .. } = fact {
            self.evidence_at.get_or_insert(self.now);
        }
        let report = &mut self.report;
        let count = match fact {
            Fact::Began { .. } => &mut report.stays,
            Fact::Requested { .. } => &mut report.asked,
            Fact::Full { .. } => &mut report.full,
            Fact::SentEnvelope { sent, .. } => {
                report.envelopes += 1;
                match sent.kind {
                    Kind::Change => &mut report.changes,
                    Kind::Flow if sent.batch_bytes > 0 => &mut report.batches,
                    _ => return,
                }
            }
            // Not counted: two groups of one name meet, or a non-member (from 255) sends after its
            // incarnation ended.
            Fact::Received {
                result: Err(error),
                sent,
                ..
            } if *error != BadEnvelope::OtherGroup
                && !(*error == BadEnvelope::Sender && sent.from == u8::MAX) =>
            {
                &mut report.bad
            }
            Fact::Path { up: false, .. } => &mut report.lost,
            Fact::State { last: true, .. } => &mut report.states,
            Fact::Outcome { .. } => &mut report.fates,
            Fact::Left { .. } => &mut report.left,
            Fact::View { by, view } => {
                if self.book.stays[*by].view.is_none() {
                    report.taken_in += 1;
                }
                report.members_most = report.members_most.max(view.members.len() as u64);
                &mut report.views
            }
            Fact::Delivered { .. } => &mut report.delivered,
            Fact::Stable { .. } => &mut report.stable,
            Fact::Stopped { .. } => &mut report.stopped,
            Fact::Died { .. } => &mut report.died,
            Fact::Halted { still: true, .. } => &mut report.halted,
            Fact::Cable { cut: true, .. } => &mut report.cut,
            Fact::Forged { .. } => &mut report.forged,
            _ => return,
        };
        *count += 1;
    }
}
