//! The socket that a service manager hands over (`sd_listen_fds(3)`).

use std::{env, io, os::fd::OwnedFd, path::Path, process};

use covalent_ipc::seqpacket::Listener;
use listenfd::ListenFd;
use tracing::warn;

/// Placeholder for `FileDescriptorName=` if the service manager passed no name.
const NAMELESS: &str = "unknown";

/// Returns the socket of `covalentd.socket` if a service manager passed one to this process.
/// Selects the `SOCK_SEQPACKET` listener at `path`, else the first one. Logs the other descriptors
/// and does not use them. Call it before any thread exists, because it changes the environment.
///
/// # Errors
/// The passed variables are invalid.
pub fn socket(path: &Path) -> io::Result<Option<Listener>> {
    let Some(count) = count(
        env::var("LISTEN_PID").ok().as_deref(),
        env::var("LISTEN_FDS").ok().as_deref(),
    )?
    else {
        return Ok(None);
    };
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut fds = ListenFd::from_env();
    let mut listeners = Vec::new();
    for at in 0..usize::from(count) {
        let name = names.next().filter(|name| !name.is_empty());
        let name = name.unwrap_or(NAMELESS);
        let taken = fds.take_custom::<OwnedFd>(
            at,
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET,
            "Unix socket of the kind SOCK_SEQPACKET",
        );
        match taken.and_then(|fd| fd.map(Listener::adopt).transpose()) {
            Ok(listener) => listeners.extend(listener.map(|listener| (name, listener))),
            Err(problem) => warn!(
                name,
                %problem,
                "a descriptor of the service manager is no socket for clients, and is ignored"
            ),
        }
    }
    let ours = |(_, listener): &(&str, Listener)| listener.path() == path;
    let at = listeners.iter().position(ours).unwrap_or(0);
    let mut found = None;
    for (index, (name, listener)) in listeners.into_iter().enumerate() {
        if index == at {
            found = Some(listener);
        } else {
            warn!(
                name,
                path = %listener.path().display(),
                "another socket of the service manager is ignored, and the daemon does not serve it"
            );
        }
    }
    Ok(found)
}

/// Returns the number of descriptors for this process, from the two variables. `None` if there are
/// none or they are for another process, for example a wrapper script.
fn count(pid: Option<&str>, fds: Option<&str>) -> io::Result<Option<u16>> {
    let (Some(pid), Some(fds)) = (pid, fds) else {
        return Ok(None);
    };
    let wrong = |name: &str, text: &str| {
        let problem = format!("{name}=`{text}` is no number that a service manager would set");
        io::Error::new(io::ErrorKind::InvalidInput, problem)
    };
    let pid = pid.parse::<u32>().map_err(|_| wrong("LISTEN_PID", pid))?;
    if pid != process::id() {
        return Ok(None);
    }
    fds.parse().map(Some).map_err(|_| wrong("LISTEN_FDS", fds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn both_variables_make_descriptors_ours() {
        let own = process::id().to_string();
        assert_eq!(count(Some(&own), Some("2")).unwrap(), Some(2));
        assert_eq!(count(Some("1"), Some("2")).unwrap(), None);
        for (pid, fds) in [(None, Some("1")), (Some(own.as_str()), None), (None, None)] {
            assert_eq!(count(pid, fds).unwrap(), None);
        }
        for (pid, fds) in [("", "1"), (own.as_str(), "-1"), (own.as_str(), "70000")] {
            let error = count(Some(pid), Some(fds)).unwrap_err().to_string();
            assert!(error.contains("LISTEN_"), "{error}");
        }
    }
}
