//! Ports that are not what their interfaces are any more are opened again.
//!
//! What the daemon says that each port was opened with is compared with what the kernel says that its interface is. News only tell when to look: of the
//! interfaces, of ports that lost their devices, of another configuration in force, of a daemon that is there. The lane hears of carriers itself; a
//! port is opened again by an exchange, as a reload opens one ([`crate::agreement`]), and one exchange is under way at a time.

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
    interfaces::{Asker, Interfaces},
    metrics::OwnMetrics,
};

/// How long the kernel may take to tell of all interfaces.
const PATIENCE: Duration = Duration::from_secs(5);

/// When what could not be looked at is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// What the task needs of the others.
pub struct Around {
    /// Tells what ports were opened with.
    pub daemon: Daemon,
    /// Has ports opened again.
    pub agreement: Agreement,
    /// What is known of the interfaces.
    pub interfaces: watch::Receiver<Interfaces>,
    /// Has them looked at once more.
    pub look_again: mpsc::Sender<Asker>,
}

struct Healer {
    around: Around,
    own: OwnMetrics,
    healing: Healing,
    /// What was there when it was looked at last.
    known: Known,
    /// Interfaces that are set up, by port and index.
    up: BTreeSet<(String, u32)>,
    /// One has appeared since control was told.
    appeared: bool,
    /// What was told last of a port that cannot be opened.
    complaint: Option<(String, String)>,
}

/// What news are compared with.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    facts: Vec<(String, Facts, Vec<u32>)>,
    agreed: Agreed,
    losses: u64,
    reloads: u64,
}

/// The others are ending.
struct Ending;

/// Opens ports again for ever, as long as the others live.
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
        let mut neighbours = self.around.daemon.neighbours();
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
            news = neighbours.wait_for(|table| table.port_losses() != known.losses) => news.is_err(),
        };
        if ended { Err(Ending) } else { Ok(()) }
    }

    /// Looks, and does what is to be done, until there is nothing. Returns when to look again if there is no news.
    async fn go_on(&mut self) -> Option<Instant> {
        loop {
            let Some(status) = self.look().await else {
                return self.known.agreed.is_shared.then(|| Instant::now() + AGAIN);
            };
            if self.appeared {
                // What could not be reinstated may be now.
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
                    let again = self.appeared.then(|| Instant::now() + AGAIN);
                    return [due, again].into_iter().flatten().min();
                }
            }
        }
    }

    /// Looks at everything. What is compared is what was in force all the while: `None` if there is nothing to compare.
    async fn look(&mut self) -> Option<Arc<NodeStatus>> {
        loop {
            let agreement = &self.around.agreement;
            let reloads = *agreement.reloads().borrow();
            if reloads != self.known.reloads {
                self.healing.forget();
                self.complaint = None;
            }
            self.known.reloads = reloads;
            self.known.agreed = agreement.agreed();
            self.known.losses = self.around.daemon.neighbours().borrow().port_losses();
            let status = if self.known.agreed.is_shared {
                self.around.daemon.status().await.ok()
            } else {
                None
            };
            // After that, for a port that was opened in between is on a later look only.
            let looked = match &status {
                Some(_) => self.look_at_interfaces().await,
                None => false,
            };
            self.note_interfaces();
            if self.around.agreement.agreed() == self.known.agreed {
                return status.filter(|_| looked);
            }
        }
    }

    /// The kernel tells nobody of programs, so it is asked.
    async fn look_at_interfaces(&self) -> bool {
        let look = async {
            let (asker, looked) = oneshot::channel();
            self.around.look_again.send(asker).await.ok()?;
            looked.await.ok()
        };
        matches!(timeout(PATIENCE, look).await, Ok(Some(())))
    }

    fn note_interfaces(&mut self) {
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
                info!(port, epoch, "the port was opened again: {why}");
                self.complaint = None;
            }
            Reopened::Refused { problems } => {
                let problem = problems.join("; ");
                let complaint = (port, problem);
                if self.complaint.as_ref() != Some(&complaint) {
                    let (port, problem) = &complaint;
                    warn!(port, "the port cannot be opened again ({why}): {problem}");
                }
                self.complaint = Some(complaint);
            }
            // Something else is in force, or is about to be.
            Reopened::NotNow => self.healing.take_back(&port, Instant::now()),
        }
    }

    fn give_up(&self, port: &str, why: &Ailment) {
        let told = self.complaint.as_ref().filter(|(of, _)| of == port);
        let problem = told.map_or("it does not stay so", |(_, problem)| problem);
        error!(
            port,
            "the port was tried to be opened again {ATTEMPTS_MAX} times ({why}), and is not any more: {problem}; cure: mend that, and `covalent reload`"
        );
    }
}

/// What opening depends on, and the programs.
fn facts(table: &Interfaces) -> Vec<(String, Facts, Vec<u32>)> {
    let statuses = table.statuses().iter();
    let facts = statuses.map(|entry| {
        let programs = entry.programs.iter().map(|program| program.id);
        (entry.port.clone(), Facts::of(entry), programs.collect())
    });
    facts.collect()
}
