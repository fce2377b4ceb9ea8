//! `covalent reload`: an edited configuration, put in force while the node runs.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use covalent_api::{
    MAX_DATAGRAM_BYTES,
    config::{Config, Effect, KeyChange},
    control::{ControlReply, ControlRequest},
    datagram,
};
use covalent_pipe::seqpacket::Connection;

use crate::{args::ReloadArgs, output};

/// How long the exchange may take: lanes take it in milliseconds, and looking up a group may wait for a name service.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `covalent reload`.
///
/// # Errors
/// When the file is wrong, or nobody answers who could put it in force.
pub fn run(args: &ReloadArgs) -> Result<ExitCode> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => Config::load(&args.config.config)
            .context("nothing was changed")?
            .control_socket_path(),
    };
    match ask(&socket)? {
        ControlReply::Reloaded { epoch, changed, .. } if changed.is_empty() => {
            output::line(&format!(
                "nothing to change: the file says what is in force under epoch {epoch}"
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        ControlReply::Reloaded {
            epoch,
            changed,
            beware,
        } => {
            output::line(&format!("in force under epoch {epoch}:"))?;
            for change in &changed {
                output::line(&format!("  {}", told(change)))?;
            }
            for beware in &beware {
                output::line(&format!("beware: {beware}"))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ControlReply::NotReloaded { problems } => {
            bail!("nothing was changed:\n{}", problems.join("\n"))
        }
        ControlReply::Refused { reason } => bail!("nothing was changed: {reason}"),
        other => {
            bail!("covalent-control answered with something else than was asked for: {other:?}")
        }
    }
}

fn told(change: &KeyChange) -> String {
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

fn ask(socket: &Path) -> Result<ControlReply> {
    let connection = Connection::connect(socket).map_err(|error| {
        anyhow!(
            "no covalent-control answers at {} ({error})\n  cure: `covalent up --config FILE` starts it; `--socket PATH` names another place",
            socket.display()
        )
    })?;
    let gone = || format!("cannot speak to covalent-control at {}", socket.display());
    let request = datagram::encode(&ControlRequest::Reload)?;
    connection.send(&request, &[]).with_context(gone)?;
    if !connection.wait(Some(PATIENCE)).with_context(gone)? {
        bail!(
            "covalent-control did not answer within {PATIENCE:?}; its log tells how the reload ends, and `covalent status` what is in force"
        );
    }
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).with_context(gone)?;
    Ok(datagram::decode(&buffer[..length])?)
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
