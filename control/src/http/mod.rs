//! `/metrics`, `/healthz` and the live page over HTTP.

mod names;
mod seats;

use std::convert::Infallible;

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use covalent_counters::Snapshot;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    time::{Duration, Instant, sleep},
};
use tonic::codegen::Service;
use tracing::{debug, error, warn};

pub use self::names::{Arrival, Names};
use self::seats::{Answer, Patient};
pub use self::seats::{OpenRequest, Seat, Seats};
use crate::{
    counters::Counters,
    daemon::Daemon,
    live::Live,
    metrics::{self, OwnMetrics},
};

/// Maximum number of concurrent connections. Beyond it, an unused connection is closed. Descriptors
/// are limited, and the daemon's connection needs one too.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send a request, and how long it may keep a connection without one.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);

/// Time limit for a client to receive the sent data. A reply has a few hundred kilobytes.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How long after a failed accept the next one is tried.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Serves `router` until `stop`, then completes replies in flight. A listener from `others`
/// replaces the previous one. Open connections stay open. Requests are answered only under `names`.
pub async fn serve(
    mut listener: TcpListener,
    mut others: mpsc::Receiver<TcpListener>,
    names: Names,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let mut connections = http1::Builder::new();
    connections
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE);
    let seats = Seats::new(CONNECTIONS_MAX);
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        // Accept a waiting client first: only then must an unused connection lose its seat.
        let accept = async {
            let (stream, _) = listener.accept().await?;
            Ok::<_, std::io::Error>((stream, seats.take().await))
        };
        let accepted = tokio::select! {
            () = &mut stop => break,
            Some(other) = others.recv() => {
                listener = other;
                continue;
            }
            accepted = accept => accepted,
        };
        let (stream, seat) = match accepted {
            Ok(accepted) => accepted,
            Err(problem) => {
                warn!("a connection to /metrics: {problem}");
                // Out of descriptors: trying at once again would spin.
                sleep(ACCEPT_RETRY_INTERVAL).await;
                continue;
            }
        };
        let arrival = Arrival::of(&stream, names.clone());
        let wanted = seat.wanted();
        let io = TokioIo::new(Patient::new(stream, seat.clone(), WRITE_PATIENCE));
        let router = router.clone();
        let service = service_fn(move |request| {
            answer(router.clone(), arrival.clone(), seat.clone(), request)
        });
        let connection = graceful.watch(connections.serve_connection(io, service));
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => if let Err(problem) = ended {
                    debug!("a connection to /metrics: {problem}");
                },
                () = wanted => debug!("a connection to /metrics is closed because it was idle"),
            }
        });
    }
    graceful.shutdown().await;
}

/// Answers a request that means this node.
async fn answer(
    mut router: Router,
    arrival: Arrival,
    seat: Seat,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    if let Err(reason) = arrival.check(&request) {
        return Ok((StatusCode::MISDIRECTED_REQUEST, reason).into_response());
    }
    let open_request = seat.begin_request();
    let answer = router.call(request).await?;
    Ok(answer.map(|body| Body::new(Answer::new(body, open_request))))
}

/// Sources of the pages.
#[derive(Clone)]
pub struct Pages {
    /// The node's configured name.
    pub node: String,
    /// Control's metrics of itself.
    pub own: OwnMetrics,
    /// Counters that the daemon wrote.
    pub counters: Counters,
    /// The daemon to query if there are no counters.
    pub daemon: Daemon,
}

impl Pages {
    /// Counters of the daemon to which control is connected. Counters of a daemon that refuses
    /// control, because of its release, are not served.
    async fn shared(&self) -> Option<Snapshot> {
        let connected = self.daemon.neighbors().borrow().daemon().is_some();
        if connected {
            self.counters.read().await
        } else {
            None
        }
    }
}

/// The routes.
pub fn router(pages: Pages, live: Live) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(health_page))
        .with_state(pages)
        .merge(live.router())
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "only /, /metrics and /healthz exist here\n",
            )
        })
}

/// 200 with the exposition text, whether the daemon runs or not: `covalent_up` shows it.
async fn metrics_page(State(pages): State<Pages>) -> Response {
    let start = Instant::now();
    let text = if let Some(snapshot) = pages.shared().await {
        metrics::render_shared(&pages.node, &pages.own, &snapshot)
    } else {
        let status = pages.daemon.status().await;
        metrics::render(&pages.node, &pages.own, status.as_deref().ok())
    };
    pages
        .own
        .scrape_seconds
        .observe(start.elapsed().as_secs_f64());
    match text {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(problem) => {
            error!("/metrics: {problem}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{problem}\n")).into_response()
        }
    }
}

/// 200 if the daemon answers, 503 with the reason if not.
async fn health_page(State(pages): State<Pages>) -> Response {
    match pages.daemon.status().await {
        Ok(_) => "ok\n".into_response(),
        Err(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")).into_response(),
    }
}
