//! The command line's client of the control process's socket: one request, one reply, never an
//! unbounded wait.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use covalent_api::{
    MAX_DATAGRAM_BYTES,
    control::{ControlReply, ControlRequest, ControlVersion},
    datagram,
    versions::{NoCommonVersion, Versions},
};
use covalent_config::{Config, Effect, KeyChange};
use covalent_ipc::seqpacket::{Connection, SeqpacketError};

use crate::args::ControlNodeArgs;

/// Longest time for an exchange. Lanes take a change in milliseconds, but the lookup of a group may
/// wait for a name service.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the given socket, else that of the configuration.
///
/// # Errors
/// Fails if the configuration cannot be read.
pub fn socket(args: &ControlNodeArgs) -> Result<PathBuf> {
    match &args.socket {
        Some(socket) => Ok(socket.clone()),
        None => Ok(Config::load(args.config.file())?.control_socket_path()),
    }
}

/// Returns the reply of control to `request`. Queries its version first.
///
/// # Errors
/// Fails if control does not reply, or not in time, or is more than one release away.
pub fn send_request(socket: &Path, request: &ControlRequest) -> Result<ControlReply> {
    let connection = Connection::connect(socket).map_err(|error| {
        anyhow!(
            "no covalent-control answers at {} ({error})\n  cure: `covalent up --config FILE` \
             starts it; `--socket PATH` names another place",
            socket.display()
        )
    })?;
    let version = send_request_over(&connection, socket, &ControlRequest::Version)?;
    if let ControlReply::Version(control) = &version
        && Versions::SUPPORTED.common(control.speaks()).is_none()
    {
        bail!(NoCommonVersion {
            server: "covalent-control",
            server_versions: control.speaks(),
            client: "covalent",
            client_versions: Versions::SUPPORTED,
        });
    }
    match version {
        ControlReply::Version(_) if *request != ControlRequest::Version => {
            send_request_over(&connection, socket, request)
        }
        // The requested reply, or the reason why there is none.
        answer => Ok(answer),
    }
}

/// Returns the reply of control to a query of its version.
///
/// # Errors
/// As [`send_request`].
pub fn version(socket: &Path) -> Result<ControlVersion> {
    match send_request(socket, &ControlRequest::Version)? {
        ControlReply::Version(version) => Ok(version),
        other => Err(unexpected(&other)),
    }
}

/// Returns the reply of control to a query of its version, or `None` if it does not reply within
/// `patience`.
pub fn version_within(socket: &Path, patience: Duration) -> Option<ControlReply> {
    let connection = Connection::connect_timeout(socket, patience).ok()?;
    let request = datagram::encode(&ControlRequest::Version).ok()?;
    connection.send(&request, &[]).ok()?;
    if !connection.wait(Some(patience)).ok()? {
        return None;
    }
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).ok()?;
    datagram::decode(&buffer[..length]).ok()
}

fn send_request_over(
    connection: &Connection,
    socket: &Path,
    request: &ControlRequest,
) -> Result<ControlReply> {
    let gone = || format!("cannot speak to covalent-control at {}", socket.display());
    let request = datagram::encode(request)?;
    match connection.send(&request, &[]) {
        // Control sends the reason for a refusal before it closes the connection.
        Ok(()) | Err(SeqpacketError::Closed) => {}
        Err(problem) => return Err(problem).with_context(gone),
    }
    if !connection.wait(Some(PATIENCE)).with_context(gone)? {
        bail!(
            "covalent-control did not answer within {PATIENCE:?}; its log shows the outcome, and \
             `covalent status` the configuration in force"
        );
    }
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).with_context(gone)?;
    Ok(datagram::decode(&buffer[..length])?)
}

/// The configuration in force, if it is the wanted one.
pub struct InForce {
    /// The revision that control and every lane hold.
    pub epoch: u64,
    /// Keys whose value changed.
    pub changed: Vec<KeyChange>,
    /// Warnings about affected parties that may not be aware of the change.
    pub beware: Vec<String>,
}

/// Puts a configuration or rule in force.
///
/// # Errors
/// Fails if nothing was changed; the error lists every obstacle.
pub fn put_in_force(socket: &Path, request: &ControlRequest) -> Result<InForce> {
    match send_request(socket, request)? {
        ControlReply::Reloaded {
            epoch,
            changed,
            beware,
        } => Ok(InForce {
            epoch,
            changed,
            beware,
        }),
        ControlReply::NotReloaded { problems } => {
            bail!("nothing was changed:\n{}", problems.join("\n"))
        }
        ControlReply::Refused { reason } => bail!("nothing was changed: {reason}"),
        other => Err(unexpected(&other)),
    }
}

/// The finding that a node runs from another file than the given one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherFile {
    /// Both files.
    pub found: String,
    /// The remedy.
    pub cure: String,
}

/// Fails if control rereads another file than `given`. A control that does not report its file is
/// trusted.
///
/// # Errors
/// Names both files and the remedy.
pub fn expect_file(control: &ControlVersion, given: &Path) -> Result<()> {
    match other_file(control, given) {
        None => Ok(()),
        Some(OtherFile { found, cure }) => bail!("{found}\n  cure: {cure}"),
    }
}

/// Returns the finding if control rereads another file than `given`.
pub fn other_file(control: &ControlVersion, given: &Path) -> Option<OtherFile> {
    let own = Path::new(control.file.as_deref()?);
    let is_same = match (fs::canonicalize(own), fs::canonicalize(given)) {
        (Ok(own), Ok(given)) => own == given,
        _ => own == given,
    };
    if is_same {
        return None;
    }
    let (node, own, given) = (&control.node, own.display(), given.display());
    Some(OtherFile {
        found: format!(
            "node {node} runs from {own}, which covalent-control rereads, and not from {given}"
        ),
        cure: format!(
            "change {own}, then `covalent reload --config {own}`; for another file, `covalent down \
             --config {own}`, then `covalent up --config {given}`"
        ),
    })
}

/// An answer to something else.
pub fn unexpected(reply: &ControlReply) -> anyhow::Error {
    anyhow!("covalent-control sent an unexpected reply: {reply:?}")
}

/// Formats a changed key, and what the change requires.
pub fn describe_change(change: &KeyChange) -> String {
    let KeyChange {
        key,
        from,
        to,
        effect,
    } = change;
    let since = match effect {
        Effect::Live => "",
        Effect::LiveForNew => ", for objects opened from now on",
        Effect::Port => ", while all other ports run",
        Effect::ByControl => ", by covalent-control",
        Effect::Restart => ", at the next start of covalentd",
    };
    format!("{key}: {to} in place of {from}{since}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_what_it_requires() {
        let change = |effect| KeyChange {
            key: "node.group".into(),
            from: "\"\"".into(),
            to: "\"g\"".into(),
            effect,
        };
        assert_eq!(
            describe_change(&change(Effect::Live)),
            "node.group: \"g\" in place of \"\""
        );
        assert!(describe_change(&change(Effect::LiveForNew)).ends_with("opened from now on"));
    }
}
