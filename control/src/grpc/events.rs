//! A stream of events.

use covalent_telemetry::{
    to_struct,
    v1::{Event, EventsRequest},
};
use futures::{Stream, stream};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tonic::Status;

use crate::{
    clients::Place,
    live::{Noted, Recent},
};

/// A client that follows events.
pub struct Following {
    recent: Recent,
    count: watch::Receiver<u64>,
    /// The last position that was told, or passed over.
    position: u64,
    kinds: Vec<String>,
    /// Where the stream ends, if it does.
    until: Option<u64>,
    /// Missed since the last event that was told.
    missed: u64,
    _place: Place,
}

impl Following {
    /// One who asks so.
    pub fn new(recent: Recent, request: EventsRequest, place: Place) -> Self {
        let count = recent.count();
        let now = *count.borrow();
        // A position that nobody has reached is of an earlier life of control.
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

    /// The events. It is asked for the next one only when the client has room for it.
    pub fn events(self) -> impl Stream<Item = Result<Event, Status>> {
        stream::unfold(self, async |mut following| {
            let event = following.next().await?;
            Some((Ok(event), following))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            self.count.mark_unchanged();
            while let Some(noted) = self.recent.next_behind(self.position) {
                if self.until.is_some_and(|until| noted.position > until) {
                    return None;
                }
                self.position = noted.position;
                self.missed += noted.missed;
                let mut event = told(noted);
                if self.kinds.is_empty() || self.kinds.contains(&event.kind) {
                    event.missed = std::mem::take(&mut self.missed);
                    return Some(event);
                }
            }
            if self.until.is_some() {
                return None;
            }
            // What was noted since the mark shows as a change. Nobody notes any more: control is ending.
            self.count.changed().await.ok()?;
        }
    }
}

fn told(noted: Noted) -> Event {
    let event = noted.event;
    let kind = event.kind.name().to_owned();
    let mut details = match serde_json::to_value(&event.kind) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    details.remove("event");
    Event {
        position: noted.position,
        sequence: event.sequence,
        realtime_ns: event.realtime_ns,
        kind,
        details: Some(to_struct(details)),
        missed: 0,
    }
}
