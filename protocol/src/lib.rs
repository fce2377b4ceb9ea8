//! The wire and its state machines: record codec, link machine, node, verbs; no I/O and no clock.
