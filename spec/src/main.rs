//! Checks the catalogue and prints what was explored. The last status is that of the worst.
//!
//! `covalent-spec` checks everything, within bounds that take minutes; `covalent-spec --bounded` within bounds that take seconds. With a
//! name behind, one search of either.

use std::{collections::BTreeSet, env, fmt, process::ExitCode};

use covalent_spec::{Explored, Scenario, agreement, catalogue, explore, group, sight, trees};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (bounded, words) = match words.as_slice() {
        ["--bounded", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let scenarios = if bounded {
        catalogue::bounded()
    } else {
        catalogue::whole()
    };
    match words {
        [] => {}
        ["agreement"] => return exit(agreements(bounded)),
        ["group"] => return exit(groups(bounded)),
        ["trees"] => return exit(of_trees(bounded)),
        [name] if !name.starts_with('-') => return only(scenarios, name),
        others => {
            eprintln!(
                "covalent-spec: no option `{}`: use --bounded, or nothing for the whole; then the name of one search, or nothing for all",
                others.join(" ")
            );
            return ExitCode::from(2);
        }
    }
    let mut failures = 0;
    let mut seen = BTreeSet::new();
    say("the production state machines, which must hold (stateright)");
    for scenario in scenarios {
        let explored = explore(scenario);
        failures += usize::from(!holds(&explored));
        seen.extend(explored.seen);
    }
    for sight in sight::ALL {
        if !seen.contains(sight.name) {
            say(&format!(
                "NOT SEEN: {}; so nothing above says anything about it",
                sight.name
            ));
            failures += 1;
        }
    }
    say("mutants, which must be found");
    for (scenario, broken) in catalogue::mutants() {
        failures += usize::from(!is_found(&explore(scenario), broken));
    }
    if !bounded {
        say(
            "mutants that must be safe but for that: the halves of `reordering`, and a neighbour that makes up answers",
        );
        for scenario in catalogue::halves() {
            failures += usize::from(!holds(&explore(scenario)));
        }
    }
    failures += agreements(bounded);
    failures += groups(bounded);
    failures += of_trees(bounded);
    exit(failures)
}

fn exit(failures: usize) -> ExitCode {
    if failures > 0 {
        eprintln!(
            "covalent-spec: {failures} of the lines above are not as they must be; spec/README.md says how to read the steps"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// How control and the dataplane agree. Returns how many lines are not as they must be.
fn agreements(bounded: bool) -> usize {
    let mut failures = 0;
    let mut seen = BTreeSet::new();
    say("how control and the dataplane agree, which must hold (stateright)");
    for scenario in agreement::catalogue::scenarios(bounded) {
        let explored = agreement::explore(scenario);
        failures += usize::from(!holds(&explored));
        seen.extend(explored.seen);
    }
    for (_, name) in agreement::sight::ALL {
        if !seen.contains(name) {
            say(&format!(
                "NOT SEEN: {name}; so nothing above says anything about it"
            ));
            failures += 1;
        }
    }
    say("its mutants, which must be found");
    for (scenario, broken) in agreement::catalogue::mutants() {
        failures += usize::from(!is_found(&agreement::explore(scenario), broken));
    }
    failures
}

/// Groups of two and three. Returns how many lines are not as they must be.
fn groups(bounded: bool) -> usize {
    let mut failures = 0;
    let mut seen = BTreeSet::new();
    say("the machine of groups, which must hold (stateright)");
    let scenarios = if bounded {
        group::catalogue::bounded()
    } else {
        group::catalogue::whole()
    };
    for scenario in scenarios {
        let explored = group::explore(scenario);
        failures += usize::from(!holds(&explored));
        seen.extend(explored.seen);
    }
    for sight in group::sight::ALL {
        if !seen.contains(sight.name) {
            say(&format!(
                "NOT SEEN: {}; so nothing above says anything about it",
                sight.name
            ));
            failures += 1;
        }
    }
    say("its mutants, which must be found");
    for (scenario, broken) in group::catalogue::mutants() {
        failures += usize::from(!is_found(&group::explore(scenario), broken));
    }
    failures
}

/// Trees of two to four nodes. Returns how many lines are not as they must be.
fn of_trees(bounded: bool) -> usize {
    let mut failures = 0;
    let mut seen = BTreeSet::new();
    say("trees, which must hold (stateright)");
    for scenario in trees::catalogue::scenarios(bounded) {
        let explored = trees::explore(scenario);
        failures += usize::from(!holds(&explored));
        seen.extend(explored.seen);
    }
    for sight in trees::sight::ALL {
        if !seen.contains(sight.name) {
            say(&format!(
                "NOT SEEN: {}; so nothing above says anything about it",
                sight.name
            ));
            failures += 1;
        }
    }
    say("its mutants, which must be found");
    for (scenario, broken) in trees::catalogue::mutants() {
        failures += usize::from(!is_found(&trees::explore(scenario), broken));
    }
    failures
}

/// Prints whether a mutant was found by this invariant.
fn is_found<S>(explored: &Explored<S>, broken: &str) -> bool {
    match explored.broken.get(broken) {
        Some(steps) => say(&format!(
            "{explored}found: {broken}, after {} steps",
            steps.len()
        )),
        None => say(&format!(
            "{explored}NOT FOUND, but `{broken}` was to be broken"
        )),
    }
    explored.broken.contains_key(broken)
}

/// One search.
fn only(mut scenarios: Vec<Scenario>, name: &str) -> ExitCode {
    let Some(at) = scenarios.iter().position(|scenario| scenario.name == name) else {
        let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
        eprintln!(
            "covalent-spec: no search `{name}`: there are agreement, group, trees, {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    let explored = explore(scenarios.swap_remove(at));
    let holds = holds(&explored);
    say(&format!(
        "seen: {}",
        Vec::from_iter(explored.seen).join("; ")
    ));
    if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints what was explored, and the steps to what is broken.
fn holds<S: fmt::Debug>(explored: &Explored<S>) -> bool {
    if explored.broken.is_empty() {
        say(&format!("{explored}holds"));
    }
    for (name, steps) in &explored.broken {
        say(&format!("{explored}BROKEN: {name}"));
        for step in steps {
            say(&format!("    {step:?}"));
        }
    }
    explored.broken.is_empty()
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn say(line: &str) {
    println!("{line}");
}
