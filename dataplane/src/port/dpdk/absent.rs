//! The errors of a daemon that was built without DPDK.

use covalent_config::DataplaneConfig;

use super::{Plan, Wanted};
use crate::port::{Port, PortError};

/// Returns the error, which explains how to get a daemon with such ports.
pub(in crate::port) fn check(port: &str) -> Result<(), PortError> {
    Err(refusal(port))
}

/// As [`check`].
pub(in crate::port) fn open(
    wanted: &Wanted<'_>,
    _dataplane: &DataplaneConfig,
    _plan: &Plan,
) -> Result<Box<dyn Port>, PortError> {
    Err(refusal(wanted.port))
}

fn refusal(port: &str) -> PortError {
    PortError::Setup {
        port: port.to_owned(),
        problem: "it is of the kind \"dpdk\", and this covalentd was built without DPDK".to_owned(),
        remedy: "cure: `apt-get install libdpdk-dev`, then `cargo build --release --features \
            dpdk`, or choose another `kind`"
            .to_owned(),
    }
}
