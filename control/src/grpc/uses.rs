//! Use of a connection, and the limits of inactivity.
//!
//! Slots are for clients that use them. These would otherwise hold a slot forever: a connection
//! without a request, an incomplete request, and a reply that the client does not receive. Replies
//! to HTTP/2 pings do not count as use.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use hyper::{
    Request,
    body::{Bytes, Frame, Incoming, SizeHint},
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Status, codegen::Service};

use super::serve::Answers;
use crate::{
    clients::Place,
    http::{OpenRequest, Seat},
};

/// How long a client may take until its first request.
const FIRST_REQUEST: Duration = Duration::from_secs(5);

/// How long a connection may be open without a request in flight, after the first.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Time limit from a request's headers to the head of its reply: its message must arrive, and the
/// daemon must reply.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long a reader may accept none of the data that waits for it. A pager in use is such a reader
/// too.
const STANDSTILL_MAX: Duration = Duration::from_secs(600);

/// Beginning of the paths of reflection, of both versions.
const REFLECTION: &str = "/grpc.reflection.";

/// How often that is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The requests in flight on one connection.
pub(super) struct Uses(Mutex<Open>);

struct Open {
    /// By number: since when the client has taken nothing that is there for it, if so.
    requests: HashMap<u64, Option<Instant>>,
    next: u64,
    /// Since when there is none.
    idle_since: Instant,
}

impl Default for Uses {
    fn default() -> Self {
        Self(Mutex::new(Open {
            requests: HashMap::new(),
            next: 0,
            idle_since: Instant::now(),
        }))
    }
}

impl Uses {
    /// Waits until the connection has been unused for too long. Returns the reason.
    pub(super) async fn idle(&self) -> &'static str {
        loop {
            sleep(CHECK_INTERVAL).await;
            if let Some(reason) = self.open().overdue(Instant::now()) {
                return reason;
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Consistent at every unlock, even after a panic of a holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn overdue(&self, now: Instant) -> Option<&'static str> {
        let stands = |since: &Option<Instant>| {
            since.is_some_and(|since| now.duration_since(since) >= STANDSTILL_MAX)
        };
        let idle = match self.next {
            0 => FIRST_REQUEST,
            _ => IDLE_MAX,
        };
        if self.requests.is_empty() && now.duration_since(self.idle_since) >= idle {
            Some("no request arrives")
        } else if self.requests.values().any(stands) {
            Some("the client does not read an answer")
        } else {
            None
        }
    }
}

/// A request that is in flight as long as this value exists.
struct Use {
    uses: Arc<Uses>,
    number: u64,
    _place: Place,
    _open_request: Option<OpenRequest>,
}

impl Use {
    fn begin(uses: Arc<Uses>, place: Place, open_request: Option<OpenRequest>) -> Self {
        let mut open = uses.open();
        let number = open.next;
        open.next += 1;
        open.requests.insert(number, None);
        drop(open);
        Self {
            uses,
            number,
            _place: place,
            _open_request: open_request,
        }
    }

    /// Records whether the client must now receive data.
    fn waits_for_client(&self, waits: bool) {
        let since = waits.then(Instant::now);
        self.uses.open().requests.insert(self.number, since);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut open = self.uses.open();
        open.requests.remove(&self.number);
        open.idle_since = Instant::now();
    }
}

/// Answers one request, or refuses it with a reason.
pub(super) async fn serve_request(
    mut answers: Answers,
    uses: Arc<Uses>,
    mut request: Request<Incoming>,
) -> Result<Response, std::convert::Infallible> {
    if let Some(Err(reason)) = answers.arrival.map(|arrival| arrival.check(&request)) {
        return Ok((StatusCode::MISDIRECTED_REQUEST, reason).into_response());
    }
    let place = match answers.requests.take(answers.principal) {
        Ok(place) => place,
        Err(full) => {
            let status = Status::resource_exhausted(format!("requests in flight: {full}"));
            return Ok(status.into_http());
        }
    };
    // A stream of reflection waits for its client and may stay open for ever, so it is no use of
    // the seat.
    let is_use = !request.uri().path().starts_with(REFLECTION);
    let seat = answers.seat.as_ref().filter(|_| is_use);
    let used = Use::begin(uses, place, seat.map(Seat::begin_request));
    request.extensions_mut().insert(answers.principal);
    let Ok(answer) = timeout(ANSWER_MAX, answers.router.call(request)).await else {
        let status = Status::deadline_exceeded(format!(
            "the request did not arrive completely, or had no answer, within {ANSWER_MAX:?}"
        ));
        return Ok(status.into_http());
    };
    used.waits_for_client(true);
    let answer = answer.unwrap_or_else(|never| match never {});
    Ok(answer.map(|body| Body::new(Taken { body, used })))
}

/// The body of a reply. It is polled for its next piece only when the client has space for it.
struct Taken {
    body: Body,
    used: Use,
}

impl hyper::body::Body for Taken {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.used.waits_for_client(polled.is_ready());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Bounds, Places, Principal};

    fn place() -> Place {
        let bounds = Bounds {
            all: 1,
            strangers: 1,
            each: 1,
        };
        Places::new(bounds).take(Principal::Operator).expect("free")
    }

    #[test]
    fn a_connection_is_overdue_without_a_request_or_with_an_unread_answer() {
        let uses = Arc::new(Uses::default());
        let overdue = |after| uses.open().overdue(Instant::now() + after);
        assert_eq!(overdue(FIRST_REQUEST / 2), None);
        assert_eq!(overdue(FIRST_REQUEST), Some("no request arrives"));
        let used = Use::begin(Arc::clone(&uses), place(), None);
        assert_eq!(overdue(2 * STANDSTILL_MAX), None, "it is our turn");
        used.waits_for_client(true);
        assert_eq!(overdue(STANDSTILL_MAX / 2), None);
        assert_eq!(
            overdue(STANDSTILL_MAX),
            Some("the client does not read an answer")
        );
        used.waits_for_client(false);
        assert_eq!(overdue(2 * STANDSTILL_MAX), None);
        drop(used);
        assert_eq!(overdue(FIRST_REQUEST), None);
        assert_eq!(overdue(IDLE_MAX), Some("no request arrives"));
    }
}
