//! Cutting one link while work is open on it, and restoring it.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use covalent_api::event::EventKind;
use serde::Serialize;

use super::{
    nodes::{CUT, Nodes},
    patience::stretched,
    telemetry::Figures,
};
use crate::{
    client::{Client, Events},
    interrupt::Interrupt,
};

/// Of the verbs that go over the links, how many are done when one is cut.
const CUT_AT: f64 = 0.2;

/// A cut link is restored early at this fraction of work, so that the remaining verbs use both
/// links again.
const RESTORE_AT: f64 = 0.75;

/// How long the link stays cut.
const CUT_FOR: Duration = Duration::from_secs(1);

/// How long the link may take to be up again.
const RESTORE_PATIENCE: Duration = Duration::from_secs(10);

const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The result of the cut.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cut {
    /// The port of node a whose link was cut.
    pub port: String,
    /// Times that it was cut: a cut that met no open work is repeated.
    pub cuts: u32,
    /// Exchanges that node a had open on it at the last cut.
    pub open_transactions: u32,
    /// Exchanges that node a had open at any failure of a link since the first cut. The outcome of
    /// each had to be resolved.
    pub unresolved_transactions: u64,
    /// The failure reason that node a reported.
    pub reason: String,
    /// The epoch under which the link came up again.
    pub restored_epoch: Option<u32>,
    /// Node a has noticed the last cut.
    #[serde(skip)]
    pub noticed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Whole,
    Cut { since: Instant },
    Restored,
    Done,
}

/// Does it, a look at a time.
pub struct Cutter {
    daemon: Client,
    events: Events,
    /// Verbs of node a that were complete before, and that are to be.
    verbs: (u64, u64),
    phase: Phase,
    cut: Cut,
    before: Option<Figures>,
}

impl Cutter {
    /// A cutter for a time in which node a completes about `verbs` verbs.
    ///
    /// # Errors
    /// When its daemon does not answer.
    pub fn new(nodes: &Nodes, verbs: u64) -> Result<Self> {
        let mut daemon = nodes.a.client()?;
        let before = daemon.status()?.verbs.completed;
        Ok(Self {
            daemon,
            events: nodes.a.client()?.subscribe()?,
            verbs: (before, before + verbs.max(1)),
            phase: Phase::Whole,
            cut: Cut {
                port: CUT.to_owned(),
                ..Cut::default()
            },
            before: None,
        })
    }

    /// Polls once: cuts or restores the link when it is due.
    ///
    /// # Errors
    /// Fails if the link can be neither cut nor restored, or if the daemon is gone.
    pub fn poll(&mut self, nodes: &Nodes) -> Result<()> {
        self.receive_events()?;
        match self.phase {
            Phase::Whole => {
                let done = self.done()?;
                if (CUT_AT..RESTORE_AT).contains(&done) {
                    if self.before.is_none() {
                        self.before = Some(Figures::fetch(nodes)?);
                    }
                    self.cut.noticed = false;
                    nodes.set_cut(true)?;
                    self.cut.cuts += 1;
                    self.phase = Phase::Cut {
                        since: Instant::now(),
                    };
                }
            }
            Phase::Cut { since } => {
                if self.cut.met_nothing()
                    || since.elapsed() >= CUT_FOR
                    || self.done()? >= RESTORE_AT
                {
                    nodes.set_cut(false)?;
                    self.phase = Phase::Restored;
                }
            }
            // A cut that met no open work has shown nothing: once more.
            Phase::Restored if self.cut.restored_epoch.is_some() => {
                self.phase = if self.cut.open_transactions > 0 {
                    Phase::Done
                } else {
                    Phase::Whole
                };
            }
            Phase::Restored | Phase::Done => {}
        }
        Ok(())
    }

    /// The part of the verbs that is done, 0 to 1.
    fn done(&mut self) -> Result<f64> {
        let (before, after) = self.verbs;
        let completed = self.daemon.status()?.verbs.completed;
        Ok(completed.saturating_sub(before) as f64 / (after - before) as f64)
    }

    /// Restores the link if it is still cut, and waits until it is up. Returns the result and the
    /// telemetry right before the first cut.
    ///
    /// # Errors
    /// Fails if the link does not come up.
    pub fn finish(
        mut self,
        nodes: &Nodes,
        interrupt: &Interrupt,
    ) -> Result<(Cut, Option<Figures>)> {
        let deadline = Instant::now() + stretched(RESTORE_PATIENCE);
        if matches!(self.phase, Phase::Cut { .. }) {
            nodes.set_cut(false)?;
        }
        while self.cut.cuts > 0 && self.cut.restored_epoch.is_none() {
            if Instant::now() >= deadline {
                bail!(
                    "link {} did not come up again within {:?} after it was restored",
                    self.cut.port,
                    stretched(RESTORE_PATIENCE)
                );
            }
            interrupt.sleep(RECHECK_INTERVAL)?;
            self.receive_events()?;
        }
        Ok((self.cut, self.before))
    }

    /// Returns the suffix for the progress text.
    pub fn words(&self) -> &'static str {
        match self.phase {
            Phase::Whole => "",
            Phase::Cut { .. } => "; one link is cut",
            Phase::Restored | Phase::Done => "; the link is restored",
        }
    }

    fn receive_events(&mut self) -> Result<()> {
        while let Some(event) = self.events.next(Duration::ZERO)? {
            self.cut.take(event.kind);
        }
        Ok(())
    }
}

impl Cut {
    /// Returns whether the last cut was noticed and met no open work. Such a cut shows nothing, so
    /// there is nothing to wait for.
    fn met_nothing(&self) -> bool {
        self.noticed && self.open_transactions == 0
    }

    fn take(&mut self, event: EventKind) {
        if let EventKind::LinkDown {
            open_transactions, ..
        } = &event
            && self.cuts > 0
        {
            self.unresolved_transactions += u64::from(*open_transactions);
        }
        match event {
            EventKind::LinkDown {
                port,
                reason,
                open_transactions,
            } if port == self.port && self.cuts > 0 => {
                self.noticed = true;
                self.reason = reason;
                self.open_transactions = open_transactions;
                self.restored_epoch = None;
            }
            EventKind::LinkUp { port, epoch, .. } if port == self.port && self.cuts > 0 => {
                self.restored_epoch = Some(epoch)
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use covalent_api::guid::Guid;

    use super::*;

    fn up(port: &str, epoch: u32) -> EventKind {
        let peer = Guid::new(1).expect("not zero");
        EventKind::LinkUp {
            port: port.into(),
            peer,
            peer_name: "b".into(),
            peer_port: 1,
            epoch,
        }
    }

    fn down(port: &str, open_transactions: u32) -> EventKind {
        EventKind::LinkDown {
            port: port.into(),
            reason: "carrier lost".into(),
            open_transactions,
        }
    }

    #[test]
    fn only_the_cut_links_events_after_the_cut_count() {
        let mut cut = Cut {
            port: "p1".into(),
            ..Cut::default()
        };
        cut.take(up("p1", 1));
        assert_eq!(cut.restored_epoch, None, "it was not cut yet");
        cut.cuts = 1;
        cut.take(down("p0", 9));
        assert!(!cut.met_nothing(), "it was not noticed yet");
        cut.take(down("p1", 17));
        cut.take(up("p0", 5));
        assert_eq!((cut.open_transactions, cut.restored_epoch), (17, None));
        assert!(!cut.met_nothing());
        cut.take(up("p1", 3));
        assert_eq!(cut.restored_epoch, Some(3));
        cut.take(down("p1", 0));
        assert_eq!(cut.restored_epoch, None, "it is down again");
        assert!(cut.met_nothing(), "so this cut is to be repeated");
        assert_eq!(cut.unresolved_transactions, 9 + 17, "of every link");
    }
}
