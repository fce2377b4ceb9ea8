//! The search knows a state by its hash, which leaves out what decides nothing: counters, bytes of earlier messages, the order of free
//! memory. If it left out too much, two states of one hash would go on in different ways.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use covalent_spec::{
    catalogue,
    step::{Search, Step},
    world::World,
};
use stateright::Model;

const STATES_MAX: usize = 4_000;

fn digest(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Hashes of what each step leads to.
fn futures(search: &Search, world: &World) -> Vec<(Step, Option<u64>)> {
    let mut steps = Vec::new();
    search.actions(world, &mut steps);
    steps
        .into_iter()
        .map(|step| (step, search.next_state(world, step).as_ref().map(digest)))
        .collect()
}

#[test]
fn states_with_one_hash_go_on_alike() {
    for scenario in catalogue::bounded() {
        let name = scenario.name;
        let (search, _) = Search::new(scenario);
        let mut known: HashMap<u64, Vec<(Step, Option<u64>)>> = HashMap::new();
        let mut queue: VecDeque<World> = search.init_states().into();
        let mut met_again = 0;
        while let Some(world) = queue.pop_front() {
            let futures = futures(&search, &world);
            if let Some(first) = known.get(&digest(&world)) {
                assert_eq!(*first, futures, "{name}");
                met_again += 1;
                continue;
            }
            if known.len() == STATES_MAX {
                continue;
            }
            queue.extend(
                futures
                    .iter()
                    .filter_map(|&(step, _)| search.next_state(&world, step)),
            );
            known.insert(digest(&world), futures);
        }
        assert!(met_again > 100, "{name}: {met_again} states met again");
    }
}
