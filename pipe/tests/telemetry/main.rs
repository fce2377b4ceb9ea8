//! Counters in a file, and the ring: what is written is read, whole or not at all, by readers whom nobody waits for, and damaged files are refused.

mod counters;
mod damaged;
mod ring;
