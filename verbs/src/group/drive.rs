//! Work that a group does inside its calls: takes in envelopes and completions, and sends pending
//! messages.

use std::time::Instant;

use covalent_protocol::group::{End, GroupStanding, Notice};

use super::{Group, errands::Errand};
use crate::{Completion, Guid, Mode, Outcome, Refusal, RemoteRegion, Result, Rights, Verb};

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
        self.publish_notice(ticks)?;
        self.post(now)?;
        if self.is_over() {
            // Members that still count this incarnation learn from the refusal.
            self.queue.withdraw();
        }
        Ok(())
    }

    /// Publishes this member's standing to the local node: at each tick, and when the standing or
    /// the view changes.
    fn publish_notice(&mut self, ticks: bool) -> Result<()> {
        let view = self.machine.view().map_or(0, |view| view.number);
        let now = Some((self.machine.standing(), view));
        if ticks || self.noticed != now {
            self.noticed = now;
            let notice = Notice::of(&self.machine, self.name, self.incarnation);
            self.notice.publish(&notice.to_words())?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        for _ in 0..MESSAGES_AT_A_TIME {
            let Some(message) = self.queue.recv()? else {
                break;
            };
            // The state machine counted invalid envelopes. Any application may have sent them.
            let _ = self
                .machine
                .on_envelope(message.sender.bits(), message.data);
        }
        Ok(())
    }

    /// Takes all completions. The last look, which finds none, looks after the daemon and requests
    /// the wake-up if necessary.
    fn collect(&mut self) -> Result<()> {
        loop {
            let taken = self.verbs.try_poll(&mut self.completions[..])?;
            if taken == 0 {
                return Ok(());
            }
            for at in 0..taken {
                self.on_completion(self.completions[at]);
            }
        }
    }

    fn on_completion(&mut self, completion: Completion) {
        let outcome = completion.outcome;
        // The node's watch reports that no path leads to the node. Only the watch reports when one
        // returns.
        if !outcome.is_final() {
            return;
        }
        match (self.errands.remove(completion.user_data), outcome) {
            (Some(Errand::Envelope { ticket }), outcome) => {
                self.machine.on_end(ticket, end_of(&outcome));
            }
            (Some(Errand::Lookup { guid }), Outcome::Region(found)) => {
                self.on_lookup(guid, Some(found.rkey()));
            }
            (Some(Errand::Lookup { guid }), _) => self.on_lookup(guid, None),
            (Some(Errand::Watch { guid }), Outcome::Path { up }) => {
                self.paths.reported(guid, up);
                self.machine.on_path(guid, up);
            }
            (Some(Errand::Watch { guid }), _) => {
                self.paths.end(guid);
                self.next_watch = Instant::now() + self.options.tick_interval;
            }
            (None, _) => {}
        }
    }

    /// Posts everything that is due, with one doorbell: lookups while this member has no group, or
    /// its view no quorum; the state machine's pending envelopes; watches for nodes that have none
    /// in flight.
    fn post(&mut self, now: Instant) -> Result<()> {
        let searches = self.machine.is_discovering();
        if searches {
            self.discover(now)?;
        }
        let mut batch = self.verbs.batch();
        while searches
            && batch.has_room()
            && let Some(guid) = self.lookups.take_due()
        {
            let user_data = self.errands.insert(Errand::Lookup { guid });
            batch.post_lookup(Guid::new(guid), &self.queue_name, user_data)?;
        }
        while batch.has_room()
            && let Some(parcel) = self.machine.poll_send(&mut self.envelope)
        {
            let (to, ticket) = (parcel.to, parcel.ticket);
            let data = &self.envelope[..parcel.len];
            // There may be many nodes of non-members, so at most `members_max` nodes are watched
            // unless the state machine needs the path.
            if self.machine.needs_path(to.guid)
                || self.paths.len() < usize::from(self.options.members_max)
            {
                self.paths.add(to.guid);
            }
            let user_data = self.errands.insert(Errand::Envelope { ticket });
            let queue = RemoteRegion::from_key(Guid::new(to.guid), to.rkey, 0, Rights::SEND);
            batch.post(&queue, Verb::Send { data }, Mode::OnePhase, user_data)?;
        }
        while now >= self.next_watch
            && let Some((guid, known_up)) = self.paths.next_idle()
            && batch.has_room()
        {
            self.paths.begin(guid);
            let Some(node) = Guid::new(guid) else {
                continue;
            };
            let user_data = self.errands.insert(Errand::Watch { guid });
            batch.post_watch(node, known_up, user_data)?;
        }
        batch.ring()
    }

    /// Nothing comes or goes any more.
    fn is_over(&self) -> bool {
        match self.machine.standing() {
            GroupStanding::Stopped => !self.machine.has_news(),
            GroupStanding::Left => self.reported.has_left(),
            _ => false,
        }
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
