//! How the two processes of a node are called. Defined once: for themselves, and for who writes their manual pages and completions.

mod control;
mod dataplane;
mod log_format;

pub use self::{control::ControlArguments, dataplane::DataplaneArguments, log_format::LogFormat};
