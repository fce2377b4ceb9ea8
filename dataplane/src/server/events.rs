//! Events on their way to subscribers.

use std::time::SystemTime;

use covalent_api::{
    datagram,
    event::{Event, EventKind},
    request::Reply,
};

use super::Server;

impl Server {
    /// Counts an event, logs it, stores it and sends it to every subscriber. Returns the bytes
    /// sent.
    pub(super) fn raise(&mut self, kind: EventKind) -> Option<Vec<u8>> {
        self.events += 1;
        covalent_log::log_event(&kind);
        let realtime = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let event = Event {
            sequence: self.events,
            realtime_ns: u64::try_from(realtime.as_nanos()).unwrap_or(u64::MAX),
            kind,
        };
        let bytes = datagram::encode(&Reply::Event(event.clone())).ok()?;
        if let Some(counters) = &mut self.counters {
            counters.event(&event);
        }
        self.recent.keep(event, bytes.len());
        for client in self
            .clients
            .values_mut()
            .filter(|client| client.subscribed && !client.closing)
        {
            client.event(&bytes);
        }
        Some(bytes)
    }
}
