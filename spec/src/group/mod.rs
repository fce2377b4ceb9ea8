//! Every run, within small bounds, of the production machine of groups.
//!
//! Members are joined by envelopes that arrive in any order up to a bound, dead ones say nothing more but what is under way, and each survivor is
//! told of it when it likes. Nobody loses an envelope of somebody who lives: what is never delivered in a run stands for it.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | who there is, who asks, how often what may go wrong |
//! | [`world`] | a state: members, what they were told, envelopes under way |
//! | [`step`] | what may happen next, and what it does |
//! | [`invariant`] | what must hold in every state |
//! | [`rest`] | what must hold where nothing is left to happen |
//! | [`sight`] | what a search must come by, or it shows nothing about it |
//! | [`said`] | what an envelope says, as far as these go by it |
//! | [`mutant`] | ways to build it wrong, each of which must be found |
//! | [`catalogue`] | the scenarios that are checked |

pub mod catalogue;
pub mod invariant;
pub mod mutant;
pub mod rest;
pub mod said;
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
