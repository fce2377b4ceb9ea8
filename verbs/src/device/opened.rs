//! A pipe that the daemon made for this device, mapped.

use std::os::fd::OwnedFd;

use covalent_api::request::{PipeKind, Reply};
use covalent_pipe::{Direction, PipeMemory};

use crate::{
    client::{take_fds, unexpected},
    error::{Result, foreign},
};

/// A pipe that the daemon has made.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: u32,
    pub(crate) memory: PipeMemory,
    pub(crate) page_bytes: u64,
    pub(crate) frame_bytes_max: u32,
    /// The EtherType that belongs to links on a port of the pipe.
    pub(crate) link_ethertype: Option<u16>,
}

/// Maps a pipe that was requested.
pub(super) fn opened_pipe(
    reply: &Reply,
    fds: Vec<OwnedFd>,
    kind: PipeKind,
    capacity_bytes: u64,
) -> Result<Opened> {
    let Reply::Pipe {
        pipe: id,
        page_bytes,
        frame_bytes_max,
        link_ethertype,
    } = *reply
    else {
        return Err(unexpected("OpenPipe", reply));
    };
    let memory =
        PipeMemory::open(take_fds(fds)?, direction(kind), capacity_bytes).map_err(foreign)?;
    Ok(Opened {
        id,
        memory,
        page_bytes,
        frame_bytes_max,
        link_ethertype,
    })
}

const fn direction(kind: PipeKind) -> Direction {
    match kind {
        PipeKind::Rx | PipeKind::VerbComplete => Direction::Rx,
        PipeKind::Tx | PipeKind::VerbSubmit => Direction::Tx,
        PipeKind::RxTx => Direction::RxTx,
        PipeKind::RxBytes => Direction::RxBytes,
    }
}
