//! The two kinds of exchange.

/// How an exchange is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Two messages, one round trip: the peer executes at message 1. Exactly once; the peer cannot
    /// reverse it.
    OnePhase,
    /// Four messages, two round trips: the peer keeps the request at message 1 and executes it at
    /// message 3. Exactly once; reversible without trace until message 3.
    TwoPhase,
}
