//! Which ports go, come and are opened again between two configurations, and in which order.

use std::path::Path;

use covalent_config::{PortConfig, PortKind, is_same_port};

/// See the module. Ports are identified by their index in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortPlan {
    /// In force: ports that hold an object that another port needs, perhaps the same port under
    /// another configuration. They are closed first.
    pub to_detach: Vec<usize>,
    /// Wanted: ports that are opened while all ports in force stay open.
    pub beside: Vec<usize>,
    /// Wanted: ports that are opened after the first are closed.
    pub after: Vec<usize>,
}

/// An object that only one port can have at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held<'a> {
    Interface(&'a str),
    Cable(&'a Path),
    Output(&'a Path),
}

impl PortPlan {
    /// Plans the change from the ports in force to the wanted ones. Ports named in `reopen` are
    /// closed and opened again even if their configuration is unchanged.
    #[must_use]
    pub fn new(now: &[PortConfig], wanted: &[PortConfig], reopen: &[String]) -> Self {
        let is_kept = |port: &PortConfig, others: &[PortConfig]| {
            let mut others = others.iter();
            !reopen.contains(&port.name) && others.any(|other| is_same_port(port, other))
        };
        let leaving = || now.iter().filter(|port| !is_kept(port, wanted));
        let coming = || wanted.iter().filter(|port| !is_kept(port, now));
        let mut plan = Self::default();
        for (at, port) in now.iter().enumerate() {
            if !is_kept(port, wanted) && is_held(port, coming()) {
                plan.to_detach.push(at);
            }
        }
        for (at, port) in wanted.iter().enumerate() {
            if is_kept(port, now) {
                continue;
            }
            if is_held(port, leaving()) {
                plan.after.push(at);
            } else {
                plan.beside.push(at);
            }
        }
        plan
    }
}

/// Whether one of these ports has the same exclusive object as `port`.
fn is_held<'a>(port: &PortConfig, mut by: impl Iterator<Item = &'a PortConfig>) -> bool {
    let held = holds(port);
    held.is_some() && by.any(|other| holds(other) == held)
}

fn holds(port: &PortConfig) -> Option<Held<'_>> {
    match &port.kind {
        PortKind::AfXdp { .. } | PortKind::Dpdk { .. } => {
            port.kind.kernel_interface().map(Held::Interface)
        }
        PortKind::Cable { path, .. } => Some(Held::Cable(path)),
        PortKind::Pcap { output, .. } => output.as_deref().map(Held::Output),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_config::Config;

    use super::*;

    fn ports(ports: &[&str]) -> Vec<PortConfig> {
        let ports: String = ports
            .iter()
            .map(|port| format!("[[port]]\n{port}\n"))
            .collect();
        let text = format!("[node]\nname = \"a\"\n[[lane]]\n[[lane]]\n{ports}");
        Config::parse(&text, "test").unwrap().port
    }

    fn cable(name: &str, path: &str) -> String {
        format!("name = \"{name}\"\nkind = \"cable\"\npath = \"{path}\"")
    }

    fn plan(to_detach: &[usize], beside: &[usize], after: &[usize]) -> PortPlan {
        PortPlan {
            to_detach: to_detach.to_vec(),
            beside: beside.to_vec(),
            after: after.to_vec(),
        }
    }

    #[test]
    fn a_port_that_needs_a_held_object_waits_until_it_is_closed() {
        let (a, b, c) = (cable("a", "/a"), cable("b", "/b"), cable("c", "/c"));
        let now = ports(&[&a, &b, &c]);
        let to = |wanted: &[&str]| PortPlan::new(&now, &ports(wanted), &[]);
        assert_eq!(to(&[&c, &a, &b]), PortPlan::default(), "another order");
        assert_eq!(to(&[&a, &c]), PortPlan::default(), "one goes");
        assert_eq!(to(&[&a, &b, &c, &cable("d", "/d")]), plan(&[], &[3], &[]));
        assert_eq!(to(&[&a, &b, &cable("c", "/e")]), plan(&[], &[2], &[]));
        // Opened again where it is.
        let longer = format!("{b}\nring_slots = 64");
        assert_eq!(to(&[&a, &longer, &c]), plan(&[1], &[], &[1]));
        // Another name, or another lane: another port on the same cable.
        assert_eq!(to(&[&a, &b, &cable("d", "/c")]), plan(&[2], &[], &[2]));
        assert_eq!(
            to(&[&a, &b, &format!("{c}\nlane = 1")]),
            plan(&[2], &[], &[2])
        );
        // Two change places.
        let (x, y) = (cable("a", "/b"), cable("b", "/a"));
        assert_eq!(to(&[&x, &y, &c]), plan(&[0, 1], &[], &[0, 1]));
        // One moves to where another one was, which moves away.
        let (x, y) = (cable("a", "/b"), cable("b", "/e"));
        assert_eq!(to(&[&x, &y, &c]), plan(&[1], &[1], &[0]));
        // The other end of a cable that stays.
        assert_eq!(to(&[&a, &b, &c, &cable("d", "/a")]), plan(&[], &[3], &[]));
    }

    #[test]
    fn a_port_to_be_reopened_is_closed_first() {
        let (a, b, c) = (cable("a", "/a"), cable("b", "/b"), cable("c", "/c"));
        let now = ports(&[&a, &b, &c]);
        let plan_reopening = |names: &[&str], wanted: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            PortPlan::new(&now, &ports(wanted), &names)
        };
        assert_eq!(plan_reopening(&["b"], &[&a, &b, &c]), plan(&[1], &[], &[1]));
        assert_eq!(
            plan_reopening(&["a", "c"], &[&a, &b, &c]),
            plan(&[0, 2], &[], &[0, 2])
        );
        // Beside others that come and go.
        let d = cable("d", "/d");
        assert_eq!(
            plan_reopening(&["c"], &[&a, &c, &d]),
            plan(&[2], &[2], &[1])
        );
    }

    #[test]
    fn interfaces_and_files_that_are_written_are_held_too() {
        let now = ports(&[
            "name = \"x\"\nkind = \"af_xdp\"\ninterface = \"e\"",
            "name = \"y\"\nkind = \"pcap\"\noutput = \"/o\"\ninput = \"/i\"",
        ]);
        let wanted = ports(&[
            "name = \"z\"\nkind = \"af_xdp\"\ninterface = \"e\"",
            "name = \"y\"\nkind = \"pcap\"\noutput = \"/o\"",
            "name = \"w\"\nkind = \"pcap\"\ninput = \"/i\"",
        ]);
        assert_eq!(
            PortPlan::new(&now, &wanted, &[]),
            plan(&[0, 1], &[2], &[0, 1])
        );
    }
}
