//! What a member writes down: everything that it asks and is told, each before anything that follows from it is sent. So in the order of
//! their instants the lines of all members are a course that things may have taken, whoever is killed when.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use covalent_sim::group::book::Digest;
use covalent_verbs::GroupCounters;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, by the machine's monotonic clock.
    pub at_ns: u64,
    /// What.
    pub note: Note,
}

/// What an application makes of what it was told: how many messages, and a mix of them.
pub type Made = (u64, u64);

/// Something that a member asked or was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// It begins a stay.
    Began {
        guid: u64,
        life: u64,
        founders: u8,
        former: Option<u64>,
    },
    /// It multicast a message.
    Asked {
        number: u64,
        sequence: u64,
        bytes: usize,
    },
    View {
        group: u64,
        number: u64,
        /// Address, life and key of each.
        members: Vec<(u64, u64, u32)>,
        voters: u32,
    },
    Delivered {
        /// As its bytes say.
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
        /// What came, at the last piece.
        made: Option<Made>,
        /// Own messages that are in it.
        delivered_to: u64,
    },
    StateVoid,
    Stopped {
        why: Why,
        undelivered: u64,
    },
    Fate {
        delivered_to: u64,
    },
    /// The stay ends here, and this is what the group counted, and what the application has.
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
    /// Those that were begun: the first one of who founds is never told, and the last one not yet.
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

/// What a digest is in a diary.
pub const fn made(digest: Digest) -> Made {
    (digest.count, digest.mix)
}

/// A diary that is written. What was written stays, also if the writer is killed.
pub struct Diary(File);

impl Diary {
    pub fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Self(file.expect("room on the disk"))
    }

    pub fn write(&mut self, note: Note) {
        let line = Line {
            at_ns: now_ns(),
            note,
        };
        let mut bytes = serde_json::to_vec(&line).expect("plain data");
        bytes.push(b'\n');
        // One call: all of it, or nothing.
        self.0.write_all(&bytes).expect("room on the disk");
    }
}

/// The life of the last stay in a diary.
pub fn last_life(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().rev().find_map(|line| match read(line).note {
        Note::Began { life, .. } => Some(life),
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
