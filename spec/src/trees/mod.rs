//! Every run, within small bounds, of the production trees.
//!
//! Nodes are joined by links that carry notes once and in order. A link fails at one end first and at the other later, with what is under way lost
//! to the one and arriving at the other, and comes up again the same way. One root is followed. No pace goes by but in scenarios that are about
//! paces: so nothing that is found to end waits for one.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | what is cabled to what, how often what may go wrong |
//! | [`world`] | a state: nodes, links, notes under way |
//! | [`step`] | what may happen next, and what it does |
//! | [`invariant`] | what must hold in every state |
//! | [`sight`] | what a search must come by, or it shows nothing about it |
//! | [`mutant`] | ways to build it wrong, each of which must be found |
//! | [`catalogue`] | the scenarios that are checked |

pub mod catalogue;
pub mod invariant;
pub mod mutant;
pub mod scenario;
pub mod sight;
pub mod step;
pub mod world;

use self::step::{Search, Step};
use crate::check::{Explored, Named, run};

/// Takes every run of a scenario, as [`crate::explore`] does.
#[must_use]
pub fn explore(scenario: scenario::Scenario) -> Explored<Step> {
    let name = scenario.name;
    let (search, seen) = Search::new(scenario);
    run(Named {
        name,
        search,
        seen,
        sights: sight::ALL.iter().map(|sight| sight.name).collect(),
    })
}
