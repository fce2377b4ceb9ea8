//! A stream of events.

use covalent_grpc_schema::{
    to_struct,
    v1::{Event, EventsRequest},
};
use futures::{Stream, stream};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tonic::Status;

use crate::{
    clients::Place,
    recent::{Recent, Recorded},
};

/// A client that follows events.
pub struct Following {
    recent: Recent,
    count: watch::Receiver<u64>,
    /// The last position that was sent or skipped.
    position: u64,
    kinds: Vec<String>,
    /// Where the stream ends, if it does.
    until: Option<u64>,
    /// Events missed since the last sent one.
    missed: u64,
    _place: Place,
}

impl Following {
    /// Follows events as `request` specifies.
    pub fn new(recent: Recent, request: EventsRequest, place: Place) -> Self {
        let count = recent.count();
        let now = *count.borrow();
        // A position that was never reached is from an earlier incarnation of control.
        let position = Some(request.after_position).filter(|&position| position <= now);
        Self {
            recent,
            count,
            position: position.unwrap_or(0),
            kinds: request.kinds,
            until: request.kept_only.then_some(now),
            missed: 0,
            _place: place,
        }
    }

    /// The events. The stream is polled for the next one only when the client has space for it.
    pub fn events(self) -> impl Stream<Item = Result<Event, Status>> {
        stream::unfold(self, async |mut following| {
            let event = following.next().await?;
            Some((Ok(event), following))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            self.count.mark_unchanged();
            while let Some(recorded) = self.recent.next_behind(self.position) {
                if self.until.is_some_and(|until| recorded.position > until) {
                    return None;
                }
                self.position = recorded.position;
                self.missed += recorded.missed;
                let mut event = to_message(recorded);
                if self.kinds.is_empty() || self.kinds.contains(&event.kind) {
                    event.missed = std::mem::take(&mut self.missed);
                    return Some(event);
                }
            }
            if self.until.is_some() {
                return None;
            }
            // Events recorded since the mark show as a change. An error means that control is
            // exiting.
            self.count.changed().await.ok()?;
        }
    }
}

fn to_message(recorded: Recorded) -> Event {
    let event = recorded.event;
    let kind = event.kind.name().to_owned();
    let mut details = match serde_json::to_value(&event.kind) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    details.remove("event");
    Event {
        position: recorded.position,
        sequence: event.sequence,
        realtime_ns: event.realtime_ns,
        kind,
        details: Some(to_struct(details)),
        missed: 0,
    }
}
