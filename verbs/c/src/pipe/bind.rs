//! Which frames a pipe receives.

use std::ffi::c_int;

use covalent::{Match, Spread};

use super::{Pipe, covalent_pipe, with};
use crate::{
    frames::{covalent_match, matches, spread},
    status::{Result, call},
};

/// Binds the pipe to the frames that `match` describes. Several bindings add up, at most 4096 in a
/// session. A pipe on a port receives only what arrives there. Returns COVALENT_REFUSED if the
/// frames belong to another pipe, and COVALENT_LINK_ETHERTYPE for the EtherType of links if a port
/// that the pipe receives from has a link.
///
/// # Safety
/// `match` points to a match whose strings are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_bind(
    pipe: covalent_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| pipe.bind(&matches))
    })
}

/// Binds the pipe to a share of the frames that `match` describes. It shares them with every other
/// pipe that is bound to the same match with the same `spread`, one of COVALENT_SPREAD_…: these
/// pipes are a set. With COVALENT_MATCH_ANY it is a fallback set, which receives the frames that no
/// other match takes.
///
/// The pipes may belong to several devices, threads and applications of one user, on the lane of
/// the port. Pipes may join and leave while packets flow. If a pipe is unbound or closed, or its
/// application exits, the others take over its share. Under COVALENT_SPREAD_HASH only the flows of
/// that pipe move then. If a pipe joins, only the flows that it takes over move.
///
/// A full pipe drops its share, which does not spill into the others. Returns COVALENT_REFUSED if a
/// pipe has the match alone, or if this pipe is in the set already. Also if the set has another
/// spread, belongs to another user or has 256 pipes.
///
/// # Safety
/// As covalent_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_bind_spread(
    pipe: covalent_pipe,
    r#match: *const covalent_match,
    spread: u32,
) -> c_int {
    call(|| {
        let spread = self::spread(spread)?;
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| pipe.bind_spread(&matches, spread))
    })
}

/// Takes back a binding. What already is in the pipe stays there.
///
/// # Safety
/// As covalent_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_unbind(
    pipe: covalent_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| pipe.unbind(&matches))
    })
}

impl Pipe {
    fn bind(&mut self, matches: &Match) -> Result<()> {
        match self {
            Self::Rx { pipe, .. } => pipe.get().bind(matches)?,
            Self::RxTx { pipe, .. } => pipe.get().bind(matches)?,
            Self::Bytes(pipe) => pipe.get().bind(matches)?,
            Self::Tx { .. } => return Err(self.is_no("pipes that receive")),
        }
        Ok(())
    }

    fn bind_spread(&mut self, matches: &Match, spread: Spread) -> Result<()> {
        match self {
            Self::Rx { pipe, .. } => pipe.get().bind_spread(matches, spread)?,
            Self::RxTx { pipe, .. } => pipe.get().bind_spread(matches, spread)?,
            Self::Bytes(pipe) => pipe.get().bind_spread(matches, spread)?,
            Self::Tx { .. } => return Err(self.is_no("pipes that receive")),
        }
        Ok(())
    }

    fn unbind(&mut self, matches: &Match) -> Result<()> {
        match self {
            Self::Rx { pipe, .. } => pipe.get().unbind(matches)?,
            Self::RxTx { pipe, .. } => pipe.get().unbind(matches)?,
            Self::Bytes(pipe) => pipe.get().unbind(matches)?,
            Self::Tx { .. } => return Err(self.is_no("pipes that receive")),
        }
        Ok(())
    }
}
