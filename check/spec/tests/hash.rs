//! The search identifies a state by its hash, which excludes data that decides nothing: counters,
//! bytes of earlier messages, the order of free memory. If it excluded too much, two states with
//! one hash would continue in different ways.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use covalent_spec::{Scenario, catalog, check::Search, step::Step, world::World};
use stateright::Model;

const STATES_MAX: usize = 4_000;

fn digest(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Returns the successor of each step.
fn futures(search: &Search<Scenario>, world: &World) -> Vec<(Step, Option<World>)> {
    let mut steps = Vec::new();
    search.actions(world, &mut steps);
    steps
        .into_iter()
        .map(|step| (step, search.next_state(world, step)))
        .collect()
}

#[test]
fn states_with_equal_hashes_continue_alike() {
    for scenario in catalog::bounded() {
        let name = scenario.name;
        let search = Search::new(scenario);
        let mut known: HashMap<u64, Vec<(Step, Option<u64>)>> = HashMap::new();
        let mut queue: VecDeque<World> = search.init_states().into();
        let mut revisited = 0;
        while let Some(world) = queue.pop_front() {
            let worlds = futures(&search, &world);
            let futures = worlds
                .iter()
                .map(|(step, world)| (*step, world.as_ref().map(digest)))
                .collect::<Vec<_>>();
            let hash = digest(&world);
            if let Some(first) = known.get(&hash) {
                assert_eq!(*first, futures, "{name}");
                revisited += 1;
                continue;
            }
            if known.len() == STATES_MAX {
                continue;
            }
            queue.extend(worlds.into_iter().filter_map(|(_, world)| world));
            known.insert(hash, futures);
        }
        assert!(revisited > 100, "{name}: {revisited} states reached again");
    }
}
