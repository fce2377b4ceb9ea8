//! The protocol between the measurement and a member, one line of JSON per message: a task, the
//! member's contact, all contacts, the results.

use std::path::PathBuf;

use covalent::{Contact, Incarnation};
use serde::{Deserialize, Serialize};

/// Which members send, and how much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// All members, as much as is taken.
    All,
    /// The first one alone, as much as is taken.
    One,
    /// Only the first member sends. It sends the next message when the previous one is delivered.
    Lone,
}

/// The task of a member.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its daemon.
    pub socket: PathBuf,
    /// Members in all.
    pub members: u8,
    /// Which of them it is.
    pub member: u8,
    /// The sending members.
    pub way: Mode,
    /// Bytes of a message.
    pub bytes: u32,
}

/// A [`Contact`] on a line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Reached {
    guid: u64,
    life: u64,
    rkey: u32,
}

impl From<Contact> for Reached {
    fn from(contact: Contact) -> Self {
        Self {
            guid: contact.guid,
            life: contact.incarnation.0,
            rkey: contact.rkey,
        }
    }
}

impl From<Reached> for Contact {
    fn from(reached: Reached) -> Self {
        Self {
            guid: reached.guid,
            incarnation: Incarnation(reached.life),
            rkey: reached.rkey,
        }
    }
}

/// The last word to a member before it begins.
#[derive(Debug, Serialize, Deserialize)]
pub struct Begin {
    /// All members.
    pub contacts: Vec<Reached>,
    /// When counting begins and ends, in nanoseconds of the machine's monotonic clock.
    pub window_ns: [u64; 2],
}

/// The results of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Messages that it delivered while it counted.
    pub counted: u64,
    /// Messages that it delivered in all.
    pub delivered: u64,
    /// Hash over all of them, in order: sender, number, and the bytes.
    pub hash: u64,
    /// Batches that it sent with messages.
    pub batches: u64,
    /// Messages that it sent.
    pub sent: u64,
    /// From a message to its delivery here, in nanoseconds: of [`Mode::Lone`] alone.
    pub round_trips_ns: Vec<u64>,
}
