//! Steering rules in the words of the XDP program's loader.

use covalent_api::rule::{Action, Match};
use covalent_ebpf::{EbpfError, Key, Steering};

use crate::port::SteerChange;

/// Applies one change to the maps of the program.
pub(super) fn apply(steering: &mut Steering, change: &SteerChange) -> Result<(), EbpfError> {
    match change {
        SteerChange::Default(action) | SteerChange::Insert(Match::Any, action) => {
            steering.set_default(program_action(*action))
        }
        SteerChange::Remove(Match::Any) => steering.set_default(covalent_ebpf::Action::Kernel),
        SteerChange::Insert(matches, action) => match key(matches) {
            Some(key) => steering.insert(&key, program_action(*action)),
            None => Ok(()),
        },
        SteerChange::Remove(matches) => match key(matches) {
            Some(key) => steering.remove(&key).map(|_| ()),
            None => Ok(()),
        },
    }
}

const fn program_action(action: Action) -> covalent_ebpf::Action {
    match action {
        Action::Kernel => covalent_ebpf::Action::Kernel,
        Action::Dataplane => covalent_ebpf::Action::Dataplane,
        Action::Drop => covalent_ebpf::Action::Drop,
    }
}

/// `None` for [`Match::Any`], which is the default action and has no key.
fn key(matches: &Match) -> Option<Key> {
    Some(match *matches {
        Match::FiveTuple {
            transport,
            src,
            src_port,
            dst,
            dst_port,
        } => Key::FiveTuple {
            proto: transport.ip_protocol(),
            src,
            src_port,
            dst,
            dst_port,
        },
        Match::Destination {
            transport,
            dst,
            dst_port,
        } => Key::Destination {
            proto: transport.ip_protocol(),
            dst,
            dst_port,
        },
        Match::Port {
            transport,
            dst_port,
        } => Key::Port {
            proto: transport.ip_protocol(),
            dst_port,
        },
        Match::Prefix { dst } => Key::Prefix {
            dst: dst.addr(),
            len: dst.prefix_len(),
        },
        Match::Vlan { vlan } => Key::Vlan(vlan),
        Match::EtherType { ethertype } => Key::EtherType(ethertype),
        Match::Any => return None,
    })
}
