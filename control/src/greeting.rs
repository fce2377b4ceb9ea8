//! How control introduces itself to a daemon of its own release, of the one before or of the next.

use std::{io, path::Path};

use covalent_api::{
    guid::Guid,
    request::{Reply, Request},
    versions::{NoCommonVersion, Versions, is_refusal_of_version_5},
};

use crate::channel::{Channel, ChannelError};

/// Why a daemon was not greeted.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// No process listens.
    #[error("{0} (is covalentd running?)")]
    Connect(io::Error),
    /// The socket or a message failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The daemon turned this process away.
    #[error(
        "it refuses control: {0} (control must run as root, as the daemon's own user, or as a \
         member of `node.group`)"
    )]
    Refused(String),
    /// Daemon and control are more than one release apart.
    #[error(transparent)]
    Version(NoCommonVersion),
    /// The daemon's reply does not match the request.
    #[error("it answered the greeting with an unexpected message")]
    Unexpected,
}

/// A daemon that was greeted.
pub struct Greeted {
    /// The connection.
    pub channel: Channel,
    /// Its identity.
    pub guid: Guid,
    /// The node's name as the daemon has it.
    pub node: String,
}

/// Connects to the daemon at `socket` and introduces control as `program`, in the newest version
/// that both support. A daemon of version 5 needs a second connection.
///
/// # Errors
/// [`GreetingError`].
pub async fn greet(socket: &Path, program: &str) -> Result<Greeted, GreetingError> {
    match greet_with(socket, &Request::hello(program)).await {
        Err(GreetingError::Refused(reason)) if is_refusal_of_version_5(&reason) => {
            greet_with(socket, &Request::hello_of_version_5(program)).await
        }
        greeted => greeted,
    }
}

async fn greet_with(socket: &Path, hello: &Request) -> Result<Greeted, GreetingError> {
    let mut channel = Channel::connect(socket)
        .await
        .map_err(GreetingError::Connect)?;
    channel.send(hello).await?;
    let apart = |speaks| {
        GreetingError::Version(NoCommonVersion {
            server: "covalentd",
            server_versions: speaks,
            client: "covalent-control",
            client_versions: Versions::SUPPORTED,
        })
    };
    match channel.recv().await? {
        Reply::Welcome {
            version,
            node,
            guid,
            ..
        } if Versions::SUPPORTED.has(version) => Ok(Greeted {
            channel,
            guid,
            node,
        }),
        Reply::Welcome {
            version, speaks, ..
        } => Err(apart(speaks.unwrap_or(Versions::only(version)))),
        Reply::Refused {
            speaks: Some(speaks),
            ..
        } => Err(apart(speaks)),
        Reply::Refused { reason, .. } => Err(GreetingError::Refused(reason)),
        _ => Err(GreetingError::Unexpected),
    }
}
