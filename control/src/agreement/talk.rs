//! The connection for agreements: one request, one reply, and in between the daemon's notification
//! that it shuts down.

use std::path::Path;

use covalent_api::{
    agreement::{HeldBrief, PIECE_BYTES_MAX, RefusalBrief, VerdictBrief},
    event::EventKind,
    hex64::Hex64,
    request::{Reply, Request},
};
use covalent_protocol::agreement::{Proposal, Refusal, Verdict};

use super::brief;
use crate::{
    channel::{Channel, ChannelError},
    greeting::{GreetingError, greet},
};

/// Why the connection was given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum TalkError {
    /// The socket or a message failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The daemon was not greeted.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// The daemon does not permit this process to query or offer configurations.
    #[error("it refuses: {0}")]
    Refused(String),
    /// The reply does not match the request.
    #[error("it answered {0} with an unexpected message")]
    Unexpected(&'static str),
}

/// A greeted connection.
pub(super) struct Talk {
    channel: Channel,
    /// The daemon has reported a graceful shutdown.
    took_leave: bool,
}

impl Talk {
    /// Connects and greets.
    pub(super) async fn connect(socket: &Path) -> Result<Self, TalkError> {
        let greeted = greet(socket, "covalent-control (agreement)").await?;
        Ok(Self {
            channel: greeted.channel,
            took_leave: false,
        })
    }

    /// Whether the daemon has reported a graceful shutdown.
    pub(super) const fn took_leave(&self) -> bool {
        self.took_leave
    }

    /// Waits until the daemon sends an unsolicited message, which is its shutdown.
    pub(super) async fn listen(&mut self) -> Result<(), TalkError> {
        match self.channel.recv().await? {
            Reply::Event(event) => {
                self.took_leave |= event.kind == EventKind::Stopping;
                Ok(())
            }
            Reply::Refused { reason, .. } => Err(TalkError::Refused(reason)),
            _ => Err(TalkError::Unexpected("no request")),
        }
    }

    async fn query(&mut self, request: &Request) -> Result<Reply, TalkError> {
        self.channel.send(request).await?;
        loop {
            match self.channel.recv().await? {
                Reply::Event(event) => self.took_leave |= event.kind == EventKind::Stopping,
                Reply::Refused { reason, .. } => return Err(TalkError::Refused(reason)),
                reply => return Ok(reply),
            }
        }
    }

    /// Queries the configuration that the daemon holds.
    pub(super) async fn held(&mut self) -> Result<HeldBrief, TalkError> {
        match self.query(&Request::Agreement).await? {
            Reply::Agreement { held } => Ok(held),
            _ => Err(TalkError::Unexpected("the query for its configuration")),
        }
    }

    /// Fetches the text of the configuration that it holds.
    pub(super) async fn text(&mut self) -> Result<String, TalkError> {
        let mut whole = String::new();
        let mut first = None;
        loop {
            let from_bytes = whole.len() as u64;
            let reply = self.query(&Request::AgreedText { from_bytes }).await?;
            let Reply::AgreedText {
                held,
                text,
                next_bytes,
            } = reply
            else {
                return Err(TalkError::Unexpected("the query for its text"));
            };
            if *first.get_or_insert(held) != held {
                return Err(TalkError::Unexpected(
                    "the second part of the query for its text",
                ));
            }
            whole += &text;
            match next_bytes {
                None => return Ok(whole),
                Some(next) if !text.is_empty() && next == whole.len() as u64 => {}
                Some(_) => return Err(TalkError::Unexpected("the query for its text")),
            }
        }
    }

    /// Offers `text`, the configuration that `proposal` wants, with ports to reopen, and waits for
    /// the verdict.
    pub(super) async fn propose(
        &mut self,
        proposal: &Proposal,
        text: &str,
        reopen: Vec<String>,
    ) -> Result<VerdictBrief, TalkError> {
        let mut sent = 0;
        while sent < text.len() {
            let end = text.floor_char_boundary(sent + PIECE_BYTES_MAX);
            let draft = Request::Draft {
                from_bytes: sent as u64,
                text: text[sent..end].to_owned(),
            };
            match self.query(&draft).await? {
                Reply::Done => sent = end,
                _ => return Err(TalkError::Unexpected("a draft")),
            }
        }
        let request = Request::Offer {
            epoch: proposal.epoch,
            believes: brief(&proposal.believes),
            digest: Hex64(proposal.wants),
            reopen,
        };
        match self.query(&request).await? {
            Reply::Verdict(verdict) => Ok(*verdict),
            _ => Err(TalkError::Unexpected("an offer")),
        }
    }
}

/// Converts to the form of the state machine.
pub(super) fn verdict(brief: &VerdictBrief) -> Verdict {
    brief.refused.map_or(Verdict::Taken, |refused| {
        Verdict::Refused(match refused {
            RefusalBrief::Stale => Refusal::Stale,
            RefusalBrief::NotLater => Refusal::NotLater,
            RefusalBrief::Busy => Refusal::Busy,
            RefusalBrief::Unready => Refusal::Unready,
            RefusalBrief::Lane { lane } => Refusal::Lane(lane),
        })
    })
}
