//! What control and the dataplane agree on: adopted when control starts, offered when the file is reloaded, reinstated when the dataplane died, offered
//! anew when ports are to be opened again.
//!
//! One task owns a connection of its own to the daemon, for an exchange may take longer than a scrape waits. What it does is decided by
//! [`covalent_protocol::agreement::Offerer`].
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

use covalent_api::{agreement::HeldBrief, config::KeyChange, control::RuleBrief, hex64::Hex64};
use covalent_protocol::agreement::Held;
use tokio::sync::{mpsc, oneshot, watch};

use self::keeper::Keeper;
pub use self::{
    own::{Listeners, Own},
    rules::RuleEdit,
};
use crate::{metrics::OwnMetrics, neighbours::Neighbours};

/// Reloads that wait for their turn.
const WISHES_MAX: usize = 8;

/// How a reload, or a change of the rules, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloaded {
    /// What was wanted is in force.
    Taken {
        /// The epoch that control and every lane hold.
        epoch: u64,
        /// Keys whose value is another one.
        changed: Vec<KeyChange>,
        /// Who is affected and may not know, for people.
        beware: Vec<String>,
    },
    /// Nothing was changed.
    Refused {
        /// Everything that stands in the way, with file, line, column and key where it has them.
        problems: Vec<String>,
    },
}

/// What came of the wish to have ports opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reopened {
    /// They were.
    Taken {
        /// The epoch that control and every lane hold.
        epoch: u64,
    },
    /// They could not be.
    Refused {
        /// Everything that stands in the way.
        problems: Vec<String>,
    },
    /// Nobody was asked, or something else came in between.
    NotNow,
}

/// Somebody who waits for something.
#[derive(Debug)]
enum Wish {
    Reload(oneshot::Sender<Reloaded>),
    Steer(RuleEdit, oneshot::Sender<Reloaded>),
    Rules(oneshot::Sender<Option<Rules>>),
    Reopen(Reopening),
    /// Something appeared for which what could not be reinstated may have waited. Told whether the dataplane was there.
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
    /// What was in force when they were found to be not well.
    under: Held,
    /// Their names.
    ports: Vec<String>,
    who: oneshot::Sender<Reopened>,
}

/// What is agreed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreed {
    /// What control holds; `None`: it has had no dataplane yet.
    pub held: Option<Held>,
    /// The dataplane holds it too, and nothing is under way.
    pub is_shared: bool,
}

impl Agreed {
    /// As it is told on the socket.
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
    /// How many reloads came to an end.
    reloads: watch::Receiver<u64>,
}

/// Where the task tells what becomes of agreements.
struct Told {
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
        neighbours: watch::Receiver<Neighbours>,
        metrics: OwnMetrics,
    ) -> Self {
        let (wishes, wished) = mpsc::channel(WISHES_MAX);
        let (table, agreed) = watch::channel(Agreed::default());
        let (ended, reloads) = watch::channel(0);
        let told = Told { table, ended };
        tokio::spawn(Keeper::new(between, own, wished, told, metrics).run(neighbours));
        Self {
            wishes,
            agreed,
            reloads,
        }
    }

    /// Has the file read again and put in force, whole or not at all. Waits for the daemon's verdict.
    pub async fn reload(&self) -> Reloaded {
        self.put_in_force(Wish::Reload).await
    }

    /// Has the steering rules in force changed, all or none. Waits for the daemon's verdict.
    pub async fn steer(&self, edit: RuleEdit) -> Reloaded {
        self.put_in_force(|who| Wish::Steer(edit, who)).await
    }

    async fn put_in_force(&self, wish: impl FnOnce(oneshot::Sender<Reloaded>) -> Wish) -> Reloaded {
        let ending = || Reloaded::Refused {
            problems: vec!["control is ending".to_owned()],
        };
        let (who, told) = oneshot::channel();
        if self.wishes.send(wish(who)).await.is_err() {
            return ending();
        }
        told.await.unwrap_or_else(|_| ending())
    }

    /// The steering rules in force; `None`: there is no daemon to have any.
    pub async fn rules(&self) -> Option<Rules> {
        let (who, told) = oneshot::channel();
        self.wishes.send(Wish::Rules(who)).await.ok()?;
        told.await.ok().flatten()
    }

    /// Has ports closed and opened again, all of them or none, if what is in force is still what it was when they were found to be not well. Waits for the
    /// daemon's verdict.
    pub async fn reopen(&self, under: Held, ports: Vec<String>) -> Reopened {
        let (who, told) = oneshot::channel();
        let wish = Reopening { under, ports, who };
        if self.wishes.send(Wish::Reopen(wish)).await.is_err() {
            return Reopened::NotNow;
        }
        told.await.unwrap_or(Reopened::NotNow)
    }

    /// Something appeared: what could not be reinstated is offered again. Returns whether there was anybody to offer it to.
    pub async fn appeared(&self) -> bool {
        let (who, told) = oneshot::channel();
        if self.wishes.send(Wish::Appeared(who)).await.is_err() {
            return false;
        }
        told.await.unwrap_or(false)
    }

    /// What is agreed on, and its changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Agreed> {
        self.agreed.clone()
    }

    /// How many reloads somebody asked for, whatever came of them.
    #[must_use]
    pub fn reloads(&self) -> watch::Receiver<u64> {
        self.reloads.clone()
    }

    /// What is agreed on now.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        *self.agreed.borrow()
    }
}

/// What was told on a socket.
fn held(brief: &HeldBrief) -> Held {
    Held {
        incarnation: brief.incarnation.0,
        epoch: brief.epoch,
        digest: brief.digest.0,
    }
}

/// As it is told on a socket.
fn brief(held: &Held) -> HeldBrief {
    HeldBrief {
        incarnation: Hex64(held.incarnation),
        epoch: held.epoch,
        digest: Hex64(held.digest),
    }
}
