//! Broken hosts, and how the tests judge them.

use crate::ward::{self, Ward};

/// A host that is broken in one way.
pub struct Broken {
    /// Its components.
    pub made_of: MadeOf,
    /// Breaks it.
    pub breaks: fn(&mut Ward),
    /// The exact findings that the doctor must report then.
    pub findings: &'static [Expected],
    /// Applies the remedies of those findings, given in the same order.
    pub mend: fn(&mut Ward, &[String]),
}

/// The components of a host. All but the first need root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MadeOf {
    /// A node's file with a port at a cable, and no node.
    File,
    /// Its own namespaces and no node. The node's file has a port on the interface `near0`.
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
    /// The examined object. `PLACE` stands for the host's directory, and … at the end for any text.
    pub check: &'static str,
    /// `warning` or `failed`.
    pub level: &'static str,
    /// Words of the finding.
    pub found: &'static [&'static str],
    /// Words of the cure.
    pub cure: &'static str,
}

impl Broken {
    /// Expects no finding on the intact host, exactly the expected ones when it is broken, and none
    /// after the remedies.
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
