//! Where somebody under the group's name is looked for.

use std::time::{Duration, Instant};

use covalent_protocol::{group::Contact, verb as codec};

use super::{Group, errands::Errand};
use crate::{
    error::{Error, Result},
    queue::Verbs,
    shared::Owner,
    verb::Outcome,
};

/// Looks under way at a time.
pub(super) const LOOKS_MAX: usize = 16;

/// How often who has no group, or lost its quorum, looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long the own daemon may take to say who its neighbours are, before it is asked again later.
const ASK_TIMEOUT: Duration = Duration::from_millis(100);

/// Who is looked at.
#[derive(Debug)]
pub(super) struct Looks {
    /// Nodes that the application named.
    named: Vec<u64>,
    /// Nodes that are looked at in this turn.
    due: Vec<u64>,
    /// Nodes whose look has not ended.
    under_way: Vec<u64>,
    next: Instant,
}

impl Looks {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            named: Vec::new(),
            due: Vec::new(),
            under_way: Vec::new(),
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
    fn begin(&mut self, now: Instant, neighbours: impl Iterator<Item = u64>) {
        self.next = now + LOOK_AGAIN;
        self.due.clear();
        let named = self.named.iter().copied();
        for guid in named.chain(neighbours) {
            if !self.due.contains(&guid) && !self.under_way.contains(&guid) {
                self.due.push(guid);
            }
        }
    }

    /// The next node to look at, which is then under way.
    fn take_due(&mut self) -> Option<u64> {
        if self.under_way.len() >= LOOKS_MAX {
            return None;
        }
        let guid = self.due.pop()?;
        self.under_way.push(guid);
        Some(guid)
    }

    fn end(&mut self, guid: u64) {
        self.under_way.retain(|&other| other != guid);
    }
}

impl Group<'_> {
    /// Puts looks under way, while this member has no group or its view no quorum. `true` if there were some.
    pub(super) fn look(&mut self, verbs: &mut Verbs<'_>, now: Instant) -> Result<bool> {
        if now >= self.looks.next {
            self.begin_looks(now)?;
        }
        let mut begun = false;
        while verbs.has_room()
            && let Some(guid) = self.looks.take_due()
        {
            let user_data = self.errands.insert(Errand::Look { guid });
            let name = &self.queue_name;
            verbs.put_lookup(Owner(self.number), guid, name, user_data)?;
            begun = true;
        }
        Ok(begun)
    }

    fn begin_looks(&mut self, now: Instant) -> Result<()> {
        let own = self.device.address().bits();
        match self.device.status_until(Some(now + ASK_TIMEOUT)) {
            Ok(status) => {
                let up = status.links.iter().filter(|link| link.state == "up");
                let neighbours = up.filter_map(|link| link.peer).map(|guid| guid.bits());
                self.looks
                    .begin(now, neighbours.filter(|&guid| guid != own));
            }
            Err(Error::Deadline { .. }) => self.looks.begin(now, std::iter::empty()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// A look ended: somebody is there, or nobody yet.
    pub(super) fn looked(&mut self, guid: u64, outcome: &Outcome) {
        self.looks.end(guid);
        let Outcome::Data(data) = outcome else { return };
        if let Some(info) = codec::Reply::ok(data).region() {
            // Whose stay it is, it says itself.
            self.machine.on_contact(Contact {
                guid,
                rkey: info.rkey,
                ..Contact::default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_looked_at_once_at_a_time() {
        let now = Instant::now();
        let mut looks = Looks::new(now);
        looks.name(7);
        looks.name(7);
        looks.begin(now, [8, 7, 8].into_iter());
        assert_eq!((looks.take_due(), looks.take_due()), (Some(8), Some(7)));
        assert_eq!(looks.take_due(), None);
        looks.end(8);
        looks.begin(now, [8].into_iter());
        assert_eq!(looks.take_due(), Some(8), "7 has not answered");
        assert_eq!(looks.take_due(), None);
        looks.begin(now, 100..200);
        let mut more = 0;
        while looks.take_due().is_some() {
            more += 1;
        }
        assert_eq!(more + 2, LOOKS_MAX);
    }
}
