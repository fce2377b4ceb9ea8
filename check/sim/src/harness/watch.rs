//! Invariants: what checkers are shown, and the first one that was broken.

use std::fmt;

use serde::Serialize;

/// A simulated world, as its checkers see it.
pub trait Watched: fmt::Debug + 'static {
    /// Something that happens.
    type Fact<'a>;
    /// Context of a fact that a checker may inspect.
    type Scene<'a>;
}

/// A checker's verdict on a fact: `Ok`, or how the fact breaks the invariant.
pub type Verdict = Result<(), String>;

/// Watches one invariant.
pub trait Checker<W: Watched>: fmt::Debug + Send {
    /// Looks at one fact.
    ///
    /// # Errors
    /// How it breaks the invariant.
    fn see(&mut self, fact: &W::Fact<'_>, scene: &W::Scene<'_>) -> Verdict;
}

/// The error, if `wrong`.
pub(crate) fn forbid(wrong: bool, what: impl FnOnce() -> String) -> Verdict {
    if wrong { Err(what()) } else { Ok(()) }
}

/// A checker, and the name of its invariant in violations and documents.
#[derive(Debug)]
pub struct Invariant<W: Watched> {
    name: &'static str,
    checker: Box<dyn Checker<W>>,
}

/// The invariant that a checker watches.
pub(crate) fn invariant<W: Watched>(
    name: &'static str,
    checker: impl Checker<W> + 'static,
) -> Invariant<W> {
    Invariant {
        name,
        checker: Box::new(checker),
    }
}

/// All checkers of a world, until one of them finds its invariant broken.
#[derive(Debug)]
pub(crate) struct Watch<W: Watched> {
    checkers: Vec<Invariant<W>>,
    violation: Option<Violation>,
}

impl<W: Watched> Watch<W> {
    pub const fn new(checkers: Vec<Invariant<W>>) -> Self {
        Self {
            checkers,
            violation: None,
        }
    }

    /// Shows a fact to the checkers. Keeps the first violation: later ones come from a world that
    /// is already broken.
    pub fn see(&mut self, fact: &W::Fact<'_>, scene: &W::Scene<'_>, when: When) {
        if self.violation.is_some() {
            return;
        }
        for Invariant { name, checker } in &mut self.checkers {
            if let Err(what) = checker.see(fact, scene) {
                self.violation = Some(Violation {
                    checker: name,
                    what,
                    when,
                });
                return;
            }
        }
    }

    /// Returns the first broken invariant.
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }
}

/// When something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// After so many events.
    Step(u32),
    /// At this time, in units.
    At(u64),
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(events) => fmt::Display::fmt(events, f),
            Self::At(units) => fmt::Display::fmt(units, f),
        }
    }
}

/// An invariant was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The checker that saw it.
    pub checker: &'static str,
    /// Description by the checker.
    pub what: String,
    /// When.
    #[serde(flatten)]
    pub when: When,
}

/// A run in which an invariant was broken.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that replays it, or the number of the case.
    pub seed: u64,
    /// The command that makes it again.
    pub replay: String,
    /// When, for people.
    pub when: String,
    /// The broken invariant.
    pub violation: Violation,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n  seed {}, {}; replay: {}",
            self.violation.checker, self.violation.what, self.seed, self.when, self.replay
        )
    }
}

impl std::error::Error for Failure {}

/// A line of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry<Subject> {
    /// When.
    #[serde(flatten)]
    pub when: When,
    /// Topic of the entry.
    pub subject: Subject,
    /// Description of the event.
    pub text: String,
}

/// The events of a run, if they are recorded.
#[derive(Debug)]
pub(crate) struct Record<Subject>(Option<Vec<Entry<Subject>>>);

impl<Subject> Record<Subject> {
    pub fn new(record: bool) -> Self {
        Self(record.then(Vec::new))
    }

    /// Adds what `lines` returns, if events are recorded.
    pub fn add<Lines>(&mut self, when: When, lines: impl FnOnce() -> Lines)
    where
        Lines: IntoIterator<Item = (Subject, String)>,
    {
        if let Some(trace) = &mut self.0 {
            trace.extend(lines().into_iter().map(|(subject, text)| Entry {
                when,
                subject,
                text,
            }));
        }
    }

    /// Returns the events, if they were recorded.
    pub fn into_trace(self) -> Vec<Entry<Subject>> {
        self.0.unwrap_or_default()
    }
}
