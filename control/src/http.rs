//! `/metrics` and `/healthz` over HTTP.

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::time::Instant;
use tracing::error;

use crate::{
    daemon::Daemon,
    metrics::{self, OwnMetrics},
};

/// What the pages are made from.
#[derive(Clone)]
pub struct Pages {
    /// The node's configured name.
    pub node: String,
    /// Control's metrics of itself.
    pub own: OwnMetrics,
    /// Who is asked.
    pub daemon: Daemon,
}

/// The routes.
pub fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(health_page))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "here are only /metrics and /healthz\n",
            )
        })
        .with_state(pages)
}

/// 200 with the exposition text, whether the daemon answers or not: `covalent_up` says it.
async fn metrics_page(State(pages): State<Pages>) -> Response {
    let start = Instant::now();
    let status = pages.daemon.status().await;
    let text = metrics::render(&pages.node, &pages.own, status.as_deref().ok());
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
