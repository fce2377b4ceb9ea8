//! The socket, the address, connections and their bounds.

use std::{
    fs::{self, Permissions},
    future::pending,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::codegen::Service;
use tracing::{debug, warn};

/// Most connections at a time; the next one waits.
const CONNECTIONS_MAX: usize = 32;

/// Most requests under way on one connection.
const REQUESTS_MAX: u32 = 32;

/// How long a client may take until its first request.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);

/// How often a client is asked whether it lives, and how long it may take to say so: one that stands still gives its place back.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
const ALIVE_PATIENCE: Duration = Duration::from_secs(20);

/// Most bytes that wait in this process to be sent on one stream, beside the sample that is being sent.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a request's headers.
const HEADER_BYTES_MAX: u32 = 8 << 10;

/// How long after a failed accept the next one is tried.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The name of the socket, which goes with this.
#[derive(Debug)]
pub struct SocketName(PathBuf);

impl Drop for SocketName {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the socket at `path`, open to all who may read `/metrics`. A socket that a process left behind is replaced: the caller knows that none of this node runs.
///
/// # Errors
/// What the system said.
pub fn bind(path: &Path) -> io::Result<(UnixListener, SocketName)> {
    match fs::remove_file(path) {
        Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    let name = SocketName(path.to_owned());
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok((listener, name))
}

/// Serves `router` on the socket and, if there is one, the address until it is dropped. What comes from `others` takes the place of the address; connections that are
/// open stay so.
pub async fn serve(
    socket: UnixListener,
    mut address: Option<TcpListener>,
    mut others: mpsc::Receiver<Option<TcpListener>>,
    router: Router,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // They end with this.
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            // The semaphore is never closed.
            let place = Arc::clone(&places).acquire_owned().await;
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted.map(|(stream, _)| Accepted::Socket(stream)),
                accepted = accept(address.as_ref()) => accepted.map(Accepted::Address),
            };
            accepted.map(|accepted| (accepted, place))
        };
        let accepted = tokio::select! {
            Some(other) = others.recv() => {
                address = other;
                continue;
            }
            Some(_) = connections.join_next() => continue,
            accepted = accept => accepted,
        };
        let router = router.clone();
        match accepted {
            Ok((Accepted::Socket(stream), place)) => {
                connections.spawn(converse(stream, router, place.ok()))
            }
            Ok((Accepted::Address(stream), place)) => {
                connections.spawn(converse(stream, router, place.ok()))
            }
            Err(problem) => {
                warn!("a connection for telemetry: {problem}");
                // Out of descriptors: trying at once again would spin.
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
    }
}

enum Accepted {
    Socket(tokio::net::UnixStream),
    Address(tokio::net::TcpStream),
}

async fn accept(address: Option<&TcpListener>) -> io::Result<tokio::net::TcpStream> {
    match address {
        Some(listener) => Ok(listener.accept().await?.0),
        None => pending().await,
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    _place: Option<OwnedSemaphorePermit>,
) {
    let (asks, mut asked) = watch::channel(false);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        asks.send_replace(true);
        router.clone().call(request)
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS_MAX)
        .max_send_buf_size(UNSENT_BYTES_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(ALIVE_EVERY)
        .keep_alive_timeout(ALIVE_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    let silent = async {
        if timeout(REQUEST_PATIENCE, asked.wait_for(|asked| *asked))
            .await
            .is_ok()
        {
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = connection => if let Err(problem) = ended {
            debug!("a connection for telemetry: {problem}");
        },
        () = silent => debug!("a connection for telemetry: nothing was asked"),
    }
}
