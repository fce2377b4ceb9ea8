//! Every command of every page, run in a world of its own, prints the output that the page shows.
//!
//! A world is two machines. Each is a shell with its own network, mounts, processes and host name.
//! Their `/usr`, `/etc`, `/var`, `/run` and clone are overlays of the host's, so changes end with
//! the machine. Cables join their interfaces `eth1` and `eth2`. `sudo` is a stand-in that only runs
//! its command, and `cargo` is one that runs earlier builds. A comment in a page states how far its
//! reader is (`<!-- world: running -->`). [`covalent_guide::expect`] compares the output.
//!
//! Attributes of a `console` fence:
//!
//! | attribute | meaning |
//! |---|---|
//! | `on=both`, `on=machine-2` | where `$ ` is typed, if not on the first machine |
//! | `eventually` | typed again until it prints what is shown, for 180 seconds |
//! | `status=1` | how the commands end, if not with 0 |
//! | `skip="reason"` | not run, and why |
#![allow(clippy::unwrap_used)]

mod machine;
mod world;

use covalent_guide::{
    console::{Step, steps},
    fence::fences,
    pages::{self, Page},
};
use world::{Standing, World};

/// Maximum number of commands that the pages show and the tests skip. Lower it when a skipped
/// command becomes testable.
const SKIPPED_MAX: usize = 56;

/// The pages with commands that are run: one test for each.
macro_rules! run {
    ($($name:ident: $source:literal,)*) => {
        const RUN: &[&str] = &[$($source),*];
        $(
            #[test]
            fn $name() {
                walk($source);
            }
        )*
    };
}

run! {
    two_nodes: "docs/start.md",
    tour: "docs/tour.md",
    day_one: "docs/operate/day-one.md",
    day_two: "docs/operate/day-two.md",
    when_it_breaks: "docs/operate/when-it-breaks.md",
    writing_a_program: "docs/program/README.md",
    pipes: "docs/program/pipes.md",
    verbs: "docs/program/verbs.md",
    messages: "docs/program/messages.md",
    groups: "docs/program/groups.md",
    event_loops: "docs/program/event-loops.md",
}

fn steps_of(page: &Page) -> Vec<Step> {
    let steps = fences(&page.text).into_iter().map(|fence| {
        steps(&fence).unwrap_or_else(|error| panic!("{}: {error}", page.source.display()))
    });
    steps.flatten().collect()
}

fn walk(source: &str) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: root is needed for machines of one's own");
        return;
    }
    let pages = pages::pages(&pages::root()).unwrap();
    let page = pages
        .iter()
        .find(|page| page.source.to_str() == Some(source));
    let page = page.unwrap();
    let mut world = World::make(Standing::of(&page.text));
    for step in steps_of(page).iter().filter(|step| step.skip.is_none()) {
        world.walk(&page.source, step);
    }
}

#[test]
fn every_page_with_commands_is_run_and_few_commands_are_not() {
    let mut skipped = Vec::new();
    for page in pages::pages(&pages::root()).unwrap() {
        let steps = steps_of(&page);
        let source = page.source.to_str().unwrap();
        let is_run = steps.iter().any(|step| step.skip.is_none());
        assert_eq!(
            is_run,
            RUN.contains(&source),
            "{source}: update the list of executed pages, `RUN`"
        );
        skipped.extend(steps.iter().filter_map(|step| {
            let reason = step.skip.as_ref()?;
            Some(format!(
                "{source}:{}: {}\n    {reason}",
                step.line, step.command
            ))
        }));
        let marks = page
            .text
            .lines()
            .filter(|line| line.starts_with("```console"));
        let consoles = fences(&page.text);
        let consoles = consoles.iter().filter(|fence| fence.language == "console");
        assert_eq!(
            marks.count(),
            consoles.count(),
            "{source}: a fence that Markdown does not read"
        );
        for fence in fences(&page.text) {
            assert!(
                !["sh", "bash", "shell"].contains(&fence.language.as_str()),
                "{source}:{}: commands are in `console` fences, with `$ `",
                fence.line
            );
        }
    }
    eprintln!(
        "{} commands are not run:\n{}",
        skipped.len(),
        skipped.join("\n")
    );
    assert!(
        skipped.len() <= SKIPPED_MAX,
        "{} are too many",
        skipped.len()
    );
}
