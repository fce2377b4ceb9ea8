//! The one datagram with which a cable is handed over.
//!
//! ```text
//!   0..8   "CVLCABLE"        12..16  longest frame in bytes, u32
//!   8..12  version, u32      16..24  size of each pipe in bytes, u64       all little-endian
//! ```
//! Beside it travel the descriptors of the end that is given away.

use std::{io, os::fd::OwnedFd, path::Path};

use covalent_ipc::seqpacket::Connection;
use covalent_pipe::cable::{CABLE_DESCRIPTORS, CableEnd, CableParts};

use crate::port::PortError;

const MAGIC: [u8; 8] = *b"CVLCABLE";
const VERSION: u32 = 1;
const GREETING_BYTES: usize = 24;

/// Longest path of a Unix socket in bytes (`sun_path` with its end).
const PATH_BYTES_MAX: usize = 107;

/// Refuses a path at which no socket can be made, before anything is tried.
pub(super) fn check_path(port: &str, path: &Path) -> Result<(), PortError> {
    let refuse = |problem: String, remedy: &str| PortError::Setup {
        port: port.to_owned(),
        problem,
        remedy: remedy.to_owned(),
    };
    let shown = path.display();
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(refuse(
            format!("the path `{shown}` is longer than {PATH_BYTES_MAX} bytes"),
            "choose a shorter one: Unix sockets have no longer names",
        ));
    }
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() || parent.is_dir() => Ok(()),
        _ => Err(refuse(
            format!("there is no directory for the cable's socket `{shown}`"),
            "create the directory, writable for both processes",
        )),
    }
}

/// Refuses a peer that runs as another user: neither this process's user nor root.
pub(super) fn check_peer(connection: &Connection) -> io::Result<()> {
    let peer = connection.peer_credentials()?.uid;
    let own = nix::unistd::geteuid().as_raw();
    if peer == own || peer == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "the process at the other end runs as user {peer}, this one as {own}: run both as one \
             user"
        ),
    ))
}

/// Makes a cable and gives the other end away.
pub(super) fn give(
    connection: &Connection,
    ring_slots: u32,
    frame_bytes_max: u32,
) -> io::Result<CableEnd> {
    let (end, parts) =
        CableEnd::create_pair(ring_slots, frame_bytes_max).map_err(io::Error::other)?;
    let mut greeting = [0; GREETING_BYTES];
    greeting[..8].copy_from_slice(&MAGIC);
    greeting[8..12].copy_from_slice(&VERSION.to_le_bytes());
    greeting[12..16].copy_from_slice(&frame_bytes_max.to_le_bytes());
    greeting[16..].copy_from_slice(&parts.capacity_bytes().to_le_bytes());
    connection
        .send(&greeting, &parts.fds())
        .map_err(io::Error::other)?;
    Ok(end)
}

/// Receives the end that the other process gave away.
pub(super) fn receive(connection: &Connection, frame_bytes_max: u32) -> io::Result<CableEnd> {
    let mut greeting = [0; GREETING_BYTES];
    let (len, fds) = connection.recv(&mut greeting).map_err(io::Error::other)?;
    let capacity_bytes = read(&greeting[..len], frame_bytes_max)?;
    let fds: [OwnedFd; CABLE_DESCRIPTORS] = fds.try_into().map_err(|found: Vec<_>| {
        invalid(format!(
            "{} descriptors instead of {CABLE_DESCRIPTORS}",
            found.len()
        ))
    })?;
    CableEnd::from_parts(CableParts::new(fds, capacity_bytes)).map_err(io::Error::other)
}

/// The size of each pipe, out of a greeting that fits this process.
fn read(greeting: &[u8], frame_bytes_max: u32) -> io::Result<u64> {
    let parts = greeting
        .split_first_chunk::<8>()
        .and_then(|(magic, rest)| Some((magic, rest.split_first_chunk::<4>()?)))
        .and_then(|(magic, (version, rest))| Some((magic, version, rest.split_first_chunk::<4>()?)))
        .and_then(|(magic, version, (frame, rest))| {
            Some((magic, version, frame, <[u8; 8]>::try_from(rest).ok()?))
        });
    let Some((&MAGIC, version, frame, capacity)) = parts else {
        return Err(invalid(
            "the process that listens there does not speak the cable protocol".to_owned(),
        ));
    };
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(invalid(format!(
            "the peer's cables have version {version}, these have {VERSION}"
        )));
    }
    let frame = u32::from_le_bytes(*frame);
    if frame != frame_bytes_max {
        return Err(invalid(format!(
            "the peer's frames have up to {frame} bytes, these up to {frame_bytes_max}"
        )));
    }
    Ok(u64::from_le_bytes(capacity))
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(magic: &[u8; 8], version: u32, frame: u32) -> Vec<u8> {
        [
            &magic[..],
            &version.to_le_bytes(),
            &frame.to_le_bytes(),
            &(1_u64 << 20).to_le_bytes(),
        ]
        .concat()
    }

    #[test]
    fn a_good_greeting_has_the_size() {
        assert_eq!(read(&greeting(&MAGIC, 1, 1514), 1514).ok(), Some(1 << 20));
    }

    #[test]
    fn any_other_greeting_is_refused_with_the_difference() {
        let refused = |bytes: &[u8]| read(bytes, 1514).expect_err("must be refused").to_string();
        let good = greeting(&MAGIC, 1, 1514);
        for len in 0..good.len() {
            assert!(
                refused(&good[..len]).contains("does not speak the cable protocol"),
                "{len}"
            );
        }
        assert!(refused(&greeting(b"SOMEPEER", 1, 1514)).contains("does not speak"));
        assert!(refused(&greeting(&MAGIC, 2, 1514)).contains("version 2, these have 1"));
        assert!(refused(&greeting(&MAGIC, 1, 9014)).contains("up to 9014 bytes, these up to 1514"));
    }
}
