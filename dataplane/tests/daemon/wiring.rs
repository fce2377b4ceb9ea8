//! Miswired cables: the status and an event give the reason that the link does not come up.

use covalent_api::{
    event::EventKind,
    request::{Reply, Request},
};
use covalent_config::PortKind;

use super::node::{Node, eventually};

#[test]
fn a_cable_between_two_ports_of_one_node_is_reported_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = Node::new(dir.path(), "a", &["p0", "p1"], "");
    let both_lead_to = match &node.config.port[0].kind {
        PortKind::Cable { path, .. } => path.clone(),
        other => panic!("{other:?}"),
    };
    if let PortKind::Cable { path, .. } = &mut node.config.port[1].kind {
        path.clone_from(&both_lead_to);
    }
    let node = node.start();
    let set = |enabled| Request::SetPort {
        port: "p0".into(),
        enabled,
    };
    let mut control = node.client();
    control.done(&set(false));
    eventually("nothing is refused without a carrier", || {
        let links = node.status().links;
        links
            .iter()
            .all(|link| link.refusal.is_none() && link.state == "down")
    });
    let mut subscriber = node.client();
    subscriber.done(&Request::Subscribe);
    control.done(&set(true));
    eventually("both links are refused", || {
        let links = node.status().links;
        links.iter().all(|link| {
            link.state == "init"
                && link.refusal.as_ref().is_some_and(|refusal| {
                    refusal.cause == "own_port"
                        && refusal.reason.contains("`p0`")
                        && refusal.reason.contains("`p1`")
                        && !refusal.cure.is_empty()
                })
        })
    });
    control.done(&set(false));
    eventually("that is over with the carrier", || {
        let links = node.status().links;
        links.iter().all(|link| link.refusal.is_none())
    });
    let mut reported = Vec::new();
    while reported.iter().filter(|(_, begins)| !begins).count() < 2 {
        let Some((Reply::Event(event), _)) = subscriber.receive() else {
            panic!("an event")
        };
        match event.kind {
            EventKind::LinkRefused { port, refusal } => {
                assert_eq!(refusal.cause, "own_port");
                reported.push((port, true));
            }
            EventKind::LinkRefusalOver { port } => reported.push((port, false)),
            _ => {}
        }
    }
    reported.sort();
    let twice = |port: &str| [(port.to_owned(), false), (port.to_owned(), true)];
    assert_eq!(reported, [twice("p0"), twice("p1")].concat());
}
