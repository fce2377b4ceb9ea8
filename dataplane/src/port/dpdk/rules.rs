//! Selects the steering rules that the device itself carries out.
//!
//! Drivers share no notion of precedence between a device's rules. The device therefore gets a drop
//! rule only while no more specific rule has another action: no other rule may claim a frame that
//! it matches. The lane enforces all rules anyway; the device only saves it the frames.

use std::net::IpAddr;

use covalent_api::rule::{Action, Match, Transport};

use crate::port::SteerChange;

/// The rules of a port, each with the device's handles for it.
#[derive(Debug)]
pub(super) struct Rules<T> {
    rules: Vec<Rule<T>>,
}

#[derive(Debug)]
struct Rule<T> {
    matches: Match,
    action: Action,
    /// Empty while the lane alone carries it out.
    in_device: Vec<T>,
}

/// A rule that drops matching frames, as the shim's `covalent_rule`. Numbers are in host byte
/// order, addresses in network order.
#[derive(Debug, Clone, Copy)]
pub(super) struct DropRule {
    /// `EtherType` of a frame without a VLAN tag; 0 for any.
    pub(super) ethertype: u16,
    /// -1 for any.
    pub(super) vlan: i32,
    /// 0 for any, 4 or 6.
    pub(super) ip_version: u8,
    /// Protocol number; 0 for any.
    pub(super) transport: u8,
    /// Prefix lengths of the addresses: 0 for any.
    pub(super) source_bits: u8,
    pub(super) destination_bits: u8,
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
    /// -1 for any.
    pub(super) source_port: i32,
    pub(super) destination_port: i32,
}

/// A device that carries rules out.
pub(super) trait Device {
    /// The device's handle for a rule.
    type Handle;
    /// Installs a rule that drops frames that `rule` matches. Returns `None` if the device has no
    /// such rule.
    fn drop_rule(&mut self, rule: &DropRule) -> Option<Self::Handle>;
    /// Takes a rule back.
    fn end_rule(&mut self, handle: Self::Handle);
}

impl<T> Rules<T> {
    pub(super) const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Applies one change, in the lane's table and in the device.
    pub(super) fn apply(&mut self, change: &SteerChange, device: &mut impl Device<Handle = T>) {
        let (matches, action) = match change {
            SteerChange::Insert(matches, action) => (matches, Some(*action)),
            SteerChange::Remove(matches) => (matches, None),
            SteerChange::Default(_) => return,
        };
        if let Some(at) = self.rules.iter().position(|rule| rule.matches == *matches) {
            let mut rule = self.rules.swap_remove(at);
            withdraw(&mut rule, device);
        }
        if let Some(action) = action {
            self.rules.push(Rule {
                matches: matches.clone(),
                action,
                in_device: Vec::new(),
            });
        }
        self.settle(device);
    }

    /// Removes the rules that the device may no longer have, then installs those that it may have.
    fn settle(&mut self, device: &mut impl Device<Handle = T>) {
        let allowed: Vec<bool> = self.rules.iter().map(|rule| self.may_drop(rule)).collect();
        for (rule, _) in self
            .rules
            .iter_mut()
            .zip(&allowed)
            .filter(|(_, allowed)| !**allowed)
        {
            withdraw(rule, device);
        }
        for (rule, _) in self
            .rules
            .iter_mut()
            .zip(&allowed)
            .filter(|(_, allowed)| **allowed)
        {
            if rule.in_device.is_empty() {
                hand_over(rule, device);
            }
        }
    }

    fn may_drop(&self, rule: &Rule<T>) -> bool {
        rule.action == Action::Drop
            && !self.rules.iter().any(|other| {
                other.action != Action::Drop && rank(&other.matches) < rank(&rule.matches)
            })
    }

    /// Rules that the device carries out.
    #[cfg(test)]
    fn in_device(&self) -> Vec<&Match> {
        let mut all: Vec<&Match> = self
            .rules
            .iter()
            .filter(|rule| !rule.in_device.is_empty())
            .map(|rule| &rule.matches)
            .collect();
        all.sort();
        all
    }
}

fn withdraw<T>(rule: &mut Rule<T>, device: &mut impl Device<Handle = T>) {
    for handle in rule.in_device.drain(..) {
        device.end_rule(handle);
    }
}

/// All of a rule's parts or none.
fn hand_over<T>(rule: &mut Rule<T>, device: &mut impl Device<Handle = T>) {
    for part in parts(&rule.matches) {
        let Some(handle) = device.drop_rule(&part) else {
            withdraw(rule, device);
            return;
        };
        rule.in_device.push(handle);
    }
}

/// Order of precedence: the smaller the more specific.
fn rank(matches: &Match) -> (u8, u8) {
    match matches {
        Match::FiveTuple { .. } => (0, 0),
        Match::Destination { .. } => (1, 0),
        Match::Port { .. } => (2, 0),
        Match::Prefix { dst } => (3, 128 - dst.prefix_len().min(128)),
        Match::Vlan { .. } => (4, 0),
        Match::EtherType { .. } => (5, 0),
        Match::Any => (6, 0),
    }
}

const ANYTHING: DropRule = DropRule {
    ethertype: 0,
    vlan: -1,
    ip_version: 0,
    transport: 0,
    source_bits: 0,
    destination_bits: 0,
    source: [0; 16],
    destination: [0; 16],
    source_port: -1,
    destination_port: -1,
};

/// Translates a match into device rules. Returns none for a match that the device is not asked to
/// carry out.
fn parts(matches: &Match) -> Vec<DropRule> {
    let to = |transport: Option<Transport>, dst: IpAddr, bits: u8, dst_port: Option<u16>| {
        let mut rule = DropRule {
            transport: transport.map_or(0, Transport::ip_protocol),
            destination_bits: bits,
            destination_port: dst_port.map_or(-1, i32::from),
            ..ANYTHING
        };
        (rule.ip_version, rule.destination) = wide(dst);
        rule
    };
    let whole = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    match *matches {
        Match::FiveTuple {
            transport,
            src,
            src_port,
            dst,
            dst_port,
        } => {
            let mut rule = to(Some(transport), dst, whole(dst), Some(dst_port));
            rule.source = wide(src).1;
            rule.source_bits = whole(src);
            rule.source_port = src_port.into();
            vec![rule]
        }
        Match::Destination {
            transport,
            dst,
            dst_port,
        } => vec![to(Some(transport), dst, whole(dst), Some(dst_port))],
        Match::Port {
            transport,
            dst_port,
        } => [4, 6]
            .map(|ip_version| DropRule {
                ip_version,
                transport: transport.ip_protocol(),
                destination_port: dst_port.into(),
                ..ANYTHING
            })
            .to_vec(),
        Match::Prefix { dst } => vec![to(None, dst.addr(), dst.prefix_len(), None)],
        Match::Vlan { vlan } => vec![DropRule {
            vlan: vlan.into(),
            ..ANYTHING
        }],
        Match::EtherType { ethertype } => vec![DropRule {
            ethertype,
            ..ANYTHING
        }],
        Match::Any => Vec::new(),
    }
}

/// Version and bytes of an address.
fn wide(address: IpAddr) -> (u8, [u8; 16]) {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            (4, bytes)
        }
        IpAddr::V6(address) => (6, address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that keeps the rules it was given and has no rules for VLANs.
    #[derive(Default)]
    struct Card {
        next: u32,
        held: Vec<u32>,
    }

    impl Device for Card {
        type Handle = u32;

        fn drop_rule(&mut self, rule: &DropRule) -> Option<u32> {
            if rule.vlan >= 0 || rule.ip_version == 6 {
                return None;
            }
            self.next += 1;
            self.held.push(self.next);
            Some(self.next)
        }

        fn end_rule(&mut self, handle: u32) {
            let at = self.held.iter().position(|held| *held == handle);
            self.held.swap_remove(at.expect("it has the rule"));
        }
    }

    fn prefix(text: &str) -> Match {
        Match::Prefix {
            dst: text.parse().expect("a prefix"),
        }
    }

    #[test]
    fn the_device_drops_only_frames_without_a_more_specific_match() {
        let (mut rules, mut card) = (Rules::new(), Card::default());
        let wide = prefix("10.0.0.0/8");
        let narrow = prefix("10.1.0.0/16");
        rules.apply(&SteerChange::Insert(wide.clone(), Action::Drop), &mut card);
        assert_eq!(rules.in_device(), [&wide]);
        rules.apply(
            &SteerChange::Insert(narrow.clone(), Action::Dataplane),
            &mut card,
        );
        assert!(
            rules.in_device().is_empty() && card.held.is_empty(),
            "a pipe claims part of it"
        );
        rules.apply(&SteerChange::Remove(narrow.clone()), &mut card);
        assert_eq!(rules.in_device(), [&wide]);
        // A wider rule that claims frames does no harm.
        rules.apply(
            &SteerChange::Insert(Match::Any, Action::Dataplane),
            &mut card,
        );
        assert_eq!(rules.in_device(), [&wide]);
        rules.apply(
            &SteerChange::Insert(wide.clone(), Action::Kernel),
            &mut card,
        );
        assert!(card.held.is_empty());
    }

    #[test]
    fn a_rule_that_the_device_supports_in_part_is_not_installed() {
        let (mut rules, mut card) = (Rules::new(), Card::default());
        let port = Match::Port {
            transport: Transport::Udp,
            dst_port: 53,
        };
        rules.apply(&SteerChange::Insert(port, Action::Drop), &mut card);
        assert!(card.held.is_empty(), "it has no IPv6");
        rules.apply(
            &SteerChange::Insert(Match::Vlan { vlan: 7 }, Action::Drop),
            &mut card,
        );
        assert!(card.held.is_empty());
    }

    #[test]
    fn a_match_means_the_same_to_a_device() {
        let five = parts(&Match::FiveTuple {
            transport: Transport::Tcp,
            src: "192.0.2.1".parse().expect("an address"),
            src_port: 1,
            dst: "192.0.2.2".parse().expect("an address"),
            dst_port: 65_535,
        });
        assert_eq!((five[0].transport, five[0].ip_version), (6, 4));
        assert_eq!((five[0].source_bits, five[0].destination_bits), (32, 32));
        assert_eq!((five[0].source_port, five[0].destination_port), (1, 65_535));
        assert_eq!(five[0].destination[..5], [192, 0, 2, 2, 0]);
        assert!(parts(&Match::Any).is_empty());
    }
}
