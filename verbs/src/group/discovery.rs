//! Search for the group: looks up its name on nodes.

use std::time::{Duration, Instant};

use covalent_protocol::group::Contact;

use super::Group;
use crate::{Error, Result};

/// Maximum number of lookups in flight.
pub(super) const LOOKUPS_MAX: usize = 16;

/// Search interval of a member that has no group or lost its quorum.
const DISCOVERY_INTERVAL: Duration = Duration::from_millis(100);

/// How long the local daemon may take to return its neighbors. After that the query is repeated
/// later.
const STATUS_TIMEOUT: Duration = Duration::from_millis(100);

/// The nodes to search.
#[derive(Debug)]
pub(super) struct Lookups {
    /// Nodes that the application named.
    named: Vec<u64>,
    /// Nodes that are looked at in this turn.
    due: Vec<u64>,
    /// Nodes whose lookup has not completed.
    in_flight: Vec<u64>,
    next: Instant,
}

impl Lookups {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            named: Vec::new(),
            due: Vec::new(),
            in_flight: Vec::new(),
            next: now,
        }
    }

    /// Looks at this node too, from now on.
    pub(super) fn name(&mut self, guid: u64) {
        if !self.named.contains(&guid) {
            self.named.push(guid);
            self.next = Instant::now();
        }
    }

    /// Begins a turn: those named, and these.
    fn begin(&mut self, now: Instant, neighbors: impl Iterator<Item = u64>) {
        self.next = now + DISCOVERY_INTERVAL;
        self.due.clear();
        let named = self.named.iter().copied();
        for guid in named.chain(neighbors) {
            if !self.due.contains(&guid) && !self.in_flight.contains(&guid) {
                self.due.push(guid);
            }
        }
    }

    /// Takes the next node to search. Its lookup then counts as in flight.
    pub(super) fn take_due(&mut self) -> Option<u64> {
        if self.in_flight.len() >= LOOKUPS_MAX {
            return None;
        }
        let guid = self.due.pop()?;
        self.in_flight.push(guid);
        Some(guid)
    }

    fn end(&mut self, guid: u64) {
        self.in_flight.retain(|&other| other != guid);
    }
}

impl Group<'_> {
    /// Begins a turn of lookups if one is due.
    pub(super) fn discover(&mut self, now: Instant) -> Result<()> {
        if now < self.lookups.next {
            return Ok(());
        }
        let own = self.device.address().bits();
        match self.device.status_timeout(now + STATUS_TIMEOUT) {
            Ok(status) => {
                let up = status.links.iter().filter(|link| link.state == "up");
                let neighbors = up.filter_map(|link| link.peer).map(|guid| guid.bits());
                self.lookups
                    .begin(now, neighbors.filter(|&guid| guid != own));
            }
            // Not at once again: each query may block this call.
            Err(Error::Deadline { .. }) => self.lookups.begin(Instant::now(), std::iter::empty()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Handles a completed lookup: the key of a member's queue, or none yet.
    pub(super) fn on_lookup(&mut self, guid: u64, found: Option<u32>) {
        self.lookups.end(guid);
        if let Some(rkey) = found {
            // The member itself sends its incarnation.
            self.machine.on_contact(Contact {
                guid,
                rkey,
                ..Contact::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_one_lookup_at_a_time() {
        let now = Instant::now();
        let mut lookups = Lookups::new(now);
        lookups.name(7);
        lookups.name(7);
        lookups.begin(now, [8, 7, 8].into_iter());
        assert_eq!((lookups.take_due(), lookups.take_due()), (Some(8), Some(7)));
        assert_eq!(lookups.take_due(), None);
        lookups.end(8);
        lookups.begin(now, [8].into_iter());
        assert_eq!(lookups.take_due(), Some(8), "7 has not answered");
        assert_eq!(lookups.take_due(), None);
        lookups.begin(now, 100..200);
        let mut more = 0;
        while lookups.take_due().is_some() {
            more += 1;
        }
        assert_eq!(more + 2, LOOKUPS_MAX);
    }
}
