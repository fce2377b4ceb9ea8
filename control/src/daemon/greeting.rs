//! The first words of a connection: who is who, in which version, and "tell me everything that happens".

use covalent_api::{
    API_VERSION,
    event::Event,
    guid::Guid,
    request::{Reply, Request},
};

use crate::channel::{Channel, ChannelError};

/// Why a connection was given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The socket or a message failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The daemon's process has ended, whatever became of the connection.
    #[error("its process has ended")]
    Ended,
    /// The daemon turned this process away.
    #[error(
        "it refuses control: {0} (control must run as root, as the daemon's own user, or as a member of `node.group`)"
    )]
    Refused(String),
    /// Daemon and control are of different releases.
    #[error(
        "it speaks version {0} of the messages and control speaks version {API_VERSION}; install both from one release"
    )]
    Version(u32),
    /// The daemon answered something else than what was asked.
    #[error("it answered {0} with something else")]
    Unexpected(&'static str),
}

/// A daemon that was greeted.
pub(super) struct Greeted {
    /// Its identity.
    pub(super) guid: Guid,
    /// The node's name as the daemon has it.
    pub(super) node: String,
    /// Events that came before the greeting was over.
    pub(super) early: Vec<Event>,
}

/// Introduces control and subscribes it to events.
pub(super) async fn greet(channel: &mut Channel) -> Result<Greeted, SessionError> {
    channel
        .send(&Request::Hello {
            version: API_VERSION,
            program: "covalent-control".to_owned(),
        })
        .await?;
    let (guid, node) = match channel.recv().await? {
        Reply::Welcome {
            version,
            node,
            guid,
            ..
        } if version == API_VERSION => (guid, node),
        Reply::Welcome { version, .. } => return Err(SessionError::Version(version)),
        Reply::Refused { reason } => return Err(SessionError::Refused(reason)),
        _ => return Err(SessionError::Unexpected("the greeting")),
    };
    channel.send(&Request::Subscribe).await?;
    let mut early = Vec::new();
    loop {
        match channel.recv().await? {
            Reply::Done => return Ok(Greeted { guid, node, early }),
            Reply::Event(event) => early.push(event),
            Reply::Refused { reason } => return Err(SessionError::Refused(reason)),
            _ => return Err(SessionError::Unexpected("the subscription")),
        }
    }
}
