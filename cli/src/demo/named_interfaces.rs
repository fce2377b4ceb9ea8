//! Existing interfaces instead of virtual cables: `--interfaces`.
//!
//! Each pair is the two ends of one cable. The first interface moves into the namespace of node a,
//! the second into that of node b. Both keep their names. When the namespaces are destroyed, the
//! kernel returns real devices to their original namespace, set down.

use std::{
    os::fd::{AsFd, AsRawFd},
    str::FromStr,
};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use rtnetlink::{LinkUnspec, packet_route::link::LinkAttribute};

use super::{namespace::Namespace, veth};
use crate::netlink::with_netlink;

/// The two ends of one cable, by the names of their interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Node a's.
    pub a: String,
    /// Node b's.
    pub b: String,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(',') {
            Some((a, b)) if !a.is_empty() && !b.is_empty() && a != b && !b.contains(',') => {
                Ok(Self {
                    a: a.into(),
                    b: b.into(),
                })
            }
            _ => Err("a pair is two names with a comma between, such as eth1,eth2".into()),
        }
    }
}

/// Moves an interface into `namespace`, sets it up and makes it promiscuous. Returns its address.
///
/// # Errors
/// Fails if the interface does not exist, or if the kernel refuses.
pub fn take(namespace: &Namespace, interface: &str) -> Result<[u8; 6]> {
    let mac = with_netlink(|handle| async move {
        let message = handle
            .link()
            .get()
            .match_name(interface)
            .execute()
            .try_next()
            .await
            .with_context(|| format!("cannot find the interface {interface}"))?
            .with_context(|| format!("there is no interface {interface}"))?;
        let moved = LinkUnspec::new_with_index(message.header.index)
            .down()
            .setns_by_fd(namespace.as_fd().as_raw_fd())
            .build();
        handle
            .link()
            .change(moved)
            .execute()
            .await
            .with_context(|| format!("cannot move {interface} into its own namespace"))?;
        let mac = message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                LinkAttribute::Address(bytes) => <[u8; 6]>::try_from(bytes.as_slice()).ok(),
                _ => None,
            });
        mac.with_context(|| format!("{interface} has no Ethernet address"))
    })?;
    veth::set_promiscuous(namespace, interface)?;
    veth::set_up(namespace, interface, true)?;
    Ok(mac)
}

/// Runs the command that cuts the first cable, with `off` or `on` behind it.
///
/// # Errors
/// When it cannot be run or fails.
pub fn run_cut_command(command: &str, cut: bool) -> Result<()> {
    let state = if cut { "off" } else { "on" };
    let status = std::process::Command::new("sh")
        .args(["-c", &format!("{command} \"$0\""), state])
        .status()
        .with_context(|| format!("cannot run `{command} {state}`"))?;
    if !status.success() {
        bail!("`{command} {state}` failed ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nix::unistd::geteuid;

    use super::*;
    use crate::{demo::veth::End, netlink::interfaces};

    #[test]
    fn a_pair_is_two_names() {
        let pair = Pair {
            a: "eth1".into(),
            b: "eth2".into(),
        };
        assert_eq!("eth1,eth2".parse(), Ok(pair));
        for wrong in ["", "eth1", "eth1,", ",eth2", "eth1,eth1", "a,b,c"] {
            assert!(wrong.parse::<Pair>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_receives_its_action_and_its_failure_counts() {
        run_cut_command("test off =", true).expect("off");
        run_cut_command("test on =", false).expect("on");
        assert!(run_cut_command("test on =", true).is_err());
        assert!(run_cut_command("/nonexistent/command", true).is_err());
    }

    #[test]
    fn an_interface_is_moved_and_set_up() {
        if !geteuid().is_root() {
            eprintln!("skipped: making network namespaces needs root");
            return;
        }
        let (from, to) = (
            Namespace::create().expect("namespace"),
            Namespace::create().expect("namespace"),
        );
        let end = |interface, last| End {
            namespace: &from,
            interface,
            mac: [2, 0, 0, 0, 0, last],
        };
        veth::join(end("left", 1), end("right", 2)).expect("the pair is made");
        let mac = from.run(|| take(&to, "left")).expect("it is moved");
        assert_eq!(mac, [2, 0, 0, 0, 0, 1]);
        let there = to.run(interfaces).expect("netlink");
        assert!(
            there
                .iter()
                .any(|interface| interface.name == "left" && interface.up)
        );
        assert!(
            from.run(|| take(&to, "left")).is_err(),
            "it is not here any more"
        );
    }
}
