//! A state: control, the dataplane, the connections between them, and the file.

use std::collections::BTreeMap;

use covalent_protocol::agreement::Held;

use super::{
    control::{Connection, Control},
    dataplane::Dataplane,
    scenario::Budget,
};

/// What the file says first.
pub const FILE: u64 = 0xf;
/// What it is edited to.
pub const EDITED: [u64; 2] = [0xa, 0xb];
/// What a second client offers.
pub const STRANGE: u64 = 0xc;

/// Invariants that are looked at when something happens, and not in each state. A bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Breaches(u8);

/// One of [`Breaches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// An epoch has two meanings, or does not come after an earlier one.
    Meaning,
    /// A refusal left a trace.
    Trace,
    /// A lane settled an offer that believed what it did not hold.
    Stale,
    /// Somebody was told what is not so.
    Untrue,
}

impl Breaches {
    /// Notes that one happened.
    pub fn note(&mut self, breach: Breach) {
        self.0 |= 1 << breach as u8;
    }

    /// Whether it did.
    #[must_use]
    pub const fn has(self, breach: Breach) -> bool {
        self.0 >> breach as u8 & 1 == 1
    }
}

/// A state of the search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The control process, if it lives.
    pub control: Option<Control>,
    /// Every connection that was made, by its number.
    pub connections: Vec<Connection>,
    /// The dataplane, if it lives.
    pub dataplane: Option<Dataplane>,
    /// What the file says.
    pub file: u64,
    /// Lives that the dataplane had or has.
    pub lives: u64,
    /// What happened so far.
    pub spent: Budget,
    /// Every digest that a lane held, by life and epoch.
    pub meanings: BTreeMap<(u64, u64), u64>,
    /// What was found broken.
    pub breaches: Breaches,
    /// What came by in a step, for [`super::sight`], a bit for each. The search looks at it and forgets it.
    pub came_by: u32,
}

impl World {
    /// Nobody lives yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            control: None,
            connections: Vec::new(),
            dataplane: None,
            file: FILE,
            lives: 0,
            spent: Budget::default(),
            meanings: BTreeMap::new(),
            breaches: Breaches::default(),
            came_by: 0,
        }
    }

    /// The dataplane starts, with what the file says.
    pub fn start_dataplane(&mut self) {
        self.lives += 1;
        let held = Held {
            incarnation: self.lives,
            epoch: 0,
            digest: self.file,
        };
        self.meanings.insert((held.incarnation, 0), held.digest);
        self.dataplane = Some(Dataplane::new(held));
    }

    /// Whether the dataplane that control speaks to lives.
    #[must_use]
    pub fn partner_lives(&self) -> bool {
        let connection = self.control.as_ref().and_then(|control| control.connection);
        connection.is_some_and(|at| self.connections[at].dataplane_end)
    }

    /// Whether every lane of the life of `held` holds exactly that. True if that life is over.
    #[must_use]
    pub fn lanes_hold(&self, held: &Held) -> bool {
        let lanes = self.dataplane.iter().flat_map(|dataplane| &dataplane.lanes);
        let mut of_that_life = lanes.filter(|_| self.lives == held.incarnation);
        of_that_life.all(|lane| lane.slot.held() == *held)
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
