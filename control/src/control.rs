//! The whole process, put together.

use std::{
    fs,
    future::Future,
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

use covalent_config::Config;
use covalent_ipc::seqpacket::Listener;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Duration, Instant, timeout},
};
use tracing::info;

use crate::{
    agreement::{Agreement, Between, Listeners, Own},
    answers::{self, Knowledge},
    clients::{Descriptors, Door, Places, Refusal},
    counters::Counters,
    daemon::{Daemon, DaemonAt},
    grpc::{self, SocketName},
    healing::{self, Around},
    http::{self, Names, Pages},
    interfaces::{self, Followed, Interfaces},
    live::Live,
    metrics::OwnMetrics,
    recent::Recent,
};

/// Time limit for replies in flight at shutdown.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Why control cannot start. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process uses the address.
    #[error(
        "cannot serve {what} on {address}: the address is in use, perhaps by another node's \
         control on this host; set `{key}` to another port, or stop the process that has it (`ss \
         -ltnp` shows it)"
    )]
    AddressTaken {
        /// The service.
        what: &'static str,
        /// Where it is configured.
        key: &'static str,
        /// The configured address.
        address: SocketAddr,
    },
    /// The address cannot be had for another reason.
    #[error(
        "cannot serve {what} on {address}: {problem}; `{key}` must name an address of this host"
    )]
    Address {
        /// The service.
        what: &'static str,
        /// Where it is configured.
        key: &'static str,
        /// The configured address.
        address: SocketAddr,
        /// The error of the system call.
        problem: io::Error,
    },
    /// The address is not one of this host, or of this network namespace.
    #[error(
        "cannot serve {what} on {address}: this host has no such address now; set `{key}` to one \
         that \
         `ip address` shows (in a new network namespace even loopback needs: ip link set lo up)"
    )]
    AddressUnknown {
        /// The service.
        what: &'static str,
        /// Where it is configured.
        key: &'static str,
        /// The configured address.
        address: SocketAddr,
    },
    /// The directory for sockets cannot be made.
    #[error(
        "cannot create {}: {problem}; create it, give this process permission, or change \
         `node.runtime_dir`", .path.display()
    )]
    RuntimeDir {
        /// The configured directory.
        path: PathBuf,
        /// The error of the system call.
        problem: io::Error,
    },
    /// Another control process of the same node runs.
    #[error(
        "{}: another covalent-control answers there; stop it, or give this node its own \
         `node.runtime_dir`", .path.display()
    )]
    SocketTaken {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("{}: {problem}; this process must be able to write to its directory, which is \
        `node.runtime_dir`", .path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The error of the system call.
        problem: io::Error,
    },
    /// The schema of telemetry is wrong.
    #[error(transparent)]
    Schema(#[from] grpc::SchemaError),
    /// A declaration of a metric is wrong.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A running control process. It stops when dropped. [`Control::run`] also completes replies in
/// flight.
pub struct Control {
    metrics_address: SocketAddr,
    telemetry_address: Option<SocketAddr>,
    daemon: Daemon,
    interfaces: watch::Receiver<Interfaces>,
    agreement: Option<Agreement>,
    stop: oneshot::Sender<()>,
    pages: JoinHandle<()>,
    /// Given up before the name by which the next control knows that this one is gone.
    _telemetry_name: SocketName,
    /// Keeps the name of the control socket.
    _control_name: Listener,
    /// Aborted when control ends.
    _tasks: Vec<Task>,
}

/// A task that ends with its owner.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Control {
    /// As [`Control::start_from`], without a file: control can reload nothing, and has no agreement
    /// with the daemon.
    ///
    /// # Errors
    /// As [`Control::start_from`].
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_from(config, None).await
    }

    /// Binds the socket and the address, and starts all tasks. `file` is the file from which
    /// `config` was read. Must be called inside a tokio runtime, on a thread in the network
    /// namespace of the interfaces.
    ///
    /// # Errors
    /// [`StartError`] describes what to change.
    pub async fn start_from(config: &Config, file: Option<&Path>) -> Result<Self, StartError> {
        Self::start_as(config, file, Descriptors::Refused).await
    }

    /// As [`Control::start_from`]. With [`Descriptors::Arrive`] it serves as on a kernel that
    /// cannot refuse descriptors, even if this kernel can.
    ///
    /// # Errors
    /// As [`Control::start_from`].
    pub async fn start_as(
        config: &Config,
        file: Option<&Path>,
        descriptors: Descriptors,
    ) -> Result<Self, StartError> {
        let own = OwnMetrics::new(&config.node.name)?;
        let (listener, metrics_address) = listen(
            "/metrics",
            "control.metrics_listen",
            config.control.metrics_listen,
        )
        .await?;
        let (telemetry_listener, telemetry_address) = match config.control.grpc_listen {
            None => (None, None),
            Some(address) => {
                let (listener, address) = listen("gRPC", "control.grpc_listen", address).await?;
                (Some(listener), Some(address))
            }
        };
        let (control_name, door) = bind_control(config, descriptors)?;
        // Behind the other, which only one control of this node can have.
        let (telemetry_name, telemetry_door) = bind_telemetry(config, descriptors)?;

        let at = DaemonAt {
            socket: config.socket_path(),
            node: config.node.name.clone(),
        };
        let recent = Recent::default();
        let daemon = Daemon::keep(at, own.clone(), recent.clone());
        let (table, interfaces) = watch::channel(Interfaces::of(&config.port));
        let (recheck, requested) = mpsc::channel(answers::CLIENTS.all);
        let (pages, other_listeners) = mpsc::channel(1);
        let (telemetry, other_addresses) = mpsc::channel(1);
        let names = Names::new(config.control.metrics_hosts.clone());
        let listeners = Listeners {
            pages,
            telemetry,
            names: names.clone(),
        };
        let (followed, follows) = watch::channel(Followed::by(config));
        let agreement = file.map(|file| {
            let between = Between {
                file: file.to_owned(),
                socket: config.socket_path(),
            };
            let keys = Own::new(config.control.clone(), listeners, followed);
            Agreement::keep(between, keys, daemon.neighbors(), own.clone())
        });
        let knowledge = Knowledge {
            node: config.node.name.clone(),
            file: file.and_then(absolute),
            started: Instant::now(),
            neighbors: daemon.neighbors(),
            interfaces: interfaces.clone(),
            recheck: recheck.clone(),
            agreement: agreement.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        let pages = Pages {
            node: config.node.name.clone(),
            own: own.clone(),
            counters: Counters::at(config.counters_path()),
            daemon: daemon.clone(),
        };
        let telemetry = grpc::serve(
            telemetry_door,
            telemetry_listener,
            other_addresses,
            names.clone(),
            grpc::router(pages.clone(), recent.clone())?,
        );
        let router = http::router(pages, Live::new(daemon.clone(), recent));
        let pages = http::serve(listener, other_listeners, names, router, async {
            // A dropped sender means the same.
            let _ = stopped.await;
        });
        let mut tasks = vec![
            Task(tokio::spawn(answers::serve(door, knowledge))),
            Task(tokio::spawn(telemetry)),
            Task(tokio::spawn(interfaces::watch(
                table,
                follows,
                requested,
                own.clone(),
            ))),
        ];
        if let Some(agreement) = agreement.clone() {
            let around = Around {
                daemon: daemon.clone(),
                agreement,
                interfaces: interfaces.clone(),
                recheck,
            };
            tasks.push(Task(tokio::spawn(healing::heal(around, own))));
        }
        info!(
            metrics = %metrics_address,
            socket = %config.control_socket_path().display(),
            telemetry = %config.telemetry_socket_path().display(),
            node = config.node.name,
            "control serves"
        );
        Ok(Self {
            metrics_address,
            telemetry_address,
            daemon,
            interfaces,
            agreement,
            stop,
            pages: tokio::spawn(pages),
            _telemetry_name: telemetry_name,
            _control_name: control_name,
            _tasks: tasks,
        })
    }

    /// Where `/metrics` is served, with the port that the system chose if the configured one is 0.
    #[must_use]
    pub const fn metrics_address(&self) -> SocketAddr {
        self.metrics_address
    }

    /// Address of telemetry over gRPC, in addition to its socket. Has the port that the system
    /// assigned if the configured one is 0.
    #[must_use]
    pub const fn telemetry_address(&self) -> Option<SocketAddr> {
        self.telemetry_address
    }

    /// The connection to the daemon.
    #[must_use]
    pub const fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// The interfaces, and their changes.
    #[must_use]
    pub fn interfaces(&self) -> watch::Receiver<Interfaces> {
        self.interfaces.clone()
    }

    /// The agreement with the daemon. `None`: control was started without a file.
    #[must_use]
    pub fn agreement(&self) -> Option<Agreement> {
        self.agreement.clone()
    }

    /// Serves until `stop` is ready, then completes replies in flight within half a second.
    ///
    /// # Errors
    /// If the HTTP listener failed.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> io::Result<()> {
        tokio::select! {
            () = stop => {}
            ended = &mut self.pages => return ended.map_err(io::Error::other),
        }
        let _ = self.stop.send(());
        match timeout(LAST_ANSWERS, &mut self.pages).await {
            Ok(ended) => ended.map_err(io::Error::other),
            Err(_) => {
                self.pages.abort();
                Ok(())
            }
        }
    }
}

async fn listen(
    what: &'static str,
    key: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |problem: io::Error| match problem.kind() {
        io::ErrorKind::AddrInUse => StartError::AddressTaken { what, key, address },
        io::ErrorKind::AddrNotAvailable => StartError::AddressUnknown { what, key, address },
        _ => StartError::Address {
            what,
            key,
            address,
            problem,
        },
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Binds the control socket and creates its `Door`.
/// The path of the file, wherever its reader's working directory is. `None` if it is not UTF-8.
fn absolute(file: &Path) -> Option<String> {
    Some(std::path::absolute(file).ok()?.to_str()?.to_owned())
}

fn bind_control(config: &Config, descriptors: Descriptors) -> Result<(Listener, Door), StartError> {
    let runtime_dir = &config.node.runtime_dir;
    fs::create_dir_all(runtime_dir).map_err(|problem| StartError::RuntimeDir {
        path: runtime_dir.clone(),
        problem,
    })?;
    let path = config.control_socket_path();
    let failed = |problem: io::Error| match problem.kind() {
        io::ErrorKind::AddrInUse => StartError::SocketTaken { path: path.clone() },
        _ => StartError::Socket {
            path: path.clone(),
            problem,
        },
    };
    let name = Listener::bind(&path).map_err(failed)?;
    let door = open(
        name.as_fd(),
        &path,
        config,
        descriptors,
        Places::new(answers::CLIENTS),
        answers::turned_away,
    );
    Ok((name, door.map_err(failed)?))
}

/// Binds the telemetry socket and creates its `Door`.
fn bind_telemetry(
    config: &Config,
    descriptors: Descriptors,
) -> Result<(SocketName, Door), StartError> {
    let path = config.telemetry_socket_path();
    let failed = |problem| StartError::Socket {
        path: path.clone(),
        problem,
    };
    let (listener, name) = grpc::bind(&path).map_err(failed)?;
    let door = open(
        listener.as_fd(),
        &path,
        config,
        descriptors,
        Places::new(grpc::CONNECTIONS),
        // HTTP/2 has no words for a connection that is not served.
        |_| Vec::new(),
    );
    Ok((name, door.map_err(failed)?))
}

/// Makes the kernel refuse descriptors, if it can, before any user may connect.
fn open(
    listener: BorrowedFd<'_>,
    path: &Path,
    config: &Config,
    descriptors: Descriptors,
    places: Places,
    refusal: Refusal,
) -> io::Result<Door> {
    let descriptors = match descriptors {
        Descriptors::Arrive => Descriptors::Arrive,
        Descriptors::Refused => Descriptors::refuse(listener)?,
    };
    descriptors.open_name(path, &config.node.group)?;
    let listener = listener.try_clone_to_owned()?;
    Door::new(listener, descriptors, places, refusal)
}
