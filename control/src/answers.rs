//! `control.sock`: replies to the CLI.
//!
//! Anyone on the host may read these replies, like `/metrics`. The socket is therefore open to all
//! users if the kernel refuses the descriptors that they send ([`clients`](crate::clients)). Only
//! root and control's own user may reload the file.

use covalent_api::{
    control::{
        ControlReply, ControlRequest, ControlVersion, NOT_FOR_APPLICATIONS, RULES_PER_REPLY_MAX,
    },
    datagram,
    request::Request,
    versions::Versions,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Duration, Instant, sleep, timeout},
};
use tracing::{debug, warn};

use crate::{
    agreement::{Agreement, Reloaded, RuleEdit},
    channel::{Channel, ChannelError},
    clients::{Bounds, Client, Door, Full, Principal},
    interfaces::{Interfaces, Requester},
    neighbors::Neighbors,
};

/// Maximum number of concurrent clients; further ones are refused. Other users cannot fill the
/// slots reserved for root and the node's user, who reload.
pub const CLIENTS: Bounds = Bounds {
    all: 32,
    strangers: 24,
    each: 8,
};

/// How long a client may send nothing, or not read, before it loses its slot.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// How long the kernel may take to list the interfaces again before control replies with its last
/// known state.
const RECHECK_MAX: Duration = Duration::from_secs(1);

/// Sources of the replies.
#[derive(Clone)]
pub struct Knowledge {
    /// The node's configured name.
    pub node: String,
    /// The file that a reload rereads, as an absolute path.
    pub file: Option<String>,
    /// When control started.
    pub started: Instant,
    /// The neighbor table.
    pub neighbors: watch::Receiver<Neighbors>,
    /// The interfaces of AF_XDP ports.
    pub interfaces: watch::Receiver<Interfaces>,
    /// Has the interfaces looked at once more.
    pub recheck: mpsc::Sender<Requester>,
    /// The agreement with the daemon, if control has a file.
    pub agreement: Option<Agreement>,
}

/// Reply to a client for which there is no slot.
#[must_use]
pub fn turned_away(full: &Full) -> Vec<u8> {
    let reason = format!("too many clients of the control socket: {full}");
    // Too short not to fit.
    datagram::encode(&ControlReply::Refused { reason }).unwrap_or_default()
}

/// Serves clients until the task is dropped.
pub async fn serve(mut door: Door, knowledge: Knowledge) {
    loop {
        match door.next().await {
            Ok(client) => {
                let knowledge = knowledge.clone();
                tokio::spawn(async move {
                    match converse(client, &knowledge, IDLE_MAX).await {
                        Ok(()) | Err(ChannelError::Closed) => {}
                        Err(problem) => debug!("a client of the control socket: {problem}"),
                    }
                });
            }
            Err(problem) => {
                warn!("control socket: {problem}");
                // Out of descriptors: trying at once again would spin.
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one client until it disconnects or violates the protocol. A client that sends nothing or
/// does not read for `idle_max` is disconnected too: the socket is open to all, and idle clients
/// must not lock out others.
async fn converse(
    client: Client,
    knowledge: &Knowledge,
    idle_max: Duration,
) -> Result<(), ChannelError> {
    let Client {
        socket,
        principal,
        place,
    } = client;
    let mut channel = Channel::of(socket).map_err(ChannelError::Io)?;
    // Given back when the channel is closed.
    let _place = place;
    loop {
        let Ok(received) = timeout(idle_max, channel.recv_bytes()).await else {
            return Err(ChannelError::Closed);
        };
        let reply = match received.map(read) {
            Ok(Ok(
                request @ (ControlRequest::Reload
                | ControlRequest::Rules { .. }
                | ControlRequest::Steer { .. }),
            )) => privileged(principal, knowledge, request).await,
            Ok(Ok(request)) => {
                if request == ControlRequest::Interfaces {
                    knowledge.recheck().await;
                }
                knowledge.answer(&request)
            }
            Ok(Err(reason)) => ControlReply::Refused { reason },
            Err(ChannelError::Datagram(problem)) => ControlReply::Refused {
                reason: problem.to_string(),
            },
            Err(problem) => return Err(problem),
        };
        // A client that does not read is treated like a client that sends nothing.
        let Ok(sent) = timeout(idle_max, send_reply(&mut channel, &reply)).await else {
            return Err(ChannelError::Closed);
        };
        sent?;
    }
}

/// The request in a datagram, or why there is none.
fn read(bytes: &[u8]) -> Result<ControlRequest, String> {
    datagram::decode(bytes).map_err(|problem| match Request::read_greeting(bytes) {
        Ok(Request::Hello { .. }) => NOT_FOR_APPLICATIONS.to_owned(),
        _ => problem.to_string(),
    })
}

/// Answers privileged requests: reload the file, list and change the rules in force.
async fn privileged(
    principal: Principal,
    knowledge: &Knowledge,
    request: ControlRequest,
) -> ControlReply {
    let refused = |reason: String| ControlReply::Refused { reason };
    match principal {
        Principal::Operator => {}
        Principal::User(uid) => {
            return refused(format!(
                "user {uid} may not reload or change the configuration, nor see its rules: run as \
                 root or as control's user"
            ));
        }
        Principal::Network => {
            return refused("the system does not identify the requester".to_owned());
        }
    }
    let Some(agreement) = &knowledge.agreement else {
        return refused("this control was started without a file".to_owned());
    };
    let reloaded = match request {
        ControlRequest::Rules { from } => return rules(agreement, from).await,
        ControlRequest::Steer { remove, add } => agreement.steer(RuleEdit { remove, add }).await,
        _ => agreement.reload().await,
    };
    match reloaded {
        Reloaded::Taken {
            epoch,
            changed,
            beware,
        } => ControlReply::Reloaded {
            epoch,
            changed,
            beware,
        },
        Reloaded::Refused { problems } => ControlReply::NotReloaded { problems },
    }
}

/// The steering rules in force, from number `from` on.
async fn rules(agreement: &Agreement, from: u32) -> ControlReply {
    let Some(in_force) = agreement.rules().await else {
        return ControlReply::Refused {
            reason: "no covalentd answers, and only a running covalentd has rules in \
                     force"
                .to_owned(),
        };
    };
    let all = in_force.rules.len();
    let first = (from as usize).min(all);
    let end = (first + RULES_PER_REPLY_MAX).min(all);
    ControlReply::Rules {
        held: in_force.held,
        rules: in_force.rules[first..end].to_vec(),
        next: (end < all).then_some(end as u32),
    }
}

async fn send_reply(channel: &mut Channel, reply: &ControlReply) -> Result<(), ChannelError> {
    match channel.send(reply).await {
        // Hundreds of links may not fit. The client must receive the reason instead of a closed
        // socket.
        Err(ChannelError::Datagram(problem)) => {
            let reason = problem.to_string();
            channel.send(&ControlReply::Refused { reason }).await
        }
        result => result,
    }
}

impl Knowledge {
    /// Queries the interfaces again, because the kernel does not send notifications of every
    /// change. Does nothing if no interface is watched.
    async fn recheck(&self) {
        let (requester, rechecked) = oneshot::channel();
        if self.recheck.try_send(requester).is_ok() {
            // On a timeout, or without a watcher, the reply has the last known state.
            let _ = timeout(RECHECK_MAX, rechecked).await;
        }
    }

    /// The answer to one request.
    #[must_use]
    pub fn answer(&self, request: &ControlRequest) -> ControlReply {
        let neighbors = self.neighbors.borrow();
        let daemon_connected = neighbors.daemon().is_some();
        match request {
            ControlRequest::Version => ControlReply::Version(ControlVersion {
                api: Versions::SUPPORTED.newest,
                oldest: Some(Versions::SUPPORTED.oldest),
                program: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                uptime_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
                node: self.node.clone(),
                guid: neighbors.daemon(),
                file: self.file.clone(),
            }),
            ControlRequest::Neighbors => ControlReply::Neighbors {
                daemon_connected,
                neighbors: neighbors.neighbors(),
            },
            ControlRequest::Links => ControlReply::Links {
                daemon_connected,
                links: neighbors.links(),
            },
            ControlRequest::Reload
            | ControlRequest::Rules { .. }
            | ControlRequest::Steer { .. } => ControlReply::Refused {
                reason: "this takes a while, and is answered where it has ended".to_owned(),
            },
            ControlRequest::Agreed => {
                let agreed = self.agreement.as_ref().map(Agreement::agreed);
                let agreed = agreed.unwrap_or_default();
                ControlReply::Agreed {
                    agreed: agreed.brief(),
                    is_shared: agreed.is_shared,
                }
            }
            ControlRequest::Interfaces => ControlReply::Interfaces {
                interfaces: self.interfaces.borrow().statuses().to_vec(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::join;
    use tokio_seqpacket::UnixSeqpacket;

    use super::*;
    use crate::clients::Places;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    fn knowledge() -> Knowledge {
        Knowledge {
            node: "node-a".to_owned(),
            file: None,
            started: Instant::now(),
            neighbors: watch::channel(Neighbors::default()).1,
            interfaces: watch::channel(Interfaces::of(&[])).1,
            recheck: mpsc::channel(1).0,
            agreement: None,
        }
    }

    /// A client in one of `places` as control has it, and the client's own end.
    fn client(places: &Places) -> (Client, Channel) {
        let (socket, other) = UnixSeqpacket::pair().expect("a pair");
        let client = Client {
            socket: socket.into(),
            principal: Principal::Operator,
            place: places.take(Principal::Operator).expect("free"),
        };
        (client, Channel::of(other.into()).expect("a socket"))
    }

    /// The only place there is.
    fn one_place() -> Places {
        Places::new(Bounds {
            all: 1,
            strangers: 1,
            each: 1,
        })
    }

    #[tokio::test]
    async fn a_silent_client_is_disconnected() {
        let places = one_place();
        let (client, mut channel) = client(&places);
        channel.send(&ControlRequest::Version).await.expect("room");
        let began = Instant::now();
        let ended = timeout(LONG, converse(client, &knowledge(), SHORT)).await;
        let ended = ended.expect("the conversation ends");
        assert!(matches!(ended, Err(ChannelError::Closed)), "{ended:?}");
        assert!(began.elapsed() >= SHORT);
        let reply = channel.recv().await.expect("the requested reply");
        assert!(matches!(reply, ControlReply::Version(_)), "{reply:?}");
        let end = channel.recv::<ControlReply>().await;
        assert!(matches!(end, Err(ChannelError::Closed)), "{end:?}");
        assert!(places.take(Principal::Operator).is_ok());
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_disconnected() {
        let places = one_place();
        let (client, channel) = client(&places);
        // There is always a request pending, so control waits for buffer space and never for a
        // request.
        let requests = async { while channel.send(&ControlRequest::Version).await.is_ok() {} };
        let began = Instant::now();
        let knowledge = knowledge();
        let both = async { join!(converse(client, &knowledge, SHORT), requests) };
        let (ended, ()) = timeout(LONG, both).await.expect("the conversation ends");
        assert!(matches!(ended, Err(ChannelError::Closed)), "{ended:?}");
        assert!(began.elapsed() >= SHORT);
        assert!(places.take(Principal::Operator).is_ok());
    }
}
