//! Work that a group does inside its calls: takes in envelopes and completions, and sends pending
//! messages.

use std::time::Instant;

use covalent_protocol::{
    Refusal,
    group::{End, GroupStanding, Notice},
};

use super::{Group, errands::Errand};
use crate::{ends::Ended, error::Result, verb::Outcome};

/// Messages that are taken in before anything else is looked at.
const MESSAGES_AT_A_TIME: usize = 64;

impl Group<'_> {
    /// Does all pending work. Does not block.
    pub(super) fn drive(&mut self) -> Result<()> {
        self.receive()?;
        self.collect()?;
        let now = Instant::now();
        let ticks = now >= self.next_tick;
        if ticks {
            self.next_tick = now + self.options.tick_interval;
            self.machine.on_tick();
        }
        self.notice(ticks);
        let searching = self.machine.is_discovering() && self.discover(now)?;
        let sent = self.send_envelopes()?;
        let watching = self.watch(now)?;
        if sent || searching || watching {
            self.verbs.ring()?;
        }
        if self.is_over() {
            // Members that still count this incarnation learn from the refusal.
            self.queue = None;
        }
        Ok(())
    }

    /// Publishes this member's standing to the local node: at each tick, and when the standing or
    /// the view changes.
    fn notice(&mut self, ticks: bool) {
        let view = self.machine.view().map_or(0, |view| view.number);
        let now = Some((self.machine.standing(), view));
        if ticks || self.noticed != now {
            self.noticed = now;
            let notice = Notice::of(&self.machine, self.name, self.incarnation);
            self.device
                .publish_group_notice(self.place, &notice.to_words());
        }
    }

    fn receive(&mut self) -> Result<()> {
        for _ in 0..MESSAGES_AT_A_TIME {
            let Some(queue) = &mut self.queue else {
                return self.device.check_connection_if_due();
            };
            let Some(message) = queue.recv()? else {
                break;
            };
            // The state machine counted invalid envelopes. Any application may have sent them.
            let _ = self
                .machine
                .on_envelope(message.sender.bits(), message.data);
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<()> {
        while let Some((user_data, ended)) = self.verbs.take_end()? {
            match (self.errands.remove(user_data), ended) {
                // The node's watch reports that no path leads to the node. Only the watch reports
                // when one returns.
                (Some(Errand::Envelope { ticket }), Ended::Verb(outcome)) => {
                    self.machine.on_end(ticket, end_of(&outcome));
                }
                (Some(Errand::Lookup { guid }), Ended::Found(region)) => {
                    self.on_lookup(guid, Some(&region));
                }
                (Some(Errand::Lookup { guid }), Ended::Verb(_)) => self.on_lookup(guid, None),
                (Some(Errand::Watch { guid }), Ended::Path { up }) => {
                    self.paths.reported(guid, up);
                    self.machine.on_path(guid, up);
                }
                (Some(Errand::Watch { guid }), Ended::Verb(_)) => {
                    self.paths.end(guid);
                    self.next_watch = Instant::now() + self.options.tick_interval;
                }
                // The daemon sent an impossible completion, or one of a verb that was never posted:
                // ignore it.
                _ => {}
            }
        }
        Ok(())
    }

    /// Posts watches for nodes that have none in flight.
    fn watch(&mut self, now: Instant) -> Result<bool> {
        let mut begun = false;
        while now >= self.next_watch
            && let Some((guid, known_up)) = self.paths.next_idle()
            && self.verbs.has_room()
        {
            let user_data = self.errands.insert(Errand::Watch { guid });
            self.verbs.put_watch(guid, known_up, user_data)?;
            self.paths.begin(guid);
            begun = true;
        }
        Ok(begun)
    }

    /// Watches the path to a node that this member sends to. There may be many nodes of
    /// non-members, so at most `members_max` nodes are watched unless the state machine needs the
    /// path.
    fn watch_node(&mut self, guid: u64) {
        if self.machine.needs_path(guid) || self.paths.len() < usize::from(self.options.members_max)
        {
            self.paths.add(guid);
        }
    }

    /// Nothing comes or goes any more.
    fn is_over(&self) -> bool {
        match self.machine.standing() {
            GroupStanding::Stopped => !self.machine.has_news(),
            GroupStanding::Left => self.reported.has_left(),
            _ => false,
        }
    }

    /// Puts the state machine's pending envelopes into the pipe.
    fn send_envelopes(&mut self) -> Result<bool> {
        let mut sent = false;
        while self.verbs.has_room()
            && let Some(parcel) = self.machine.poll_send(&mut self.envelope)
        {
            let (to, ticket) = (parcel.to, parcel.ticket);
            self.watch_node(to.guid);
            let user_data = self.errands.insert(Errand::Envelope { ticket });
            let data = &self.envelope[..parcel.len];
            self.verbs.put_send(to.guid, to.rkey, data, user_data)?;
            sent = true;
        }
        Ok(sent)
    }
}

/// Converts a verb's outcome to that of its envelope.
const fn end_of(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Done => End::Done,
        // The queue is gone, or is not the intended one any more: keys are never reused.
        Outcome::Refused(Refusal::UnknownRegion | Refusal::NoRight | Refusal::OutOfBounds) => {
            End::Gone
        }
        Outcome::Refused(_) | Outcome::NoSuchPeer | Outcome::Malformed => End::NotExecuted,
        // A daemon that forgot an envelope may have restarted or only made room. The refusal of the
        // next envelope shows which.
        _ => End::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_definite_refusal_means_that_a_member_is_gone() {
        for refusal in Refusal::ALL {
            let is_gone = matches!(
                refusal,
                Refusal::UnknownRegion | Refusal::NoRight | Refusal::OutOfBounds
            );
            let end = end_of(&Outcome::Refused(refusal));
            let expected = if is_gone { End::Gone } else { End::NotExecuted };
            assert_eq!(end, expected, "{refusal}");
        }
        assert_eq!(end_of(&Outcome::PeerRestarted), End::Unclear);
        assert_eq!(end_of(&Outcome::NoSuchPeer), End::NotExecuted);
        assert_eq!(end_of(&Outcome::Done), End::Done);
        assert_eq!(end_of(&Outcome::Forgotten), End::Unclear);
        assert_eq!(end_of(&Outcome::BadReply), End::Unclear);
    }
}
