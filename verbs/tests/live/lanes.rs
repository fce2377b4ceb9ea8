//! A node with two lanes and a neighbor with a link to each: every lane has its own address and
//! name.

use covalent::{Client, Device, Error, REQUEST_TIMEOUT, Rights, Target, Timeout, Verb};
use covalent_dataplane::Daemon;

use crate::nodes::{config, eventually};

const ADD: Verb<'_> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};

#[test]
fn each_lane_is_reached_by_its_address_and_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let lanes = "[[lane]]\n[[lane]]\n";
    let mut two = config(&directory, "b", &["p0", "p1"], lanes);
    two.port[1].lane = 1;
    let one = config(&directory, "a", &["p0", "p1"], "");
    let _b = Daemon::start(two).unwrap();
    let _a = Daemon::start(one).unwrap();
    let socket = |node: &str| directory.path().join(node).join("covalentd.sock");
    let mut client = Client::connect(socket("a"), "test").unwrap();
    let mut links = Vec::new();
    eventually("both links are up", || {
        links = client.status().unwrap().links;
        links.iter().all(|link| link.state == "up")
    });

    let owners = [0, 1]
        .map(|lane| Device::attach_to_lane(socket("b"), "test", lane, REQUEST_TIMEOUT).unwrap());
    assert_eq!(owners[0].address(), owners[0].node().guid);
    assert_eq!(owners[1].address(), owners[0].address().lane(1));
    let names = owners.each_ref().map(Device::lane_name);
    assert_eq!(names, ["b", "b.1"]);
    for (link, owner) in links.iter().zip(&owners) {
        assert_eq!(link.peer, Some(owner.address()));
        assert_eq!(link.peer_name.as_ref(), Some(&owner.lane_name()));
    }

    let device = Device::attach(socket("a"), "test").unwrap();
    let mut verbs = device.verbs().unwrap();
    for (owner, region) in owners.iter().zip(["left", "right"]) {
        let memory = owner.register_region(region, 64, Rights::ALL).unwrap();
        let name = owner.lane_name();
        let targets = [Target::Guid(owner.address()), Target::Name(&name)];
        for (before, target) in (0..).zip(targets) {
            let there = verbs.open_region(target, region, Timeout::FOREVER).unwrap();
            assert_eq!(there.node(), Some(owner.address()));
            assert_eq!(
                verbs.fetch_add(&there, 0, 1, Timeout::FOREVER).unwrap(),
                before
            );
            let executor = verbs.last_stamp().executor;
            assert_eq!(executor, Some(owner.address()), "a stamp names the lane");
        }
        assert_eq!(memory.load(0).unwrap(), 2);

        // Its own name and address stand for the lane itself, and for no other one.
        let mut own = owner.verbs().unwrap();
        for target in targets {
            let here = own.open_region(target, region, Timeout::FOREVER).unwrap();
            assert_eq!(here.node(), None);
            own.post(&here, ADD, covalent::Mode::OnePhase, 0).unwrap();
        }
    }
    // Another lane of the same node is a neighbor, over the cable in memory between the two.
    let mut client = Client::connect(socket("b"), "test").unwrap();
    eventually("the lanes are joined", || {
        let links = client.status().unwrap().links;
        links.len() == 4 && links.iter().all(|link| link.state == "up")
    });
    let [first, second] = &owners;
    let memory = first.register_region("joint", 64, Rights::ALL).unwrap();
    let mut own = second.verbs().unwrap();
    for (before, target) in (0..).zip([Target::Guid(first.address()), Target::Name("b")]) {
        let there = own.open_region(target, "joint", Timeout::FOREVER).unwrap();
        assert_eq!(there.node(), Some(first.address()));
        assert_eq!(
            own.fetch_add(&there, 0, 1, Timeout::FOREVER).unwrap(),
            before
        );
    }
    assert_eq!(memory.load(0).unwrap(), 2);
    let elsewhere = own
        .open_region(Target::Name("c"), "joint", Timeout::FOREVER)
        .unwrap_err();
    assert!(elsewhere.to_string().contains("b.1"), "{elsewhere}");
}

#[test]
fn a_port_leads_to_the_lane_that_owns_it_and_an_unknown_one_is_refused_with_a_list() {
    let directory = tempfile::tempdir().unwrap();
    let lanes = "[[lane]]\n[[lane]]\n";
    let mut two = config(&directory, "b", &["p0", "p1"], lanes);
    two.port[1].lane = 1;
    let _b = Daemon::start(two).unwrap();
    let socket = directory.path().join("b/covalentd.sock");
    let attach = |port: &str| Device::attach_for_port(&socket, "test", port, REQUEST_TIMEOUT);
    for (port, lane) in [("p0", 0), ("p1", 1)] {
        let device = attach(port).unwrap();
        assert_eq!(device.lane(), lane);
        device.rx_tx_pipe(1 << 16, port).unwrap();
    }
    for name in ["p", "p00", ""] {
        let error = attach(name).unwrap_err();
        assert!(
            matches!(&error, Error::UnknownPort { port, node, known }
                if port == name && node == "b" && known == "p0, p1"),
            "{error:?}"
        );
    }
    let device = attach("p0").unwrap();
    let opened = [
        device.rx_pipe_on(1 << 16, "p2").map(drop),
        device.tx_pipe(1 << 16, "p2").map(drop),
        device.rx_tx_pipe(1 << 16, "p2").map(drop),
        device.byte_pipe_on(1 << 16, "p2").map(drop),
    ];
    for opened in opened {
        assert!(
            matches!(&opened, Err(Error::UnknownPort { port, node, known })
                if port == "p2" && node == "b" && known == "p0, p1"),
            "{opened:?}"
        );
    }
    let other_lanes = device.tx_pipe(1 << 16, "p1").map(drop);
    assert!(
        matches!(other_lanes, Err(Error::Refused { .. })),
        "{other_lanes:?}"
    );
}
