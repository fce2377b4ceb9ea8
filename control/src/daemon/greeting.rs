//! Greeting of the connection that follows the daemon: both sides identify themselves, and control
//! subscribes to all events.

use std::path::Path;

use covalent_api::{
    event::Event,
    guid::Guid,
    request::{Reply, Request},
};

use crate::{
    channel::{Channel, ChannelError},
    greeting::{self, GreetingError},
};

/// Why a connection was given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The socket or a message failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The daemon was not greeted.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// The daemon's process has exited, regardless of the connection's state.
    #[error("its process has ended")]
    Ended,
    /// The daemon refused a request.
    #[error(
        "it refuses control: {0} (control must run as root, as the daemon's own user, or as a \
         member of `node.group`)"
    )]
    Refused(String),
    /// The daemon's reply does not match the request.
    #[error("it answered {0} with an unexpected message")]
    Unexpected(&'static str),
}

/// A daemon that was greeted.
pub(super) struct Greeted {
    /// Its identity.
    pub(super) guid: Guid,
    /// The node's name as the daemon has it.
    pub(super) node: String,
    /// Events received before the greeting was complete.
    pub(super) early: Vec<Event>,
}

/// Connects to the daemon at `socket`, introduces control and subscribes it to events.
pub(super) async fn greet(socket: &Path) -> Result<(Channel, Greeted), SessionError> {
    let greeting::Greeted {
        mut channel,
        guid,
        node,
    } = greeting::greet(socket, "covalent-control").await?;
    channel.send(&Request::Subscribe).await?;
    let mut early = Vec::new();
    loop {
        match channel.recv().await? {
            Reply::Done => return Ok((channel, Greeted { guid, node, early })),
            Reply::Event(event) => early.push(event),
            Reply::Refused { reason, .. } => return Err(SessionError::Refused(reason)),
            _ => return Err(SessionError::Unexpected("the subscription")),
        }
    }
}
