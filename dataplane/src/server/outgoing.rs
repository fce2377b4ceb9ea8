//! Messages on their way to one client.

use std::{collections::VecDeque, os::fd::OwnedFd};

use covalent_api::{datagram, request::Reply};

/// Events kept for a subscriber that does not read. The next one ends its subscription.
pub const EVENTS_MAX: usize = 256;

/// A message with the descriptors that travel beside it.
#[derive(Debug)]
pub struct Message {
    /// The datagram.
    pub bytes: Vec<u8>,
    /// Its descriptors. Ours are closed once they are sent.
    pub fds: Vec<OwnedFd>,
    is_event: bool,
}

/// A bounded queue: [`EVENTS_MAX`] events, one reply and a final message. No request is read while
/// [`Outgoing::owes_reply`], which bounds the replies.
#[derive(Debug, Default)]
pub struct Outgoing {
    messages: VecDeque<Message>,
    events: usize,
    replies: usize,
}

/// The client read too slowly. Its events are dropped, and it is to be notified and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

impl Outgoing {
    /// Queues a reply.
    pub fn reply(&mut self, reply: &Reply, fds: Vec<OwnedFd>) {
        let bytes = match datagram::encode(reply) {
            Ok(bytes) => bytes,
            Err(error) => refusal(&format!("the answer cannot be sent: {error}")),
        };
        self.replies += 1;
        self.messages.push_back(Message {
            bytes,
            fds,
            is_event: false,
        });
    }

    /// Queues an event that was encoded once for all subscribers.
    ///
    /// # Errors
    /// [`TooSlow`] if as many as may wait are waiting; they are dropped.
    pub fn event(&mut self, bytes: &[u8]) -> Result<(), TooSlow> {
        if self.events == EVENTS_MAX {
            self.messages.retain(|message| !message.is_event);
            self.events = 0;
            return Err(TooSlow);
        }
        self.events += 1;
        self.messages.push_back(Message {
            bytes: bytes.to_vec(),
            fds: Vec::new(),
            is_event: true,
        });
        Ok(())
    }

    /// The next message to send.
    #[must_use]
    pub fn front(&self) -> Option<&Message> {
        self.messages.front()
    }

    /// The next message was sent.
    pub fn sent(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.events -= usize::from(message.is_event);
            self.replies -= usize::from(!message.is_event);
        }
    }

    /// Removes the messages that carry descriptors, for a client that will not need them, and
    /// returns the descriptors. They may be the last references to memory.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        let mut taken = Vec::new();
        self.messages.retain_mut(|message| {
            let bears = !message.fds.is_empty();
            taken.append(&mut message.fds);
            // It is a reply: events bear none.
            self.replies -= usize::from(bears);
            !bears
        });
        taken
    }

    /// Whether a reply waits: nothing more is read from a client that does not read.
    #[must_use]
    pub fn owes_reply(&self) -> bool {
        self.replies > 0
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

fn refusal(reason: &str) -> Vec<u8> {
    // A short text in a message of our own always fits.
    datagram::encode(&Reply::refused(reason)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_slow_subscriber_loses_its_events_and_keeps_its_replies() {
        let mut outgoing = Outgoing::default();
        outgoing.reply(&Reply::Done, Vec::new());
        for _ in 0..EVENTS_MAX {
            assert_eq!(outgoing.event(b"event"), Ok(()));
        }
        assert_eq!(outgoing.event(b"event"), Err(TooSlow));
        assert_eq!(outgoing.messages.len(), 1);
        assert!(outgoing.owes_reply());
        outgoing.sent();
        assert!(!outgoing.owes_reply());
        assert!(outgoing.is_empty() && outgoing.front().is_none());
    }

    #[test]
    fn descriptors_are_taken_with_their_message() {
        let (one, other) = std::io::pipe().unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.event(b"event").unwrap();
        outgoing.reply(&Reply::Done, vec![one.into(), other.into()]);
        outgoing.reply(&Reply::Done, Vec::new());
        assert_eq!(outgoing.take_descriptors().len(), 2);
        assert!(outgoing.take_descriptors().is_empty());
        assert!(outgoing.front().is_some_and(|message| message.is_event));
        outgoing.sent();
        assert!(outgoing.owes_reply(), "the other reply");
        outgoing.sent();
        assert!(outgoing.is_empty() && !outgoing.owes_reply());
    }
}
