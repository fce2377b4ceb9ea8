//! Hash of a node over everything that decides its future. A model checker takes two nodes with the
//! same hash for the same.

use core::hash::{Hash, Hasher};

use super::Node;

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // No `..`: a new field must be included or excluded here explicitly.
        let Self {
            config,
            links,
            relays,
            peers,
            latches,
            transactions,
            in_doubt,
            round_trips,
            orphans,
            names_max: _,
            names,
            takes: _,
            peers_lost,
            frames_without_link: _,
            clock: _,
            durable,
            paths: _,
            fabric,
            path_links: _,
            reply: _,
            #[cfg(feature = "arbitrary-state")]
                lies: _,
        } = self;
        (config.guid, config.incarnation).hash(state);
        (links, relays, peers, transactions).hash(state);
        (in_doubt, round_trips, orphans, names, peers_lost, durable).hash(state);
        fabric.hash(state);
        for set in latches {
            // Their order in time, which selects the set to evict, and not the counts themselves.
            let earlier = latches.iter().filter(|other| other.taken_at < set.taken_at);
            (set, earlier.count()).hash(state);
        }
    }
}
