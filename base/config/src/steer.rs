//! `[[steer]]`: rules that hold before any application binds a pipe.

use std::net::IpAddr;

use super::table::{Choice, Table};
use covalent_api::rule::{Action, Match, Rule, Transport, VLAN_MAX};

/// Most rules in the file.
pub(super) const RULES_MAX: usize = 4096;

/// The value of `match`, before the keys that belong to it are read.
#[derive(Clone, Copy)]
enum Kind {
    FiveTuple,
    Destination,
    Port,
    Prefix,
    Vlan,
    EtherType,
    Any,
}

const ADDRESS: &str = "an IP address, in quotes, such as \"192.0.2.1\" or \"2001:db8::1\"";

/// Reads one rule; `None` if a part of it is missing or wrong, which was noted.
pub(super) fn read(table: &mut Table<'_, '_>) -> Option<Rule> {
    let action = table.required_choice("action");
    let Some(kind) = table.required_choice::<Kind>("match") else {
        table.accept_unknown();
        return None;
    };
    let matches = kind.read(table)?;
    if let Err(problem) = matches.check() {
        table.refuse(problem.key(), problem.to_string());
    }
    Some(Rule {
        matches,
        action: action?,
    })
}

impl Kind {
    fn read(self, table: &mut Table<'_, '_>) -> Option<Match> {
        // Read every key before any `?`, so all problems are recorded and no key is reported as
        // unknown.
        match self {
            Self::FiveTuple => {
                let transport = table.required_choice("transport");
                let (src, src_port) = (address(table, "src"), port(table, "src_port"));
                let (dst, dst_port) = (address(table, "dst"), port(table, "dst_port"));
                Some(Match::FiveTuple {
                    transport: transport?,
                    src: src?,
                    src_port: src_port?,
                    dst: dst?,
                    dst_port: dst_port?,
                })
            }
            Self::Destination => {
                let transport = table.required_choice("transport");
                let (dst, dst_port) = (address(table, "dst"), port(table, "dst_port"));
                Some(Match::Destination {
                    transport: transport?,
                    dst: dst?,
                    dst_port: dst_port?,
                })
            }
            Self::Port => {
                let transport = table.required_choice("transport");
                let dst_port = port(table, "dst_port");
                Some(Match::Port {
                    transport: transport?,
                    dst_port: dst_port?,
                })
            }
            Self::Prefix => {
                let expected = "a prefix, in quotes, such as \"10.1.0.0/16\" or \"2001:db8::/32\"";
                require(table, "dst", expected);
                Some(Match::Prefix {
                    dst: table.parsed("dst", expected)?,
                })
            }
            Self::Vlan => {
                require(table, "vlan", "a VLAN id, 0 to 4095");
                Some(Match::Vlan {
                    vlan: table.integer("vlan", 0..=VLAN_MAX, " (a VLAN id)")?,
                })
            }
            Self::EtherType => {
                let expected = "an EtherType, 0x0600 to 0xffff, such as 0x0806 for ARP";
                require(table, "ethertype", expected);
                Some(Match::EtherType {
                    ethertype: table.integer("ethertype", 0..=u16::MAX, " (0x0600 to 0xffff)")?,
                })
            }
            Self::Any => Some(Match::Any),
        }
    }
}

fn address(table: &mut Table<'_, '_>, key: &'static str) -> Option<IpAddr> {
    require(table, key, ADDRESS);
    table.parsed(key, ADDRESS)
}

fn port(table: &mut Table<'_, '_>, key: &'static str) -> Option<u16> {
    require(table, key, "a port, 0 to 65535");
    table.integer(key, 0..=u16::MAX, "")
}

fn require(table: &mut Table<'_, '_>, key: &'static str, expected: &str) {
    if !table.has(key) {
        table.missing(key, expected);
    }
}

impl Choice for Kind {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("five_tuple", Self::FiveTuple),
        ("destination", Self::Destination),
        ("port", Self::Port),
        ("prefix", Self::Prefix),
        ("vlan", Self::Vlan),
        ("ether_type", Self::EtherType),
        ("any", Self::Any),
    ];
}

impl Choice for Transport {
    const CHOICES: &'static [(&'static str, Self)] = &[("tcp", Self::Tcp), ("udp", Self::Udp)];
}

impl Choice for Action {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("kernel", Self::Kernel),
        ("dataplane", Self::Dataplane),
        ("drop", Self::Drop),
    ];
}
