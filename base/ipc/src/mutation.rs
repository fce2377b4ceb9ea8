//! Protocol steps that the model checker omits, to verify that it detects their absence.
//!
//! In every other build [`mutated!`](crate::mutated) is the step itself.

/// Expands to `$step`. Under the model checker it is `$mutant` if `mutation::during` runs
/// the check with `$name`.
#[cfg(not(loom))]
#[doc(hidden)]
#[macro_export]
macro_rules! mutated {
    ($name:ident: $step:expr => $mutant:expr) => {
        $step
    };
}

#[cfg(loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! mutated {
    ($name:ident: $step:expr => $mutant:expr) => {
        if $crate::mutation::is_selected(stringify!($name)) {
            $mutant
        } else {
            $step
        }
    };
}

#[cfg(loom)]
pub use selected::{during, is_selected};

#[cfg(loom)]
mod selected {
    use std::cell::Cell;

    thread_local! {
        // The checker runs all threads of a model on the thread that requests the check.
        static SELECTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Runs `check` with the mutation of this name, or with none. A name that no step has changes
    /// nothing, so a test that expects a failure then fails.
    pub fn during(mutation: Option<&'static str>, check: impl FnOnce()) {
        SELECTED.set(mutation);
        check();
        SELECTED.set(None);
    }

    /// Whether the mutation of this name is the one that the check runs with.
    pub fn is_selected(name: &str) -> bool {
        SELECTED.get() == Some(name)
    }
}
