//! Protocol steps that the model checker omits, to verify that it detects their absence.
//!
//! In every other build [`mutated!`] is the step itself, and the rest of this module is absent.

/// Expands to `$step`. Under the model checker it is `$mutant` if [`Mutation::during`] selected
/// that mutation.
#[cfg(not(loom))]
macro_rules! mutated {
    ($name:ident: $step:expr => $mutant:expr) => {
        $step
    };
}

#[cfg(loom)]
macro_rules! mutated {
    ($name:ident: $step:expr => $mutant:expr) => {
        if $crate::mutation::Mutation::$name.is_selected() {
            $mutant
        } else {
            $step
        }
    };
}

#[cfg(loom)]
pub use selected::Mutation;

#[cfg(loom)]
mod selected {
    use std::cell::Cell;

    thread_local! {
        // The checker runs all threads of a model on the thread that requests the check.
        static SELECTED: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// A step that is taken away.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Mutation {
        /// `wake::announce` has no fence between the flag and the look that follows.
        AnnounceWithoutFence,
        /// `wake::take` has no fence between the work and its look at the flag.
        WakeWithoutFence,
        /// `Taker::claim` has no fence between the pending words and the looks at the pipes.
        ClaimWithoutFence,
        /// `Poster::post` believes the first look at a pending word that is set.
        PostWithoutFence,
        /// `Taker::claim` clears the pending words before it publishes the free slots.
        ClearBeforeFree,
        /// `NicPipe::on_doorbell` clears the status bit although more has arrived.
        ClearAlways,
        /// A receiver publishes its head before its `seen` cursor.
        HeadBeforeSeen,
        /// A producer shows its tail without its packets.
        PublishRelaxed,
        /// A consumer shows its head before it has read everything.
        ReleaseRelaxed,
        /// `AppSession::ring` looks whether the lane sleeps before it posts the doorbell.
        WakeBeforePost,
        /// `Published::publish` has no fence between the odd sequence and the words.
        PublishWithoutFence,
        /// `Published::read` has no fence between the words and its second look at the sequence.
        ReadWithoutFence,
    }

    impl Mutation {
        /// Runs `check` with this mutation alone, or with none.
        pub fn during(mutation: Option<Self>, check: impl FnOnce()) {
            SELECTED.set(mutation);
            check();
            SELECTED.set(None);
        }

        pub(crate) fn is_selected(self) -> bool {
            SELECTED.get() == Some(self)
        }
    }
}
