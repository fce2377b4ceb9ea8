//! The control process's socket, as the command line uses it: one question, one answer, never waiting for ever.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use covalent_api::{
    MAX_DATAGRAM_BYTES,
    config::{Config, Effect, KeyChange},
    control::{ControlReply, ControlRequest},
    datagram,
    versions::{NoCommonVersion, Versions},
};
use covalent_pipe::seqpacket::{Connection, SeqpacketError};

use crate::args::ControlNodeArgs;

/// How long an exchange may take: lanes take it in milliseconds, and looking up a group may wait for a name service.
const PATIENCE: Duration = Duration::from_secs(30);

/// The socket that was named, else that of the configuration.
///
/// # Errors
/// When the configuration cannot be read.
pub fn socket(args: &ControlNodeArgs) -> Result<PathBuf> {
    match &args.socket {
        Some(socket) => Ok(socket.clone()),
        None => Ok(Config::load(&args.config.config)?.control_socket_path()),
    }
}

/// What control answers to `request`. It is asked for its version first.
///
/// # Errors
/// When nobody answers there, or not in time, or control is more than one release away.
pub fn ask(socket: &Path, request: &ControlRequest) -> Result<ControlReply> {
    let connection = Connection::connect(socket).map_err(|error| {
        anyhow!(
            "no covalent-control answers at {} ({error})\n  cure: `covalent up --config FILE` starts it; `--socket PATH` names another place",
            socket.display()
        )
    })?;
    let version = ask_over(&connection, socket, &ControlRequest::Version)?;
    if let ControlReply::Version(control) = &version
        && Versions::SPOKEN.common(control.speaks()).is_none()
    {
        bail!(NoCommonVersion {
            server: "covalent-control",
            server_speaks: control.speaks(),
            client: "covalent",
            client_speaks: Versions::SPOKEN,
        });
    }
    match version {
        ControlReply::Version(_) if *request != ControlRequest::Version => {
            ask_over(&connection, socket, request)
        }
        // What was asked for, or why nothing is answered.
        answer => Ok(answer),
    }
}

fn ask_over(
    connection: &Connection,
    socket: &Path,
    request: &ControlRequest,
) -> Result<ControlReply> {
    let gone = || format!("cannot speak to covalent-control at {}", socket.display());
    let request = datagram::encode(request)?;
    match connection.send(&request, &[]) {
        // Whoever is turned away is told why first.
        Ok(()) | Err(SeqpacketError::Closed) => {}
        Err(problem) => return Err(problem).with_context(gone),
    }
    if !connection.wait(Some(PATIENCE)).with_context(gone)? {
        bail!(
            "covalent-control did not answer within {PATIENCE:?}; its log tells what becomes of it, and `covalent status` what is in force"
        );
    }
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).with_context(gone)?;
    Ok(datagram::decode(&buffer[..length])?)
}

/// What is in force now, if it is what was wanted.
pub struct InForce {
    /// The epoch that control and every lane hold.
    pub epoch: u64,
    /// Keys whose value is another one.
    pub changed: Vec<KeyChange>,
    /// Who is affected and may not know.
    pub beware: Vec<String>,
}

/// Has something put in force.
///
/// # Errors
/// When nothing was changed, with everything that stands in the way.
pub fn put_in_force(socket: &Path, request: &ControlRequest) -> Result<InForce> {
    match ask(socket, request)? {
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

/// An answer to something else.
pub fn unexpected(reply: &ControlReply) -> anyhow::Error {
    anyhow!("covalent-control answered with something else than was asked for: {reply:?}")
}

/// A changed key, and what the change takes.
pub fn told(change: &KeyChange) -> String {
    let KeyChange {
        key,
        from,
        to,
        effect,
    } = change;
    let since = match effect {
        Effect::Live => "",
        Effect::LiveForNew => ", for what is opened from now on",
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
    fn a_change_tells_what_it_takes() {
        let change = |effect| KeyChange {
            key: "node.group".into(),
            from: "\"\"".into(),
            to: "\"g\"".into(),
            effect,
        };
        assert_eq!(
            told(&change(Effect::Live)),
            "node.group: \"g\" in place of \"\""
        );
        assert!(told(&change(Effect::LiveForNew)).ends_with("opened from now on"));
    }
}
