//! Members in one thread, and the verbs between them led by hand.

use covalent_protocol::{
    Name,
    group::{Contact, End, Event, Group, GroupConfig, Life, Members, Ticket, View},
    verb::SEND_BYTES_MAX,
};

/// An envelope that was posted and has not ended.
#[derive(Debug, Clone)]
pub struct Posted {
    pub from: usize,
    pub to: usize,
    pub bytes: Vec<u8>,
    pub ticket: Ticket,
}

/// What an application was told, as the tests compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    View(Box<View>),
    Delivered {
        sender: Life,
        sequence: u64,
        view: u64,
        position: u64,
        data: Vec<u8>,
    },
    Stable(u64, u64),
    Other(String),
}

/// Members of one group and what their applications were told.
#[derive(Debug, Clone)]
pub struct Rack {
    pub groups: Vec<Group>,
    pub told: Vec<Vec<Told>>,
    pub under_way: Vec<Posted>,
}

/// The contact of the member that is the `index`th of a rack.
pub fn contact(index: usize) -> Contact {
    Contact {
        guid: 0x100 + index as u64,
        life: Life(0x1000 + index as u64),
        rkey: 7 + index as u32,
    }
}

pub fn config(index: usize, members_max: u8) -> GroupConfig {
    GroupConfig {
        name: Name::new("rack").unwrap(),
        me: contact(index),
        former: None,
        founders: 0,
        members_max,
        stateless: false,
    }
}

impl Rack {
    /// `n` members of one view, all voters.
    pub fn of(n: usize) -> Self {
        let view = View {
            group: 99,
            number: 1,
            members: (0..n).map(contact).collect(),
            voters: Members::first(n),
        };
        let member = |index| Group::with_view(config(index, n.max(2) as u8), view).unwrap();
        Self {
            groups: (0..n).map(member).collect(),
            told: vec![Vec::new(); n],
            under_way: Vec::new(),
        }
    }

    /// Takes what all members have to say.
    pub fn gather(&mut self) {
        for from in 0..self.groups.len() {
            self.gather_of(from);
        }
    }

    pub fn gather_of(&mut self, from: usize) {
        let mut buffer = [0; SEND_BYTES_MAX];
        loop {
            let news = self.groups[from].has_news();
            let parcel = self.groups[from].poll_send(&mut buffer);
            assert_eq!(news, parcel.is_some(), "has_news tells what poll_send does");
            let Some(parcel) = parcel else { break };
            let to = (parcel.to.guid - 0x100) as usize;
            assert_eq!(parcel.to, contact(to));
            self.under_way.push(Posted {
                from,
                to,
                bytes: buffer[..parcel.len].to_vec(),
                ticket: parcel.ticket,
            });
        }
    }

    /// The envelope at `at` reaches its queue, and is taken.
    pub fn deliver(&mut self, at: usize) {
        let posted = self.under_way.remove(at);
        self.groups[posted.to]
            .on_envelope(contact(posted.from).guid, &posted.bytes)
            .unwrap();
        self.groups[posted.from].on_end(posted.ticket, End::Done);
    }

    /// All that is under way arrives: half a round trip.
    pub fn deliver_all(&mut self) {
        for _ in 0..self.under_way.len() {
            self.deliver(0);
        }
    }

    /// Takes the events of one application.
    pub fn take_events(&mut self, index: usize) {
        while let Some(event) = self.groups[index].poll_event() {
            let told = match event {
                Event::View(view) => Told::View(Box::new(*view)),
                Event::Delivered {
                    sender,
                    sequence,
                    view,
                    position,
                    data,
                } => Told::Delivered {
                    sender: sender.life,
                    sequence,
                    view,
                    position,
                    data: data.to_vec(),
                },
                Event::Stable { view, position } => Told::Stable(view, position),
                other => Told::Other(format!("{other:?}")),
            };
            self.told[index].push(told);
        }
    }

    /// Until nothing is under way and nobody has anything to say. Returns how many envelopes that took.
    pub fn rest(&mut self) -> usize {
        let mut envelopes = 0;
        for _ in 0..100_000 {
            for index in 0..self.groups.len() {
                self.take_events(index);
            }
            self.gather();
            if self.under_way.is_empty() {
                return envelopes;
            }
            envelopes += self.under_way.len();
            self.deliver_all();
        }
        panic!("they never come to rest");
    }

    /// What was delivered to an application: senders, sequences, bytes.
    pub fn delivered(&self, index: usize) -> Vec<(Life, u64, Vec<u8>)> {
        let of = |told: &Told| match told {
            Told::Delivered {
                sender,
                sequence,
                data,
                ..
            } => Some((*sender, *sequence, data.clone())),
            _ => None,
        };
        self.told[index].iter().filter_map(of).collect()
    }
}
