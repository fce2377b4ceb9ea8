//! Counters in a file, and the ring. Readers get written data whole or not at all, no writer waits
//! for a reader, and damaged files are refused.

mod counters;
mod damaged;
mod ring;
