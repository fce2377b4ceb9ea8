//! A state: control, the dataplane, the connections between them, and the file.

use std::collections::BTreeMap;

use covalent_protocol::agreement::Held;

use super::{
    control::{Connection, Control},
    dataplane::Dataplane,
    scenario::Budget,
};

/// The initial configuration in the file.
pub const FILE: u64 = 0xf;
/// The configurations that an edit puts into the file.
pub const EDITED: [u64; 2] = [0xa, 0xb];
/// The configuration that a second client offers.
pub const STRANGE: u64 = 0xc;

/// Invariants that are looked at when something happens, and not in each state. A bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Breaches(u8);

/// One of [`Breaches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// A revision has two meanings, or does not come after an earlier one.
    Meaning,
    /// A lane committed an offer that believed a configuration that the lane does not hold.
    Stale,
    /// A client received a false report.
    Untrue,
}

impl Breaches {
    /// Notes that one happened.
    pub fn record(&mut self, breach: Breach) {
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
    /// The control process, if it runs.
    pub control: Option<Control>,
    /// Every connection that was made, by its number.
    pub connections: Vec<Connection>,
    /// The dataplane, if it runs.
    pub dataplane: Option<Dataplane>,
    /// The configuration in the file.
    pub file: u64,
    /// Number of incarnations of the dataplane, including the current one.
    pub incarnations: u64,
    /// The events so far.
    pub spent: Budget,
    /// Every digest that a lane held, by incarnation and revision.
    pub meanings: BTreeMap<(u64, u64), u64>,
    /// The violations found.
    pub breaches: Breaches,
    /// The events of a step, for [`super::sight`], a bit for each. The search reads and clears
    /// them.
    pub observed: u32,
}

impl World {
    /// No process runs yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            control: None,
            connections: Vec::new(),
            dataplane: None,
            file: FILE,
            incarnations: 0,
            spent: Budget::default(),
            meanings: BTreeMap::new(),
            breaches: Breaches::default(),
            observed: 0,
        }
    }

    /// The dataplane starts with the configuration in the file.
    pub fn start_dataplane(&mut self) {
        self.incarnations += 1;
        let held = Held {
            incarnation: self.incarnations,
            epoch: 0,
            digest: self.file,
        };
        self.meanings.insert((held.incarnation, 0), held.digest);
        self.dataplane = Some(Dataplane::new(held));
    }

    /// Whether the dataplane at the other end of control's connection runs.
    #[must_use]
    pub fn is_partner_alive(&self) -> bool {
        let connection = self.control.as_ref().and_then(|control| control.connection);
        connection.is_some_and(|at| self.connections[at].dataplane_end)
    }

    /// Whether the lanes of the incarnation of `held` hold exactly that configuration. True if that
    /// incarnation is over.
    #[must_use]
    pub fn lanes_hold(&self, held: &Held) -> bool {
        let is_over = self.incarnations != held.incarnation;
        let lanes = self.dataplane.as_ref().map(|dataplane| dataplane.lanes);
        is_over || lanes.is_none_or(|lanes| lanes == *held)
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
