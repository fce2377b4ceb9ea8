//! The keys that control itself puts in force: the addresses of `/metrics` and telemetry, the
//! followed interfaces, and whether they are set up.

use std::{io, net::SocketAddr};

use covalent_api::agreement::Objection;
use covalent_config::{Config, ControlConfig, PortConfig};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tracing::{info, warn};

use crate::{http::Names, interfaces::Followed};

/// The settings that control itself applies under the configuration in force.
#[derive(Debug)]
pub struct Own {
    in_force: ControlConfig,
    listeners: Listeners,
    followed: watch::Sender<Followed>,
}

/// Channels through which the servers receive new listeners.
#[derive(Debug, Clone)]
pub struct Listeners {
    /// For the pages.
    pub pages: mpsc::Sender<TcpListener>,
    /// For telemetry over gRPC, which may have none.
    pub telemetry: mpsc::Sender<Option<TcpListener>>,
    /// The names under which both answer.
    pub names: Names,
}

/// Prepared settings that can be put in force.
#[derive(Debug)]
pub(super) struct Ready {
    wanted: ControlConfig,
    followed: Followed,
    /// Already bound, so that no later step can fail.
    pages: Option<TcpListener>,
    /// Bound already too, if it has an address.
    telemetry: Option<Option<TcpListener>>,
}

impl Own {
    /// `in_force` is in force. `listeners` receive new listeners, and `followed` publishes the
    /// interfaces to follow.
    #[must_use]
    pub const fn new(
        in_force: ControlConfig,
        listeners: Listeners,
        followed: watch::Sender<Followed>,
    ) -> Self {
        Self {
            in_force,
            listeners,
            followed,
        }
    }

    /// Prepares the settings of `config`. The settings in force do not change.
    pub(super) async fn prepare(&self, config: &Config) -> Result<Ready, Objection> {
        let wanted = &config.control;
        let pages = if wanted.metrics_listen == self.in_force.metrics_listen {
            None
        } else {
            let bound = TcpListener::bind(wanted.metrics_listen).await;
            let objection = |problem| objection(Served::Pages, wanted.metrics_listen, &problem);
            Some(bound.map_err(objection)?)
        };
        let telemetry = match wanted.grpc_listen {
            same if same == self.in_force.grpc_listen => None,
            None => Some(None),
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                let objection = |problem| objection(Served::Telemetry, address, &problem);
                Some(Some(bound.map_err(objection)?))
            }
        };
        Ok(Ready {
            wanted: wanted.clone(),
            followed: Followed::by(config),
            pages,
            telemetry,
        })
    }

    /// Puts prepared settings in force.
    pub(super) async fn apply(&mut self, ready: Ready) {
        let names = &self.listeners.names;
        names.set(ready.wanted.metrics_hosts.clone());
        if let Some(listener) = ready.pages {
            info!(metrics = %ready.wanted.metrics_listen, "/metrics is served there from now on");
            // Closed only when the process is ending.
            let _ = self.listeners.pages.send(listener).await;
        }
        if let Some(listener) = ready.telemetry {
            match ready.wanted.grpc_listen {
                Some(address) => info!(telemetry = %address, "gRPC is served there from now on"),
                None => info!("gRPC is served on its socket alone from now on"),
            }
            let _ = self.listeners.telemetry.send(listener).await;
        }
        self.followed.send_replace(ready.followed);
        self.in_force = ready.wanted;
    }

    /// Adopts the agreed configuration, regardless of its origin. Logs settings that cannot be
    /// applied, and keeps the previous ones.
    pub(super) async fn adopt(&mut self, config: &Config) {
        match self.prepare(config).await {
            Ok(ready) => self.apply(ready).await,
            Err(objection) => {
                warn!("`{}` is unchanged: {}", objection.key, objection.message);
                self.followed.send_replace(Followed::by(config));
            }
        }
    }
}

impl Own {
    /// Follows the interfaces of `ports` in addition to those of the configuration in force, until
    /// another configuration is in force. A configuration that could not be reinstated waits for
    /// them.
    pub(super) fn follow_too(&self, ports: &[PortConfig]) {
        self.followed.send_modify(|followed| {
            let names: Vec<_> = followed
                .ports
                .iter()
                .map(|port| port.name.clone())
                .collect();
            let others = ports.iter().filter(|port| !names.contains(&port.name));
            followed.ports.extend(others.cloned());
        });
    }
}

/// Service at an address.
#[derive(Debug, Clone, Copy)]
enum Served {
    Pages,
    Telemetry,
}

fn objection(served: Served, address: SocketAddr, problem: &io::Error) -> Objection {
    let (key, name) = match served {
        Served::Pages => ("control.metrics_listen", "/metrics"),
        Served::Telemetry => ("control.grpc_listen", "gRPC"),
    };
    let what = match problem.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use; choose another, or stop the process that has it (`ss -ltnp` \
             shows it)"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this host has no such address now; choose one that `ip address` shows".to_owned()
        }
        _ => problem.to_string(),
    };
    Objection {
        key: key.to_owned(),
        message: format!("cannot serve {name} on {address}: {what}"),
    }
}
