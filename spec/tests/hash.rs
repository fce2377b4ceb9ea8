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

/// What each step leads to.
fn futures(search: &Search, world: &World) -> Vec<(Step, Option<World>)> {
    let mut steps = Vec::new();
    search.actions(world, &mut steps);
    steps
        .into_iter()
        .map(|step| (step, search.next_state(world, step)))
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
            let worlds = futures(&search, &world);
            let futures = worlds
                .iter()
                .map(|(step, world)| (*step, world.as_ref().map(digest)))
                .collect::<Vec<_>>();
            let hash = digest(&world);
            if let Some(first) = known.get(&hash) {
                assert_eq!(*first, futures, "{name}");
                met_again += 1;
                continue;
            }
            if known.len() == STATES_MAX {
                continue;
            }
            queue.extend(worlds.into_iter().filter_map(|(_, world)| world));
            known.insert(hash, futures);
        }
        assert!(met_again > 100, "{name}: {met_again} states met again");
    }
}
