//! The neighbor is a copy of this machine, GUID and all.

use std::fs;

use crate::{
    broken::{Broken, Expected, MadeOf},
    support::node::Node,
    ward::Ward,
};

/// The neighbor's identity.
fn guid(ward: &Ward) -> std::path::PathBuf {
    ward.at("copy/state/guid")
}

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
        let copy = Node::up(ward.place(), "copy", &ward.at("cable.sock"), "");
        copy.run(&["down"]);
        fs::copy(ward.at("state/guid"), guid(ward)).unwrap();
        let (up, printed) = copy.run(&["up"]);
        assert!(up, "{printed}");
        ward.kept.push(Box::new(copy));
    },
    findings: &[Expected {
        check: "link p0",
        level: "failed",
        found: &["GUID"],
        cure: "state_dir",
    }],
    mend: |ward, _| {
        let copy = ward.kept[0].downcast_ref::<Node>().unwrap();
        copy.run(&["down"]);
        fs::remove_file(guid(ward)).unwrap();
        let (up, printed) = copy.run(&["up"]);
        assert!(up, "{printed}");
    },
};
