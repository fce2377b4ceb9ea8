//! Events received over gRPC.

use anyhow::Result;
use covalent_api::event::{Event, EventKind};
use covalent_grpc_schema::{from_struct, v1};
use serde_json::Value;

use crate::{
    args::Format,
    events,
    output::{self, Theme},
};

/// Prints an event as `covalent events --follow` does, and before it how many were missed.
pub fn show(event: v1::Event, format: Format, theme: Theme) -> Result<()> {
    events::show_missed(event.missed, format)?;
    let event_json = json(event);
    match serde_json::from_value::<Event>(event_json.clone()) {
        Ok(event) if event.kind != EventKind::Unknown => events::show(&event, format, theme),
        // Of a newer control.
        _ => output::line(&event_json.to_string()),
    }
}

/// The event as `covalent events --format json` has it.
fn json(event: v1::Event) -> Value {
    let mut fields = from_struct(event.details.unwrap_or_default());
    fields.insert("sequence".into(), event.sequence.into());
    fields.insert("realtime_ns".into(), event.realtime_ns.into());
    fields.insert("event".into(), event.kind.into());
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_event_of_the_daemon() {
        let of_daemon = Event {
            sequence: 7,
            realtime_ns: 1_795_430_826_123_456_789,
            kind: EventKind::Detached {
                session: 3,
                reason: "closed".into(),
                pipes: 1,
                regions: 2,
            },
        };
        let Ok(Value::Object(mut details)) = serde_json::to_value(&of_daemon.kind) else {
            panic!("an object");
        };
        let kind = details
            .remove("event")
            .and_then(|kind| kind.as_str().map(str::to_owned));
        let event_json = v1::Event {
            position: 9,
            sequence: of_daemon.sequence,
            realtime_ns: of_daemon.realtime_ns,
            kind: kind.expect("a kind"),
            details: Some(covalent_grpc_schema::to_struct(details)),
            missed: 0,
        };
        let read: Event = serde_json::from_value(json(event_json)).expect("an event");
        assert_eq!(read, of_daemon);
    }
}
