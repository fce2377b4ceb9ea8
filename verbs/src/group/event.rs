//! The last event of a group's state machine, kept for the caller to borrow.

use covalent_protocol::{
    group::{Contact, Event, Group as Machine, Stop, View},
    verb::SEND_BYTES_MAX,
};

/// An event whose bytes are in [`Reported::data`], and whose view is in [`Reported::view`].
#[derive(Debug, Clone, Copy)]
enum Kind {
    View,
    Delivered {
        sender: Contact,
        sequence: u64,
        view: u64,
        position: u64,
        len: usize,
    },
    Stable {
        view: u64,
        position: u64,
    },
    StateWanted {
        to: Contact,
    },
    State {
        len: usize,
        last: bool,
        delivered_to: u64,
    },
    StateVoid,
    Stopped {
        why: Stop,
        undelivered: u64,
    },
    Outcome {
        delivered_to: u64,
    },
    Left,
}

/// The last event.
#[derive(Debug)]
pub(super) struct Reported {
    kind: Option<Kind>,
    view: View,
    data: Box<[u8; SEND_BYTES_MAX]>,
}

impl Reported {
    /// No event yet.
    pub(super) fn new() -> Self {
        Self {
            kind: None,
            view: View::default(),
            data: Box::new([0; SEND_BYTES_MAX]),
        }
    }

    /// Takes the machine's next event; `false` if there is none.
    pub(super) fn take(&mut self, machine: &mut Machine) -> bool {
        let mut keep = |data: &[u8]| {
            let len = data.len().min(SEND_BYTES_MAX);
            self.data[..len].copy_from_slice(&data[..len]);
            len
        };
        let kind = match machine.poll_event() {
            None => return false,
            Some(Event::View(view)) => {
                self.view = *view;
                Kind::View
            }
            Some(Event::Delivered {
                sender,
                sequence,
                view,
                position,
                data,
            }) => Kind::Delivered {
                sender,
                sequence,
                view,
                position,
                len: keep(data),
            },
            Some(Event::Stable { view, position }) => Kind::Stable { view, position },
            Some(Event::StateWanted { to }) => Kind::StateWanted { to },
            Some(Event::State {
                data,
                last,
                delivered_to,
            }) => Kind::State {
                len: keep(data),
                last,
                delivered_to,
            },
            Some(Event::StateVoid) => Kind::StateVoid,
            Some(Event::Stopped { why, undelivered }) => Kind::Stopped { why, undelivered },
            Some(Event::Outcome { delivered_to }) => Kind::Outcome { delivered_to },
            Some(Event::Left) => Kind::Left,
            #[allow(
                unreachable_patterns,
                reason = "the workspace's own programs know them all"
            )]
            Some(_) => return false,
        };
        self.kind = Some(kind);
        true
    }

    /// Whether the last one was that it left.
    pub(super) const fn has_left(&self) -> bool {
        matches!(self.kind, Some(Kind::Left))
    }

    /// The event that was taken last.
    pub(super) fn event(&self) -> Option<Event<'_>> {
        Some(match self.kind? {
            Kind::View => Event::View(&self.view),
            Kind::Delivered {
                sender,
                sequence,
                view,
                position,
                len,
            } => Event::Delivered {
                sender,
                sequence,
                view,
                position,
                data: &self.data[..len],
            },
            Kind::Stable { view, position } => Event::Stable { view, position },
            Kind::StateWanted { to } => Event::StateWanted { to },
            Kind::State {
                len,
                last,
                delivered_to,
            } => Event::State {
                data: &self.data[..len],
                last,
                delivered_to,
            },
            Kind::StateVoid => Event::StateVoid,
            Kind::Stopped { why, undelivered } => Event::Stopped { why, undelivered },
            Kind::Outcome { delivered_to } => Event::Outcome { delivered_to },
            Kind::Left => Event::Left,
        })
    }
}
