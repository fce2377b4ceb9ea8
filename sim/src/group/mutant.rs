//! Ways to build it wrong. Each must be found by a checker: one that finds none of them proves nothing.

use std::{fmt, str::FromStr};

use crate::options::UnknownName;

macro_rules! mutants {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Something broken on purpose.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[$doc])* $variant,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: [Self; [$(Self::$variant),*].len()] = [$(Self::$variant),*];

            /// Its name on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

mutants! {
    /// A member says that it holds what was said and has not arrived.
    AcksBeforeHeld = "acks-before-held",
    /// A batch behind skipped rounds is taken for that of the first of them.
    SkipsNull = "skips-null",
    /// A message is told as soon as a member holds all up to it itself.
    DeliversWhenReceived = "delivers-when-received",
    /// What a quorum of those who stay holds is delivered, and not what all of them hold.
    TrimsByQuorum = "trims-by-quorum",
    /// What one of those who stay holds is delivered.
    TakesMaxTrim = "takes-max-trim",
    /// A member goes on telling messages when it holds the view for ended.
    KeepsDeliveringWedged = "keeps-delivering-wedged",
    /// A member takes batches in when it holds the view for ended.
    UnfreezesReceived = "unfreezes-received",
    /// Half of the voters are a quorum without the oldest too.
    AnyMajority = "any-majority",
    /// A member accepts what is below its promise.
    BreaksPromise = "breaks-promise",
    /// A member tells nobody how the view ended.
    NoDecidedFirst = "no-decided-first",
    /// In a new view a member says again what was delivered in the one before.
    ResendsDelivered = "resends-delivered",
    /// A member believes of another the first accusation that it heard, and no later word.
    FollowsFirstClaim = "follows-first-claim",
    /// Whoever joins votes before it has the state.
    JoinerVotes = "joiner-votes",
    /// An application that begins anew is the same stay as before.
    RejoinsWithOldLife = "rejoins-with-old-life",
    /// Rounds are closed though not all applications took those before.
    NoCredit = "no-credit",
}

impl FromStr for Mutant {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|mutant| mutant.as_str() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::as_str).to_vec();
                UnknownName::new("mutant of a group", text.to_owned(), names)
            })
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
