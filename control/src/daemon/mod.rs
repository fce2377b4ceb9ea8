//! The connection to `covalentd`: kept up, followed, queried.
//!
//! One task owns it. The task reconnects whenever the daemon is lost, which a closed socket or the
//! end of its process shows. It greets the daemon, subscribes, fills the neighbor table from one
//! status and updates it from events. Other tasks request the status from it. Requesters that
//! arrive while a request is in flight share its reply, so ten scrapers cost the daemon no more
//! than one.

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
use crate::{metrics::OwnMetrics, neighbors::Neighbors, recent::Recent};

/// How long a status is waited for. A stopped daemon must not hold up a scrape.
pub const STATUS_PATIENCE: Duration = Duration::from_secs(2);

/// Most askers that wait at a time.
const REQUESTERS_MAX: usize = 64;

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
type Requester = oneshot::Sender<Answer>;

/// Handle of the daemon for the rest of the process. Clones share one connection, which closes with
/// the last clone.
#[derive(Clone)]
pub struct Daemon {
    requesters: mpsc::Sender<Requester>,
    neighbors: watch::Receiver<Neighbors>,
}

/// Socket and expected identity of the daemon.
#[derive(Debug, Clone)]
pub struct DaemonAt {
    /// Its socket.
    pub socket: PathBuf,
    /// The name of the node in the configuration.
    pub node: String,
}

impl Daemon {
    /// Starts the task, which also records events in `recent`. Must be called inside a tokio
    /// runtime.
    #[must_use]
    pub fn keep(at: DaemonAt, own: OwnMetrics, recent: Recent) -> Self {
        let (requesters, requested) = mpsc::channel(REQUESTERS_MAX);
        let (table, neighbors) = watch::channel(Neighbors::default());
        tokio::spawn(
            Keeper::new(at, requested, table, Events::new(own.clone(), recent), own).run(),
        );
        Self {
            requesters,
            neighbors,
        }
    }

    /// Queries the daemon's current status.
    ///
    /// # Errors
    /// [`Unreachable`] if there is no daemon, or no reply within [`STATUS_PATIENCE`].
    pub async fn status(&self) -> Answer {
        let (requester, answer) = oneshot::channel();
        let exchange = async {
            // Either end of these channels is only closed when this process ends.
            let ending = |_| Unreachable::new("control is ending");
            self.requesters
                .send(requester)
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
        timeout(STATUS_PATIENCE, exchange).await.map_err(late)?
    }

    /// The neighbor table, and its changes.
    #[must_use]
    pub fn neighbors(&self) -> watch::Receiver<Neighbors> {
        self.neighbors.clone()
    }
}
