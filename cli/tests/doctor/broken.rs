//! What a broken host is, and how it is judged.

use crate::ward::{self, Ward};

/// A host that is broken in one way.
pub struct Broken {
    /// What it is made of.
    pub made_of: MadeOf,
    /// Breaks it.
    pub breaks: fn(&mut Ward),
    /// What the doctor must find then, and nothing else.
    pub findings: &'static [Expected],
    /// Does what the cures of those findings say, which are given in the same order.
    pub mend: fn(&mut Ward, &[String]),
}

/// What a host is made of. All but the first needs root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MadeOf {
    /// A node's file with a port at a cable, and no node.
    File,
    /// Namespaces of its own, in which a node's file has a port on the interface `near0`, and no node.
    Interface,
    /// The same, with the node.
    InterfaceAndNode,
    /// A node that is up, with a port at a cable.
    Node,
    /// The same in namespaces of its own.
    NodeAlone,
}

/// A finding.
pub struct Expected {
    /// What was looked at. `PLACE` stands for the host's directory, and … at the end for anything.
    pub check: &'static str,
    /// `warning` or `failed`.
    pub level: &'static str,
    /// Words of what was found.
    pub found: &'static [&'static str],
    /// Words of the cure.
    pub cure: &'static str,
}

impl Broken {
    /// Finds nothing on the sound host, exactly what is expected when it is broken, and nothing when it is mended.
    pub fn judge(&self) {
        ward::with(self.made_of, |ward| {
            ward.finds(&[]);
            (self.breaks)(ward);
            let cures = ward.finds(self.findings);
            (self.mend)(ward, &cures);
            ward.finds(&[]);
        });
    }
}
