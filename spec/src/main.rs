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
    let mut failures = check(
        "the production state machines",
        explore,
        scenarios,
        sight::ALL.iter().map(|sight| sight.name),
        catalogue::mutants(),
    );
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
    check(
        "how control and the dataplane agree",
        agreement::explore,
        agreement::catalogue::scenarios(bounded),
        agreement::sight::ALL.iter().map(|&(_, name)| name),
        agreement::catalogue::mutants(),
    )
}

/// Groups of two and three. Returns how many lines are not as they must be.
fn groups(bounded: bool) -> usize {
    let scenarios = if bounded {
        group::catalogue::bounded()
    } else {
        group::catalogue::whole()
    };
    check(
        "the machine of groups",
        group::explore,
        scenarios,
        group::sight::ALL.iter().map(|sight| sight.name),
        group::catalogue::mutants(),
    )
}

/// Trees of two to four nodes. Returns how many lines are not as they must be.
fn of_trees(bounded: bool) -> usize {
    check(
        "trees",
        trees::explore,
        trees::catalogue::scenarios(bounded),
        trees::sight::ALL.iter().map(|sight| sight.name),
        trees::catalogue::mutants(),
    )
}

/// Explores what must hold, whether each of the `sights` was met in it, and whether the mutants are found. Returns how many lines are not as they
/// must be.
fn check<Searched, Step: fmt::Debug>(
    what: &str,
    explore: impl Fn(Searched) -> Explored<Step>,
    scenarios: Vec<Searched>,
    sights: impl Iterator<Item = &'static str>,
    mutants: Vec<(Searched, &'static str)>,
) -> usize {
    let mut failures = 0;
    let mut seen = BTreeSet::new();
    say(&format!("{what}, which must hold (stateright)"));
    for scenario in scenarios {
        let explored = explore(scenario);
        failures += usize::from(!holds(&explored));
        seen.extend(explored.seen);
    }
    for sight in sights.filter(|sight| !seen.contains(sight)) {
        say(&format!(
            "NOT SEEN: {sight}; so nothing above says anything about it"
        ));
        failures += 1;
    }
    say("its mutants, which must be found");
    for (scenario, broken) in mutants {
        failures += usize::from(!is_found(&explore(scenario), broken));
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
