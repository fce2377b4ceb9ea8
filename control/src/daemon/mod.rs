//! The connection to `covalentd`: kept up, followed, asked.
//!
//! One task owns it. It connects (again, whenever the daemon has gone: the socket's hang-up tells, or the end of its process), introduces itself,
//! subscribes, fills the neighbour table from one status and keeps it from events. Others ask it for the status; those who
//! ask while an answer is under way share that answer, so that ten scrapers cost the daemon no more than one.

pub(crate) mod backoff;
mod comeback;
mod events;
mod greeting;
mod keeper;
mod witness;

use std::{path::PathBuf, sync::Arc};

use covalent_api::status::NodeStatus;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Duration, timeout},
};

use self::{events::Events, keeper::Keeper};
use crate::{live::Recent, metrics::OwnMetrics, neighbours::Neighbours};

/// How long a status is waited for. A stopped daemon must not hold up a scrape.
pub const STATUS_PATIENCE: Duration = Duration::from_secs(2);

/// Most askers that wait at a time.
const ASKERS_MAX: usize = 64;

/// Why there is no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the daemon is unreachable: {reason}")]
pub struct Unreachable {
    reason: Arc<str>,
}

impl Unreachable {
    fn new(reason: impl Into<Arc<str>>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

type Answer = Result<Arc<NodeStatus>, Unreachable>;
type Asker = oneshot::Sender<Answer>;

/// The daemon as the rest of the process sees it. Clones share one connection, which ends with the last of them.
#[derive(Clone)]
pub struct Daemon {
    askers: mpsc::Sender<Asker>,
    neighbours: watch::Receiver<Neighbours>,
}

/// Where the daemon is and who it should be.
#[derive(Debug, Clone)]
pub struct DaemonAt {
    /// Its socket.
    pub socket: PathBuf,
    /// The name of the node in the configuration.
    pub node: String,
}

impl Daemon {
    /// Starts the task. What happens is noted in `recent` too. Must be called inside a tokio runtime.
    #[must_use]
    pub fn keep(at: DaemonAt, own: OwnMetrics, recent: Recent) -> Self {
        let (askers, asked) = mpsc::channel(ASKERS_MAX);
        let (table, neighbours) = watch::channel(Neighbours::default());
        tokio::spawn(Keeper::new(at, asked, table, Events::new(own.clone(), recent), own).run());
        Self { askers, neighbours }
    }

    /// What the daemon says of itself now.
    ///
    /// # Errors
    /// [`Unreachable`] if there is no daemon, or no answer within [`STATUS_PATIENCE`].
    pub async fn status(&self) -> Answer {
        let (asker, answer) = oneshot::channel();
        let ask = async {
            // Either end of these channels is only closed when this process ends.
            let ending = |_| Unreachable::new("control is ending");
            self.askers
                .send(asker)
                .await
                .map_err(|_| Unreachable::new("control is ending"))?;
            answer.await.map_err(ending)?
        };
        let late = |_| {
            Unreachable::new(format!(
                "it has not answered for {} s",
                STATUS_PATIENCE.as_secs()
            ))
        };
        timeout(STATUS_PATIENCE, ask).await.map_err(late)?
    }

    /// The neighbour table, and its changes.
    #[must_use]
    pub fn neighbours(&self) -> watch::Receiver<Neighbours> {
        self.neighbours.clone()
    }
}
