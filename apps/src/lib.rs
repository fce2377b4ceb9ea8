//! Parts of the small applications: capture reading, comparison of returning frames, a bank's
//! bookkeeping, replicated registers, and shared parts (arguments, output, exit).
//!
//! The logic here opens no device; the binaries in `src/bin` connect it to `covalent`. It is
//! therefore tested without a daemon, and serves as an example of an application on pipes and
//! verbs.
#![forbid(unsafe_code)]

pub mod bank;
pub mod device;
pub mod latency;
pub mod output;
mod random;
pub mod registers;
pub mod replay;
pub mod stop;

/// The front page's example compiles, or the documentation tests fail.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct FrontPage;
