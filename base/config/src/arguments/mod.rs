//! Command lines of the two processes of a node. Defined once, for the processes and for the
//! generators of manual pages and completions.

mod control;
mod dataplane;
mod log_format;

pub use self::{control::ControlArguments, dataplane::DataplaneArguments, log_format::LogFormat};
