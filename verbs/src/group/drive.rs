//! What a group does inside its calls: takes envelopes and completions in, says what there is to say.

use std::time::Instant;

use covalent_protocol::{
    Refusal,
    group::{End, GroupStanding, Notice},
};

use super::{Group, errands::Errand};
use crate::{
    error::Result,
    queue::Verbs,
    shared::{Ended, Owner},
    verb::Outcome,
};

/// Messages that are taken in before anything else is looked at.
const MESSAGES_AT_A_TIME: usize = 64;

impl Group<'_> {
    /// Does what there is to do. Does not block.
    pub(super) fn drive(&mut self, verbs: &mut Verbs<'_>) -> Result<()> {
        self.receive()?;
        self.collect(verbs)?;
        let now = Instant::now();
        let ticks = now >= self.next_tick;
        if ticks {
            self.next_tick = now + self.options.pace;
            self.machine.on_tick();
        }
        self.notice(ticks);
        let looking = self.machine.looks() && self.look(verbs, now)?;
        let said = self.say(verbs)?;
        let watching = self.watch(verbs, now)?;
        if said || looking || watching {
            verbs.ring()?;
        }
        if self.is_over() {
            // Whoever still takes this stay for a member learns from the refusal.
            self.queue = None;
        }
        Ok(())
    }

    /// Tells the own node what this member is: at each pace, and when that or the view changes.
    fn notice(&mut self, ticks: bool) {
        let view = self.machine.view().map_or(0, |view| view.number);
        let now = Some((self.machine.standing(), view));
        if ticks || self.noticed != now {
            self.noticed = now;
            let notice = Notice::of(&self.machine, self.name, self.life);
            self.device.tell_of_group(self.number, &notice.to_words());
        }
    }

    fn receive(&mut self) -> Result<()> {
        for _ in 0..MESSAGES_AT_A_TIME {
            let Some(queue) = &mut self.queue else {
                return self.device.check_alive_sometimes();
            };
            let Some(message) = queue.recv()? else {
                break;
            };
            // What is no envelope was counted by the machine; anybody may have sent it.
            let _ = self
                .machine
                .on_envelope(message.sender.bits(), message.data);
        }
        Ok(())
    }

    fn collect(&mut self, verbs: &mut Verbs<'_>) -> Result<()> {
        while let Some((user_data, ended)) = verbs.take_of(Owner(self.number))? {
            match (self.errands.remove(user_data), ended) {
                // That no path leads to the node is told by its watch: it alone tells when one does again.
                (Some(Errand::Envelope { ticket }), Ended::Verb(outcome)) => {
                    self.machine.on_end(ticket, end_of(&outcome));
                }
                (Some(Errand::Look { guid }), Ended::Verb(outcome)) => {
                    self.looked(guid, &outcome);
                }
                (Some(Errand::Watch { guid }), Ended::Path { up }) => {
                    self.paths.told(guid, up);
                    self.machine.on_path(guid, up);
                }
                (Some(Errand::Watch { guid }), Ended::Verb(_)) => {
                    self.paths.end(guid);
                    self.watch_again = Instant::now() + self.options.pace;
                }
                // The daemon ended something in a way in which it cannot end, or what was never begun.
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts watches under way for nodes that have none.
    fn watch(&mut self, verbs: &mut Verbs<'_>, now: Instant) -> Result<bool> {
        let mut begun = false;
        while now >= self.watch_again
            && let Some((guid, known_up)) = self.paths.next_idle()
            && verbs.has_room()
        {
            let user_data = self.errands.insert(Errand::Watch { guid });
            verbs.put_watch(Owner(self.number), guid, known_up, user_data)?;
            self.paths.begin(guid);
            begun = true;
        }
        Ok(begun)
    }

    /// The path to a node to which something is said is watched. Of strangers, who can be many, only as
    /// many as there can be members.
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
            GroupStanding::Left => self.told.has_left(),
            _ => false,
        }
    }

    /// Puts what the machine has to say into the pipe.
    fn say(&mut self, verbs: &mut Verbs<'_>) -> Result<bool> {
        let mut said = false;
        while verbs.has_room()
            && let Some(parcel) = self.machine.poll_send(&mut self.envelope)
        {
            let (to, ticket) = (parcel.to, parcel.ticket);
            self.watch_node(to.guid);
            let user_data = self.errands.insert(Errand::Envelope { ticket });
            let data = &self.envelope[..parcel.len];
            verbs.put_send(Owner(self.number), to.guid, to.rkey, data, user_data)?;
            said = true;
        }
        Ok(said)
    }
}

/// What the end of a verb says of an envelope.
const fn end_of(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Done => End::Done,
        // The queue is not there any more, or no longer the one that was meant: keys are never given twice.
        Outcome::Refused(Refusal::UnknownRegion | Refusal::NoRight | Refusal::OutOfBounds) => {
            End::Gone
        }
        Outcome::Refused(_) | Outcome::NoSuchPeer | Outcome::Malformed => End::NotExecuted,
        // A daemon that forgot an envelope may have started afresh or only have made room: the refusal of the next one tells.
        _ => End::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definite_word_of_the_other_daemon_says_that_a_member_is_gone() {
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
    }
}
