//! Reopens ports that no longer match their interfaces.
//!
//! It compares the daemon's report of how each port was opened with the kernel's report of its
//! interface. Notifications only trigger the comparison: of interfaces, of ports that lost their
//! devices, of another configuration in force, of a daemon that appeared. The lane receives carrier
//! changes itself. An exchange reopens a port, like a reload ([`agreement`](crate::agreement)), and
//! only one exchange is in flight at a time.

mod decision;

use std::{collections::BTreeSet, future, sync::Arc};

use covalent_api::{control::InterfaceStatus, status::NodeStatus};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Duration, Instant, sleep_until, timeout},
};
use tracing::{error, info, warn};

pub use self::decision::{ATTEMPTS_MAX, Ailment, Facts, Healing, Next};
use crate::{
    agreement::{Agreed, Agreement, Reopened},
    daemon::Daemon,
    interfaces::{Interfaces, Requester},
    metrics::OwnMetrics,
};

/// Time limit for the kernel to list all interfaces.
const PATIENCE: Duration = Duration::from_secs(5);

/// Delay before a failed check is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Other tasks that this task needs.
pub struct Around {
    /// Reports how ports were opened.
    pub daemon: Daemon,
    /// Has ports opened again.
    pub agreement: Agreement,
    /// The known state of the interfaces.
    pub interfaces: watch::Receiver<Interfaces>,
    /// Has them looked at once more.
    pub recheck: mpsc::Sender<Requester>,
}

struct Healer {
    around: Around,
    own: OwnMetrics,
    healing: Healing,
    /// The state at the last check.
    known: Known,
    /// Interfaces that are set up, by port and index.
    up: BTreeSet<(String, u32)>,
    /// An interface has appeared that was not reported to the agreement yet.
    appeared: bool,
    /// The last complaint about a port that cannot be opened.
    complaint: Option<(String, String)>,
}

/// The state with which notifications are compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    facts: Vec<(String, Facts, Vec<u32>)>,
    agreed: Agreed,
    losses: u64,
    reloads: u64,
}

/// The others are ending.
struct Ending;

/// Reopens ports as long as the other tasks run.
pub async fn heal(around: Around, own: OwnMetrics) {
    let mut healer = Healer {
        around,
        own,
        healing: Healing::default(),
        known: Known::default(),
        up: BTreeSet::new(),
        appeared: false,
        complaint: None,
    };
    let mut due = Some(Instant::now());
    while healer.await_news(due).await.is_ok() {
        due = healer.go_on().await;
    }
}

impl Healer {
    /// Until something is not as it was when it was looked at last, or this moment has come.
    async fn await_news(&mut self, due: Option<Instant>) -> Result<(), Ending> {
        let known = &self.known;
        let mut interfaces = self.around.interfaces.clone();
        let mut agreed = self.around.agreement.watch();
        let mut reloads = self.around.agreement.reloads();
        let mut neighbors = self.around.daemon.neighbors();
        let at = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => future::pending().await,
            }
        };
        let ended = tokio::select! {
            () = at => false,
            news = interfaces.wait_for(|table| facts(table) != known.facts) => news.is_err(),
            news = agreed.wait_for(|agreed| *agreed != known.agreed) => news.is_err(),
            news = reloads.wait_for(|reloads| *reloads != known.reloads) => news.is_err(),
            news = neighbors.wait_for(|table| table.port_losses() != known.losses) => news.is_err(),
        };
        if ended { Err(Ending) } else { Ok(()) }
    }

    /// Checks and acts until nothing is left to do. Returns when to check again without a
    /// notification.
    async fn go_on(&mut self) -> Option<Instant> {
        loop {
            let Some(status) = self.check().await else {
                return self
                    .known
                    .agreed
                    .is_shared
                    .then(|| Instant::now() + RETRY_INTERVAL);
            };
            if self.appeared {
                // A configuration that could not be reinstated may work now.
                self.appeared = !self.around.agreement.appeared().await;
                if self.around.agreement.agreed() != self.known.agreed {
                    continue;
                }
            }
            let table = self.around.interfaces.borrow().clone();
            let next = self
                .healing
                .next(&status.ports, table.statuses(), Instant::now());
            self.own.unhealed_ports(self.healing.given_up());
            match next {
                Next::Reopen { port, why } => self.reopen(port, &why).await,
                Next::GiveUp { port, why } => self.give_up(&port, &why),
                Next::Wait(due) => {
                    let retry = self.appeared.then(|| Instant::now() + RETRY_INTERVAL);
                    return [due, retry].into_iter().flatten().min();
                }
            }
        }
    }

    /// Reads all state. The configuration in force must stay the same during the read. `None` if
    /// there is nothing to compare.
    async fn check(&mut self) -> Option<Arc<NodeStatus>> {
        loop {
            let agreement = &self.around.agreement;
            let reloads = *agreement.reloads().borrow();
            if reloads != self.known.reloads {
                self.healing.forget();
                self.complaint = None;
            }
            self.known.reloads = reloads;
            self.known.agreed = agreement.agreed();
            self.known.losses = self.around.daemon.neighbors().borrow().port_losses();
            let status = if self.known.agreed.is_shared {
                self.around.daemon.status().await.ok()
            } else {
                None
            };
            // After that, for a port that was opened in between is on a later look only.
            let rechecked = match &status {
                Some(_) => self.recheck_interfaces().await,
                None => false,
            };
            self.record_interfaces();
            if self.around.agreement.agreed() == self.known.agreed {
                return status.filter(|_| rechecked);
            }
        }
    }

    /// The kernel sends no notifications about programs, so query it.
    async fn recheck_interfaces(&self) -> bool {
        let check = async {
            let (requester, rechecked) = oneshot::channel();
            self.around.recheck.send(requester).await.ok()?;
            rechecked.await.ok()
        };
        matches!(timeout(PATIENCE, check).await, Ok(Some(())))
    }

    fn record_interfaces(&mut self) {
        let table = self.around.interfaces.borrow();
        self.known.facts = facts(&table);
        let is_up = |entry: &InterfaceStatus| {
            let index = entry.index.filter(|_| entry.admin_up)?;
            Some((entry.port.clone(), index))
        };
        let up: BTreeSet<_> = table.statuses().iter().filter_map(is_up).collect();
        self.appeared |= !up.is_subset(&self.up);
        self.up = up;
    }

    async fn reopen(&mut self, port: String, why: &Ailment) {
        let Some(held) = self.known.agreed.held else {
            return;
        };
        match self.around.agreement.reopen(held, vec![port.clone()]).await {
            Reopened::Taken { epoch } => {
                info!(port, revision = epoch, "the port was reopened: {why}");
                self.complaint = None;
            }
            Reopened::Refused { problems } => {
                let problem = problems.join("; ");
                let complaint = (port, problem);
                if self.complaint.as_ref() != Some(&complaint) {
                    let (port, problem) = &complaint;
                    warn!(port, "the port cannot be reopened ({why}): {problem}");
                }
                self.complaint = Some(complaint);
            }
            // Something else is in force, or is about to be.
            Reopened::NotNow => self.healing.take_back(&port, Instant::now()),
        }
    }

    fn give_up(&self, port: &str, why: &Ailment) {
        let last_complaint = self.complaint.as_ref().filter(|(of, _)| of == port);
        let problem =
            last_complaint.map_or("the problem returns each time", |(_, problem)| problem);
        error!(
            port,
            "control stops reopening the port after {ATTEMPTS_MAX} attempts ({why}): {problem}; \
             cure: fix that, then run `covalent reload`"
        );
    }
}

/// The facts that decide about opening, and the programs.
fn facts(table: &Interfaces) -> Vec<(String, Facts, Vec<u32>)> {
    let statuses = table.statuses().iter();
    let facts = statuses.map(|entry| {
        let programs = entry.programs.iter().map(|program| program.id);
        (entry.port.clone(), Facts::of(entry), programs.collect())
    });
    facts.collect()
}
