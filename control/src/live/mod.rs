//! The live page: the node's current activity in a browser, without external resources.
//!
//! This program contains the page and all its resources. The page reads one stream of server-sent
//! events. `status` arrives once a second, as `covalent status --format json` prints it but without
//! the keys of regions. `baseline`, of the same form, precedes the first `status` of each
//! incarnation of the daemon by a quarter of a second, so that the page has rates from the first
//! status that it shows. `events` arrive as they occur. `gone` arrives with the reason while the
//! daemon does not reply. Control queries the daemon only while a page is open.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{
        HeaderName, StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::get,
};
use covalent_api::status::NodeStatus;
use futures::stream;
use serde_json::Value;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Interval, MissedTickBehavior, interval},
};

use crate::{daemon::Daemon, recent::Recent};

/// Maximum number of concurrent watchers: each costs the daemon at most one reply per second.
const WATCHERS_MAX: usize = 16;

/// Interval of updates to the page.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between the baseline and the first status.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// Only resources from this origin are loaded, and no other page can embed this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Sources of the page.
#[derive(Clone)]
pub struct Live {
    /// The daemon to query.
    daemon: Daemon,
    recent: Recent,
    places: Arc<Semaphore>,
}

/// An open page.
struct Watcher {
    live: Live,
    seen: u64,
    events_are_due: bool,
    due: Interval,
    /// The previous status's process and uptime, unless the daemon was gone since.
    last: Option<(u32, u64)>,
    _place: OwnedSemaphorePermit,
}

impl Live {
    /// Creates the page of this daemon.
    #[must_use]
    pub fn new(daemon: Daemon, recent: Recent) -> Self {
        Self {
            daemon,
            recent,
            places: Arc::new(Semaphore::new(WATCHERS_MAX)),
        }
    }

    /// The page's routes.
    pub fn router(self) -> Router {
        let text =
            |kind: &'static str, text: &'static str| get(move || async move { file(kind, text) });
        Router::new()
            .route(
                "/",
                text("text/html; charset=utf-8", include_str!("page.html")),
            )
            .route(
                "/live.css",
                text("text/css; charset=utf-8", include_str!("page.css")),
            )
            .route(
                "/live.js",
                text("text/javascript; charset=utf-8", include_str!("page.js")),
            )
            .route("/live/stream", get(stream_page))
            .with_state(self)
    }
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 4] = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// The stream, or 503 when too many look.
async fn stream_page(State(live): State<Live>) -> Response {
    let Ok(place) = Arc::clone(&live.places).try_acquire_owned() else {
        let content = format!("{WATCHERS_MAX} pages are open already: close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, content).into_response();
    };
    let mut due = interval(STATUS_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = Watcher {
        live,
        seen: 0,
        events_are_due: false,
        due,
        last: None,
        _place: place,
    };
    let messages = stream::unfold(watcher, async |mut watcher| {
        let message = watcher.next().await;
        Some((Ok::<_, Infallible>(message), watcher))
    });
    Sse::new(messages).into_response()
}

/// A key of a region is a right to use it, and anyone may look here.
fn without_keys(status: &NodeStatus) -> Value {
    let mut content = serde_json::to_value(status).unwrap_or_default();
    let regions = content.get_mut("regions").and_then(Value::as_array_mut);
    for region in regions.into_iter().flatten() {
        region.as_object_mut().map(|region| region.remove("rkey"));
    }
    content
}

impl Watcher {
    /// The next message: events behind each status, if there are new ones.
    async fn next(&mut self) -> Event {
        if std::mem::take(&mut self.events_are_due) {
            let (events, seen) = self.live.recent.since(self.seen);
            self.seen = seen;
            if !events.is_empty() {
                let message = Event::default().event("events").json_data(&events);
                return message.unwrap_or_default();
            }
        }
        self.due.tick().await;
        self.events_are_due = true;
        match self.live.daemon.status().await {
            Ok(status) => {
                let is_same = |(pid, uptime_ns)| pid == status.pid && uptime_ns <= status.uptime_ns;
                let has_baseline = self.last.is_some_and(is_same);
                self.last = Some((status.pid, status.uptime_ns));
                let kind = if has_baseline {
                    "status"
                } else {
                    self.due.reset_after(FIRST_INTERVAL);
                    "baseline"
                };
                let message = Event::default()
                    .event(kind)
                    .json_data(without_keys(&status));
                message.unwrap_or_default()
            }
            Err(problem) => {
                self.last = None;
                Event::default().event("gone").data(problem.to_string())
            }
        }
    }
}
