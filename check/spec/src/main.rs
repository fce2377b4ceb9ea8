//! Checks the catalog and prints the explored states. The exit status is that of the worst check.
//!
//! `covalent-spec` checks everything within bounds that take minutes. `covalent-spec --bounded`
//! uses bounds that take seconds. A name as the last argument runs one search of either.

use std::{collections::BTreeSet, env, fmt, process::ExitCode};

use covalent_spec::{Explored, Scenario, Space, agreement, catalog, explore, group, trees};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (bounded, words) = match words.as_slice() {
        ["--bounded", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let scenarios = if bounded {
        catalog::bounded()
    } else {
        catalog::whole()
    };
    match words {
        [] => {}
        ["agreement"] => return exit(agreements(bounded)),
        ["group"] => return exit(groups(bounded)),
        ["trees"] => return exit(of_trees(bounded)),
        [name] if !name.starts_with('-') => return only(scenarios, name),
        others => {
            eprintln!(
                "covalent-spec: no option `{}`: use --bounded, or nothing for the whole; then the \
                 name of one search, or nothing for all",
                others.join(" ")
            );
            return ExitCode::from(2);
        }
    }
    let mut failures = check(
        "the production state machines",
        scenarios,
        catalog::mutants(),
    );
    if !bounded {
        print_line(
            "mutants that must hold, apart from their defect: the halves of `reordering`, and a \
             neighbor that invents replies",
        );
        for scenario in catalog::halves() {
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
            "covalent-spec: {failures} of the lines above report a failure; see \"Reading a \
             violation\" in check/spec/README.md"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// How control and the dataplane agree. Returns the number of unexpected lines.
fn agreements(bounded: bool) -> usize {
    check(
        "how control and the dataplane agree",
        agreement::catalog::scenarios(bounded),
        agreement::catalog::mutants(),
    )
}

/// Groups of two and three. Returns the number of unexpected lines.
fn groups(bounded: bool) -> usize {
    let scenarios = if bounded {
        group::catalog::bounded()
    } else {
        group::catalog::whole()
    };
    check(
        "the state machine of groups",
        scenarios,
        group::catalog::mutants(),
    )
}

/// Trees of two to four nodes. Returns the number of unexpected lines.
fn of_trees(bounded: bool) -> usize {
    check(
        "trees",
        trees::catalog::scenarios(bounded),
        trees::catalog::mutants(),
    )
}

/// Explores the scenarios that must hold. Checks that they reach each sight, and that every mutant
/// is found. Returns the number of failed lines.
fn check<S: Space>(what: &str, scenarios: Vec<S>, mutants: Vec<(S, &'static str)>) -> usize {
    let mut failures = 0;
    let mut seen = BTreeSet::new();
    print_line(&format!("{what}, which must hold (stateright)"));
    for scenario in scenarios {
        let explored = explore(scenario);
        failures += usize::from(!holds(&explored));
        seen.extend(explored.seen);
    }
    let sights = S::SIGHTS.iter().map(|sight| sight.name);
    for sight in sights.filter(|sight| !seen.contains(sight)) {
        print_line(&format!(
            "NOT SEEN: {sight}; the searches above do not cover it"
        ));
        failures += 1;
    }
    print_line("its mutants, which must be found");
    for (scenario, broken) in mutants {
        failures += usize::from(!is_found(&explore(scenario), broken));
    }
    failures
}

/// Prints whether a mutant was found by this invariant.
fn is_found<S>(explored: &Explored<S>, broken: &str) -> bool {
    match explored.broken.get(broken) {
        Some(steps) => print_line(&format!(
            "{explored}found: {broken}, after {} steps",
            steps.len()
        )),
        None => print_line(&format!(
            "{explored}NOT FOUND, but `{broken}` should be broken"
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
    print_line(&format!(
        "seen: {}",
        Vec::from_iter(explored.seen).join("; ")
    ));
    if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the explored states, and the steps to each broken invariant.
fn holds<S: fmt::Debug>(explored: &Explored<S>) -> bool {
    if explored.broken.is_empty() {
        print_line(&format!("{explored}holds"));
    }
    for (name, steps) in &explored.broken {
        print_line(&format!("{explored}BROKEN: {name}"));
        for step in steps {
            print_line(&format!("    {step:?}"));
        }
    }
    explored.broken.is_empty()
}

#[expect(clippy::print_stdout, reason = "the program prints its findings")]
fn print_line(line: &str) {
    println!("{line}");
}
