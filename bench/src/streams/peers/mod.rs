//! The contestants that are two processes of this program: the part of each process.

#[cfg(feature = "peers")]
mod aeron;
mod bells;
#[cfg(feature = "peers")]
mod iceoryx;
mod messages;
mod messaging;
pub mod near;
mod pipe;
mod ring;
mod socket;

use std::os::fd::OwnedFd;

use anyhow::Result;

#[cfg(not(feature = "peers"))]
use crate::messenger::LEFT_OUT;
use crate::{
    messenger::Library,
    report::Description,
    streams::{
        part::{Means, Part},
        role::Prepared,
    },
};

/// Packets that the daemon's side moves at a time, and the application's: the dataplane's default.
pub const BURST: usize = 64;

/// Round trips between two looks at the clock, which takes about a tenth of the fastest.
pub const TRIPS_PER_POLL: u32 = 16;

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

/// Returns the description of a library, or the reason why it is not available.
pub fn described(means: Means) -> Result<Description, String> {
    let (what, version, tuning) = match means {
        Means::Ucx => library(Library::Ucx)?,
        Means::Libfabric => library(Library::Libfabric)?,
        #[cfg(feature = "peers")]
        Means::Iceoryx => (
            "iceoryx2, publish and subscribe with loaned samples",
            locked_version("iceoryx2"),
            iceoryx::tuning(),
        ),
        #[cfg(feature = "peers")]
        Means::Aeron => (
            "Aeron IPC, C driver and client",
            format!(
                "{} (rusteron {})",
                aeron::version(),
                locked_version("rusteron-client")
            ),
            aeron::tuning(),
        ),
        #[cfg(not(feature = "peers"))]
        Means::Iceoryx | Means::Aeron => return Err(LEFT_OUT.to_owned()),
        means => return Err(format!("{means:?} is no library")),
    };
    Ok(Description {
        what: what.to_owned(),
        version,
        tuning,
        commands: Vec::new(),
    })
}

fn library(library: Library) -> Result<(&'static str, String, String), String> {
    Ok((library.what(), library.version()?, library.tuning()))
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
        Means::Ucx | Means::Libfabric => messaging::prepare(part),
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

/// Opens the near side of an echo, for a measurement that plays it itself.
pub fn near(part: &Part) -> Result<near::Opened> {
    match part.means {
        Means::Pipe | Means::PipeAlone => pipe::open_near(part),
        Means::Ucx | Means::Libfabric => messaging::near(part),
        #[cfg(feature = "peers")]
        Means::Iceoryx => iceoryx::near(part),
        #[cfg(feature = "peers")]
        Means::Aeron => aeron::near(part),
        #[cfg(not(feature = "peers"))]
        Means::Iceoryx | Means::Aeron => anyhow::bail!("{LEFT_OUT}"),
        means @ (Means::Ring | Means::Unix | Means::Tcp) => {
            anyhow::bail!("{means:?} takes part only in the measurement of pipes")
        }
    }
}
