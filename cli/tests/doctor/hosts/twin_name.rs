//! The neighbor has this node's name.

use std::fs;

use crate::{
    broken::{Broken, Expected, MadeOf},
    support::node::Node,
};

pub const HOST: Broken = Broken {
    made_of: MadeOf::Node,
    breaks: |ward| {
        let twin = Node::up(ward.place(), "ward", &ward.at("cable.sock"), "");
        ward.kept.push(Box::new(twin));
    },
    findings: &[Expected {
        check: "name ward",
        level: "warning",
        found: &["2 nodes have it"],
        cure: "another node.name",
    }],
    mend: |ward, _| {
        let twin = ward.kept[0].downcast_ref::<Node>().unwrap();
        twin.run(&["down"]);
        let text = fs::read_to_string(twin.file()).unwrap();
        fs::write(twin.file(), text.replace("name = \"ward\"", "name = \"other\"")).unwrap();
        let (up, printed) = twin.run(&["up"]);
        assert!(up, "{printed}");
    },
};
