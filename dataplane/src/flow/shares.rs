//! Counts the rules of each user on one port, for the match kinds with a table in the kernel.
//!
//! The kernel's tables have a fixed size, one table per kind of match. One user may hold at most
//! half of a table, so that a single user cannot fill it for all others.

use std::collections::HashMap;

use covalent_api::rule::Match;
use covalent_ebpf::{
    DESTINATIONS_MAX, ETHERTYPES_MAX, FIVE_TUPLES_MAX, PORTS_MAX, PREFIXES_MAX, VLANS_MAX,
};

/// A kind of match that has a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    FiveTuple,
    Destination,
    Port,
    PrefixV4,
    PrefixV6,
    Vlan,
    EtherType,
}

/// Rules by user and kind.
#[derive(Debug, Default)]
pub struct Shares(HashMap<(u32, Kind), u32>);

/// A user has as many rules of a kind as one may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareTaken {
    /// The user.
    pub uid: u32,
    /// The kind of match, in words.
    pub kind: &'static str,
    /// How many that are.
    pub most: u32,
}

impl Shares {
    /// Whether user `uid` may have a rule for `matches` more.
    ///
    /// # Errors
    /// It has as many as it may have.
    pub fn admit(&self, uid: u32, matches: &Match) -> Result<(), ShareTaken> {
        let Some(kind) = Kind::of(matches) else {
            return Ok(());
        };
        let (name, capacity) = kind.table();
        let most = capacity / 2;
        if self.0.get(&(uid, kind)).copied().unwrap_or(0) < most {
            return Ok(());
        }
        Err(ShareTaken {
            uid,
            kind: name,
            most,
        })
    }

    /// User `uid` has the rule now.
    pub fn take(&mut self, uid: u32, matches: &Match) {
        if let Some(kind) = Kind::of(matches) {
            *self.0.entry((uid, kind)).or_default() += 1;
        }
    }

    /// User `uid` has the rule no more.
    pub fn give_back(&mut self, uid: u32, matches: &Match) {
        let Some(kind) = Kind::of(matches) else {
            return;
        };
        if let Some(rules) = self.0.get_mut(&(uid, kind)) {
            *rules -= 1;
            if *rules == 0 {
                self.0.remove(&(uid, kind));
            }
        }
    }
}

impl Kind {
    /// `None` for [`Match::Any`], which is no rule but the default.
    const fn of(matches: &Match) -> Option<Self> {
        Some(match matches {
            Match::FiveTuple { .. } => Self::FiveTuple,
            Match::Destination { .. } => Self::Destination,
            Match::Port { .. } => Self::Port,
            Match::Prefix {
                dst: ipnet::IpNet::V4(_),
            } => Self::PrefixV4,
            Match::Prefix {
                dst: ipnet::IpNet::V6(_),
            } => Self::PrefixV6,
            Match::Vlan { .. } => Self::Vlan,
            Match::EtherType { .. } => Self::EtherType,
            Match::Any => return None,
        })
    }

    /// Its name and the size of its table in the kernel.
    const fn table(self) -> (&'static str, u32) {
        match self {
            Self::FiveTuple => ("five-tuple", FIVE_TUPLES_MAX),
            Self::Destination => ("destination", DESTINATIONS_MAX),
            Self::Port => ("port", PORTS_MAX),
            Self::PrefixV4 => ("IPv4 prefix", PREFIXES_MAX),
            Self::PrefixV6 => ("IPv6 prefix", PREFIXES_MAX),
            Self::Vlan => ("VLAN", VLANS_MAX),
            Self::EtherType => ("EtherType", ETHERTYPES_MAX),
        }
    }
}
