//! The contestants that are two processes of this program: what each process does.

#[cfg(feature = "peers")]
mod aeron;
mod bells;
#[cfg(feature = "peers")]
mod iceoryx;
mod messages;
mod pipe;
mod ring;
mod socket;

use std::os::fd::OwnedFd;

use anyhow::Result;

use crate::pipes::{
    part::{Means, Part},
    role::Prepared,
};

/// Packets that the daemon's side moves at a time, and the application's: the dataplane's default.
pub const BURST: usize = 64;

/// Round trips between two looks at the clock, which takes about a tenth of the fastest.
pub const TRIPS_PER_LOOK: u32 = 16;

/// Why a peer behind the feature is not there.
#[cfg(not(feature = "peers"))]
const LEFT_OUT: &str =
    "this program was built without the feature `peers` (`make bench` asks for it)";

/// The version of a crate that this program was built with.
#[cfg(feature = "peers")]
fn locked_version(name: &str) -> String {
    const LOCK: &str = include_str!("../../../../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    LOCK.split_once(&entry)
        .and_then(|(_, rest)| rest.split('"').next())
        .unwrap_or("unknown")
        .to_owned()
}

/// iceoryx2's version, or why it is not there.
pub fn iceoryx_version() -> Result<String, String> {
    #[cfg(feature = "peers")]
    return Ok(locked_version("iceoryx2"));
    #[cfg(not(feature = "peers"))]
    Err(LEFT_OUT.to_owned())
}

/// How iceoryx2 is set up.
pub fn iceoryx_tuning() -> String {
    #[cfg(feature = "peers")]
    return iceoryx::tuning();
    #[cfg(not(feature = "peers"))]
    String::new()
}

/// Aeron's version, or why it is not there.
pub fn aeron_version() -> Result<String, String> {
    #[cfg(feature = "peers")]
    return Ok(format!(
        "{} (rusteron {})",
        aeron::version(),
        locked_version("rusteron-client")
    ));
    #[cfg(not(feature = "peers"))]
    Err(LEFT_OUT.to_owned())
}

/// How Aeron is set up.
pub fn aeron_tuning() -> String {
    #[cfg(feature = "peers")]
    return aeron::tuning();
    #[cfg(not(feature = "peers"))]
    String::new()
}

/// How sockets of a kind are set up, or why they are not.
pub fn socket_tuning(means: Means) -> Result<String, String> {
    socket::tuning(means).map_err(|problem| format!("{problem:#}"))
}

/// Gets one part ready.
pub fn prepare(part: &Part, fds: Vec<OwnedFd>) -> Result<Prepared> {
    match part.means {
        Means::Pipe | Means::PipeAlone => pipe::prepare(part, fds),
        Means::Ring => ring::prepare(part, fds),
        Means::Unix | Means::Tcp => socket::prepare(part, fds),
        #[cfg(feature = "peers")]
        Means::Iceoryx => iceoryx::prepare(part),
        #[cfg(feature = "peers")]
        Means::Aeron => aeron::prepare(part),
        #[cfg(not(feature = "peers"))]
        Means::Iceoryx | Means::Aeron => {
            anyhow::bail!("{LEFT_OUT}")
        }
    }
}
