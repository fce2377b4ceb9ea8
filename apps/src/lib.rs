//! What the small applications are made of: capture reading, comparison of what comes back, a bank's book-keeping, replicated registers,
//! and the few things that they all share (arguments, output, ending).
//!
//! The logic here opens no device; the binaries in `src/bin` join it to `covalent-verbs`. So it is tested without a
//! daemon, and read as an example of how an application on pipes and verbs is put together.
#![forbid(unsafe_code)]

pub mod bank;
pub mod device;
pub mod latency;
pub mod output;
mod random;
pub mod registers;
pub mod replay;
pub mod stop;
