//! The keys that control itself puts in force: where `/metrics` is served, and whether interfaces are set up.

use std::{io, net::SocketAddr};

use covalent_api::{agreement::Objection, config::ControlConfig};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tracing::{info, warn};

/// What control does by itself under the configuration in force.
#[derive(Debug)]
pub struct Own {
    in_force: ControlConfig,
    pages: mpsc::Sender<TcpListener>,
    bring_up: watch::Sender<bool>,
}

/// What is ready to be put in force.
#[derive(Debug)]
pub(super) struct Ready {
    wanted: ControlConfig,
    /// Bound already, so that nothing can fail later.
    listener: Option<TcpListener>,
}

impl Own {
    /// `in_force` is in force. `pages` takes another listener for the pages, `bring_up` tells whether interfaces are set up.
    #[must_use]
    pub const fn new(
        in_force: ControlConfig,
        pages: mpsc::Sender<TcpListener>,
        bring_up: watch::Sender<bool>,
    ) -> Self {
        Self {
            in_force,
            pages,
            bring_up,
        }
    }

    /// Makes ready what `wanted` says. What is in force stays so.
    pub(super) async fn prepare(&self, wanted: &ControlConfig) -> Result<Ready, Objection> {
        let listener = if wanted.metrics_listen == self.in_force.metrics_listen {
            None
        } else {
            let bound = TcpListener::bind(wanted.metrics_listen).await;
            Some(bound.map_err(|problem| objection(wanted.metrics_listen, &problem))?)
        };
        Ok(Ready {
            wanted: wanted.clone(),
            listener,
        })
    }

    /// Puts in force what is ready.
    pub(super) async fn apply(&mut self, ready: Ready) {
        if let Some(listener) = ready.listener {
            info!(metrics = %ready.wanted.metrics_listen, "/metrics is served there from now on");
            // Closed only when the process is ending.
            let _ = self.pages.send(listener).await;
        }
        self.bring_up.send_replace(ready.wanted.bring_up);
        self.in_force = ready.wanted;
    }

    /// Takes over what is agreed on, whoever agreed on it. What cannot be had is written down, and what was in force stays.
    pub(super) async fn adopt(&mut self, wanted: &ControlConfig) {
        match self.prepare(wanted).await {
            Ok(ready) => self.apply(ready).await,
            Err(objection) => {
                warn!("`{}` stays as it was: {}", objection.key, objection.message);
                self.bring_up.send_replace(wanted.bring_up);
            }
        }
    }
}

fn objection(address: SocketAddr, problem: &io::Error) -> Objection {
    let what = match problem.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is taken; choose another, or stop who has it (`ss -ltnp` shows who)"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this host has no such address now; choose one that `ip address` shows".to_owned()
        }
        _ => problem.to_string(),
    };
    Objection {
        key: "control.metrics_listen".to_owned(),
        message: format!("cannot serve /metrics on {address}: {what}"),
    }
}
