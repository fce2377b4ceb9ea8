//! The diary of a member: all its calls and events, each written before any consequence of it is
//! sent. In time order, the lines of all members form a possible course of events, whichever
//! process is killed.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use covalent::GroupCounters;
use covalent_sim::group::book::Digest;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, by the machine's monotonic clock.
    pub at_ns: u64,
    /// The entry.
    pub record: Record,
}

/// State that an application computes from its messages: their number, and a mix of them.
pub type Made = (u64, u64);

/// A call or an event of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// An incarnation begins.
    Began {
        guid: u64,
        incarnation: u64,
        founders: u8,
        former: Option<u64>,
    },
    /// It multicast a message.
    Requested {
        number: u64,
        sequence: u64,
        bytes: usize,
    },
    View {
        group: u64,
        number: u64,
        /// Address, incarnation and key of each.
        members: Vec<(u64, u64, u32)>,
        voters: u32,
    },
    Delivered {
        /// The number in its bytes.
        number: u64,
        bytes: usize,
        /// Its bytes are those that this number has.
        whole: bool,
        sender: u64,
        sequence: u64,
        view: u64,
        position: u64,
    },
    Stable {
        view: u64,
        position: u64,
    },
    /// It gives the state that it has now.
    StateWanted {
        to: u64,
        made: Made,
    },
    State {
        last: bool,
        /// The state that arrived, at the last piece.
        made: Option<Made>,
        /// Own messages that are in it.
        delivered_to: u64,
    },
    StateVoid,
    Stopped {
        why: Why,
        undelivered: u64,
    },
    Outcome {
        delivered_to: u64,
    },
    /// The incarnation ends here, with the group's counters and the application's state.
    Ended {
        counted: Counted,
        made: Made,
    },
    /// It was killed, or its daemon was.
    Died,
}

/// Why it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    Minority { reached: u32, voters: u32 },
    Excluded,
    OtherGroup { group: u64, members: u8 },
}

/// Of the group's counters those that an application can count too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub multicasts: u64,
    pub deliveries: u64,
    /// Views that began. The group never reports a founder's first view, and has not reported the
    /// last one yet.
    pub views: u64,
}

impl From<&GroupCounters> for Counted {
    fn from(counters: &GroupCounters) -> Self {
        Self {
            multicasts: counters.multicasts,
            deliveries: counters.deliveries,
            views: counters.views,
        }
    }
}

/// A digest in the form of a diary.
pub const fn made(digest: Digest) -> Made {
    (digest.count, digest.mix)
}

/// A diary that is being written. Written lines persist even if the writer is killed.
pub struct Diary(File);

impl Diary {
    pub fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(file.expect("room on the disk"))
    }

    pub fn write(&mut self, record: Record) {
        let line = Line {
            at_ns: now_ns(),
            record,
        };
        let mut bytes = serde_json::to_vec(&line).expect("plain data");
        bytes.push(b'\n');
        // One call: all of it, or nothing.
        self.0.write_all(&bytes).expect("room on the disk");
    }
}

/// Returns the last incarnation in a diary.
pub fn last_incarnation(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().rev().find_map(|line| match read(line).record {
        Record::Began { incarnation, .. } => Some(incarnation),
        _ => None,
    })
}

/// A diary that is read while it is written.
pub struct Reader {
    path: PathBuf,
    file: Option<File>,
    offset: u64,
    rest: Vec<u8>,
}

impl Reader {
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            offset: 0,
            rest: Vec::new(),
        }
    }

    /// The lines that were written since.
    pub fn more(&mut self) -> Vec<Line> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &self.file else {
            return Vec::new();
        };
        let mut buffer = [0; 1 << 14];
        loop {
            let read = file.read_at(&mut buffer, self.offset).expect("a diary");
            if read == 0 {
                break;
            }
            self.offset += read as u64;
            self.rest.extend_from_slice(&buffer[..read]);
        }
        let whole = self.rest.iter().rposition(|&byte| byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        let text = String::from_utf8(lines).expect("text");
        text.lines().map(read).collect()
    }
}

fn read(line: &str) -> Line {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("`{line}`: {error}"))
}

/// The machine's monotonic clock, which all processes read alike.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("there is one");
    now.tv_sec().cast_unsigned() * 1_000_000_000 + now.tv_nsec().cast_unsigned()
}
