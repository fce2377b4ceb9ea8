//! Deterministic simulator of the production state machines.
