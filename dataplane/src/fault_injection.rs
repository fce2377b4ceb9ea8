//! Whether a daemon may damage frames on purpose. Its start and every reload check it.

/// Whether ports may damage their own frames if `[port.faults]` configures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultInjection {
    /// The daemon refuses such a configuration: a production node loses no frames on purpose.
    Refused,
    /// The caller allows it explicitly.
    Allowed,
}

/// A port is configured to damage its own frames, and fault injection is not allowed.
#[derive(Debug, thiserror::Error)]
#[error(
    "port `{port}` has a `[port.faults]` table, which damages its frames on purpose: start \
     covalentd with --allow-faults if this node is for tests, or remove the table"
)]
pub struct FaultsRefused {
    /// Name of the port.
    pub port: String,
}
