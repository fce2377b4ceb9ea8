//! What a daemon that was built without DPDK says.

use crate::port::{Port, PortError};

/// Says how to get a daemon that has such ports.
pub(in crate::port) fn open(port: &str) -> Result<Box<dyn Port>, PortError> {
    Err(PortError::Setup {
        port: port.to_owned(),
        problem: "it is of the kind \"dpdk\", and this covalentd was built without DPDK".to_owned(),
        remedy: "cure: `apt-get install libdpdk-dev`, then `cargo build --release --features dpdk`, or choose another `kind`".to_owned(),
    })
}
