//! The agreement between control and the dataplane on one configuration. Control adopts it at
//! start, offers it after a reload of the file, and reinstates it after the dataplane died. Control
//! offers it again when ports are to be reopened.
//!
//! One task owns a separate connection to the daemon, because an exchange may take longer than a
//! scrape waits. [`covalent_protocol::agreement::Proposer`] makes the decisions.
//!
//! | module | what |
//! |---|---|
//! | `draft` | the file as it is offered, and what is wrong with it |
//! | `talk` | the connection: questions, texts, offers |
//! | `keeper` | the task |
//! | `rules` | steering rules that are changed by hand |
//! | `own` | the keys that control itself puts in force |

mod draft;
mod keeper;
mod own;
mod rules;
mod talk;

use std::path::PathBuf;

use covalent_api::{agreement::HeldBrief, control::RuleBrief, hex64::Hex64};
use covalent_config::KeyChange;
use covalent_protocol::agreement::Held;
use tokio::sync::{mpsc, oneshot, watch};

use self::keeper::Keeper;
pub use self::{
    own::{Listeners, Own},
    rules::RuleEdit,
};
use crate::{metrics::OwnMetrics, neighbors::Neighbors};

/// Reloads that wait for their turn.
const WISHES_MAX: usize = 8;

/// How a reload, or a change of the rules, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// The wanted configuration is in force.
    Taken {
        /// The revision that control and every lane hold.
        epoch: u64,
        /// Keys whose value changed.
        changed: Vec<KeyChange>,
        /// Side effects that may be unexpected, human-readable.
        beware: Vec<String>,
    },
    /// Nothing was changed.
    Refused {
        /// All problems, with file, line, column and key if known.
        problems: Vec<String>,
    },
}

/// Outcome of a wish to reopen ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reopened {
    /// They were.
    Taken {
        /// The revision that control and every lane hold.
        epoch: u64,
    },
    /// They could not be.
    Refused {
        /// All problems.
        problems: Vec<String>,
    },
    /// No daemon received the offer, or another change came first.
    NotNow,
}

/// A pending wish and its requester.
#[derive(Debug)]
enum Wish {
    Reload(oneshot::Sender<Reloaded>),
    Steer(RuleEdit, oneshot::Sender<Reloaded>),
    Rules(oneshot::Sender<Option<Rules>>),
    Reopen(Reopening),
    /// A resource appeared that a failed reinstatement may need. The reply states whether the
    /// dataplane was present.
    Appeared(oneshot::Sender<bool>),
}

/// The steering rules in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Of which configuration.
    pub held: HeldBrief,
    /// All of them.
    pub rules: Vec<RuleBrief>,
}

/// Ports to be opened again.
#[derive(Debug)]
struct Reopening {
    /// The configuration in force when they were found to be outdated.
    under: Held,
    /// Their names.
    ports: Vec<String>,
    requester: oneshot::Sender<Reopened>,
}

/// The agreed configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The configuration that control holds. `None`: it has had no dataplane yet.
    pub held: Option<Held>,
    /// The dataplane holds it too, and no exchange is in flight.
    pub is_shared: bool,
}

impl Agreed {
    /// Its form on the socket.
    #[must_use]
    pub fn brief(&self) -> Option<HeldBrief> {
        self.held.map(|held| brief(&held))
    }
}

/// The agreement as the rest of the process sees it. Its task ends with the last clone.
#[derive(Clone)]
pub struct Agreement {
    wishes: mpsc::Sender<Wish>,
    agreed: watch::Receiver<Agreed>,
    /// Number of completed reloads.
    reloads: watch::Receiver<u64>,
}

/// Outputs of the task: the state of the agreement.
struct Report {
    table: watch::Sender<Agreed>,
    ended: watch::Sender<u64>,
}

/// Where the two sides of an agreement are.
#[derive(Debug, Clone)]
pub struct Between {
    /// The configuration file that a reload reads.
    pub file: PathBuf,
    /// The daemon's socket.
    pub socket: PathBuf,
}

impl Agreement {
    /// Starts the task. Must be called inside a tokio runtime.
    #[must_use]
    pub fn keep(
        between: Between,
        own: Own,
        neighbors: watch::Receiver<Neighbors>,
        metrics: OwnMetrics,
    ) -> Self {
        let (wishes, wished) = mpsc::channel(WISHES_MAX);
        let (table, agreed) = watch::channel(Agreed::default());
        let (ended, reloads) = watch::channel(0);
        let report = Report { table, ended };
        tokio::spawn(Keeper::new(between, own, wished, report, metrics).run(neighbors));
        Self {
            wishes,
            agreed,
            reloads,
        }
    }

    /// Rereads the file and puts it in force, completely or not at all. Waits for the daemon's
    /// verdict.
    pub async fn reload(&self) -> Reloaded {
        self.put_in_force(Wish::Reload).await
    }

    /// Has the steering rules in force changed, all or none. Waits for the daemon's verdict.
    pub async fn steer(&self, edit: RuleEdit) -> Reloaded {
        self.put_in_force(|requester| Wish::Steer(edit, requester))
            .await
    }

    async fn put_in_force(&self, wish: impl FnOnce(oneshot::Sender<Reloaded>) -> Wish) -> Reloaded {
        let ending = || Reloaded::Refused {
            problems: vec!["control is ending".to_owned()],
        };
        let (requester, report) = oneshot::channel();
        if self.wishes.send(wish(requester)).await.is_err() {
            return ending();
        }
        report.await.unwrap_or_else(|_| ending())
    }

    /// The steering rules in force; `None`: there is no daemon to have any.
    pub async fn rules(&self) -> Option<Rules> {
        let (requester, report) = oneshot::channel();
        self.wishes.send(Wish::Rules(requester)).await.ok()?;
        report.await.ok().flatten()
    }

    /// Closes and reopens ports, all of them or none, if the configuration in force is still
    /// `under`, under which they were found to be outdated. Waits for the daemon's verdict.
    pub async fn reopen(&self, under: Held, ports: Vec<String>) -> Reopened {
        let (requester, report) = oneshot::channel();
        let wish = Reopening {
            under,
            ports,
            requester,
        };
        if self.wishes.send(Wish::Reopen(wish)).await.is_err() {
            return Reopened::NotNow;
        }
        report.await.unwrap_or(Reopened::NotNow)
    }

    /// Reports that a resource appeared. Control then retries the offer of a configuration that
    /// could not be reinstated. Returns whether there was a daemon to offer it to.
    pub async fn appeared(&self) -> bool {
        let (requester, report) = oneshot::channel();
        if self.wishes.send(Wish::Appeared(requester)).await.is_err() {
            return false;
        }
        report.await.unwrap_or(false)
    }

    /// Watches the agreed configuration.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Agreed> {
        self.agreed.clone()
    }

    /// Watches the number of completed reloads, regardless of their outcome.
    #[must_use]
    pub fn reloads(&self) -> watch::Receiver<u64> {
        self.reloads.clone()
    }

    /// The agreed configuration now.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        *self.agreed.borrow()
    }
}

/// Converts from the form on a socket.
fn held(brief: &HeldBrief) -> Held {
    Held {
        incarnation: brief.incarnation.0,
        epoch: brief.epoch,
        digest: brief.digest.0,
    }
}

/// Converts to the form on a socket.
fn brief(held: &Held) -> HeldBrief {
    HeldBrief {
        incarnation: Hex64(held.incarnation),
        epoch: held.epoch,
        digest: Hex64(held.digest),
    }
}
