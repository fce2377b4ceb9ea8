//! The socket, the address, connections and their bounds.

use std::{
    fs,
    future::pending,
    io,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::mpsc,
    task::JoinSet,
    time::sleep,
};
use tracing::{debug, warn};

use super::uses::{Uses, serve_request};
use crate::{
    clients::{Bounds, Client, Door, Place, Places, Principal},
    http::{Arrival, Names, Seat, Seats},
};

/// Maximum number of concurrent connections to the socket; further ones are closed at once. Other
/// users cannot fill the slots reserved for root and the node's user.
pub const CONNECTIONS: Bounds = Bounds {
    all: 32,
    strangers: 24,
    each: 8,
};

/// The same over the address. When all are taken, an unused connection is closed for the next one.
const CONNECTIONS_OF_ADDRESS: usize = 8;

/// Maximum number of requests in flight on all connections together. Each keeps a reply in memory
/// until its reader has received it.
const REQUESTS: Bounds = Bounds {
    all: 128,
    strangers: 96,
    each: 32,
};

/// Maximum number of requests in flight on one connection.
const REQUESTS_MAX: u32 = 32;

/// Interval of the pings to a client, and time limit of its reply. A stalled client loses its slot.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(20);

/// Maximum number of unsent bytes buffered in this process for one stream, in addition to the
/// sample being sent.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a request's headers.
const HEADER_BYTES_MAX: u32 = 8 << 10;

/// How long after a failed accept the next one is tried.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The name of the socket, which goes with this.
#[derive(Debug)]
pub struct SocketName(PathBuf);

impl Drop for SocketName {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = fs::remove_file(&self.0);
    }
}

/// Creates the socket at `path`. Replaces a stale socket: the caller ensures that no process of
/// this node uses it.
///
/// # Errors
/// The error of the system call.
pub fn bind(path: &Path) -> io::Result<(UnixListener, SocketName)> {
    match fs::remove_file(path) {
        Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    Ok((listener, SocketName(path.to_owned())))
}

/// Serves `router` on the socket and, if given, on the address until the future is dropped. A
/// listener from `others` replaces the address. Open connections stay open. Over the address it
/// answers only to `names`.
pub async fn serve(
    mut socket: Door,
    mut address: Option<TcpListener>,
    mut others: mpsc::Receiver<Option<TcpListener>>,
    names: Names,
    router: Router,
) {
    let seats = Seats::new(CONNECTIONS_OF_ADDRESS);
    // A connection that waits for a seat.
    let mut waiting = None;
    let requests = Places::new(REQUESTS);
    // They end with this.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(other) = others.recv() => {
                address = other;
                continue;
            }
            Some(_) = connections.join_next() => continue,
            client = socket.next() => client.map(Accepted::Socket),
            accepted = accept(address.as_ref()), if waiting.is_none() => match accepted {
                Ok(stream) => {
                    waiting = Some(stream);
                    continue;
                }
                Err(problem) => Err(problem),
            },
            seat = seats.take(), if waiting.is_some() => match waiting.take() {
                Some(stream) => Ok(Accepted::Address(stream, seat)),
                None => continue,
            },
        };
        let answers = |principal, arrival, seat| Answers {
            router: router.clone(),
            requests: requests.clone(),
            principal,
            arrival,
            seat,
        };
        match accepted {
            Ok(Accepted::Socket(Client {
                socket,
                principal,
                place,
            })) => match tokio::net::UnixStream::from_std(UnixStream::from(socket)) {
                Ok(stream) => {
                    connections.spawn(converse(
                        stream,
                        answers(principal, None, None),
                        Some(place),
                    ));
                }
                Err(problem) => warn!("a connection for telemetry: {problem}"),
            },
            Ok(Accepted::Address(stream, seat)) => {
                let arrival = Arrival::of(&stream, names.clone());
                let answers = answers(Principal::Network, Some(arrival), Some(seat));
                connections.spawn(converse(stream, answers, None));
            }
            Err(problem) => {
                warn!("a connection for telemetry: {problem}");
                // Out of descriptors: trying at once again would spin.
                sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

enum Accepted {
    Socket(Client),
    Address(tokio::net::TcpStream, Seat),
}

async fn accept(address: Option<&TcpListener>) -> io::Result<tokio::net::TcpStream> {
    match address {
        Some(listener) => Ok(listener.accept().await?.0),
        None => pending().await,
    }
}

/// Resources that answer the requests of a connection.
#[derive(Clone)]
pub(super) struct Answers {
    pub router: Router,
    pub requests: Places,
    pub principal: Principal,
    /// Its arrival address. `None` on the socket, where every name means this node.
    pub arrival: Option<Arrival>,
    /// Its seat over the address.
    pub seat: Option<Seat>,
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answers: Answers,
    _place: Option<Place>,
) {
    let wanted = answers.seat.as_ref().map(Seat::wanted);
    let wanted = async {
        match wanted {
            Some(wanted) => wanted.await,
            None => pending().await,
        }
    };
    let uses = Arc::new(Uses::default());
    let used = Arc::clone(&uses);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        serve_request(answers.clone(), Arc::clone(&used), request)
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS_MAX)
        .max_send_buf_size(UNSENT_BYTES_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => if let Err(problem) = ended {
            debug!("a connection for telemetry: {problem}");
        },
        reason = uses.idle() => debug!("a connection for telemetry: {reason}"),
        () = wanted => debug!("a connection for telemetry is closed because it was idle"),
    }
}
