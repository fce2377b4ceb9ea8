//! `control.sock`: answers to the CLI.
//!
//! What is told here may be read by anyone on the host, like `/metrics`, so the socket is open to all, where the kernel refuses the descriptors that they send
//! ([`clients`](crate::clients)). Who may have the file read again is root and control's own user.

use covalent_api::{
    control::{ControlReply, ControlRequest, ControlVersion, RULES_TOLD_MAX},
    datagram,
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
    clients::{Bounds, Client, Door, Full, Who},
    interfaces::{Asker, Interfaces},
    neighbours::Neighbours,
};

/// Most clients at a time; the next one is turned away. Strangers never fill those that are left for root and the node's user, who reload.
pub const CLIENTS: Bounds = Bounds {
    all: 32,
    strangers: 24,
    each: 8,
};

/// How long a client may say nothing, or not read, before its place is given to the next.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// How long the kernel may take to show the interfaces once more, before what is known of them is told.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// What the answers are made from.
#[derive(Clone)]
pub struct Knowledge {
    /// The node's configured name.
    pub node: String,
    /// When control started.
    pub started: Instant,
    /// The neighbour table.
    pub neighbours: watch::Receiver<Neighbours>,
    /// The interfaces of AF_XDP ports.
    pub interfaces: watch::Receiver<Interfaces>,
    /// Has the interfaces looked at once more.
    pub look_again: mpsc::Sender<Asker>,
    /// What is agreed on with the daemon, if control has a file.
    pub agreement: Option<Agreement>,
}

/// What a client for whom there is no place is told.
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

/// Answers one client until it leaves, says something that is no request, or says nothing or does not read for `idle_max`: the socket is open to all,
/// and silent clients must not keep the others out.
async fn converse(
    client: Client,
    knowledge: &Knowledge,
    idle_max: Duration,
) -> Result<(), ChannelError> {
    let Client { socket, who, place } = client;
    let mut channel = Channel::of(socket).map_err(ChannelError::Io)?;
    // Given back when the channel is closed.
    let _place = place;
    loop {
        let Ok(received) = timeout(idle_max, channel.recv()).await else {
            return Err(ChannelError::Closed);
        };
        let reply = match received {
            Ok(
                request @ (ControlRequest::Reload
                | ControlRequest::Rules { .. }
                | ControlRequest::Steer { .. }),
            ) => privileged(who, knowledge, request).await,
            Ok(request) => {
                if request == ControlRequest::Interfaces {
                    knowledge.look_again().await;
                }
                knowledge.answer(&request)
            }
            Err(ChannelError::Datagram(problem)) => ControlReply::Refused {
                reason: problem.to_string(),
            },
            Err(problem) => return Err(problem),
        };
        // A client that does not read is as silent as one that does not ask.
        let Ok(sent) = timeout(idle_max, tell(&mut channel, &reply)).await else {
            return Err(ChannelError::Closed);
        };
        sent?;
    }
}

/// Answers what only some may ask: to have the file read again, to see and to change the rules in force.
async fn privileged(who: Who, knowledge: &Knowledge, request: ControlRequest) -> ControlReply {
    let refused = |reason: String| ControlReply::Refused { reason };
    match who {
        Who::Operator => {}
        Who::User(uid) => {
            return refused(format!(
                "user {uid} may not have the configuration reloaded or changed, nor see its rules: run as root or as control's user"
            ));
        }
        Who::Network => return refused("the system does not say who asks".to_owned()),
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
    let Some(told) = agreement.rules().await else {
        return ControlReply::Refused {
            reason: "no covalentd answers, and only one that runs has rules in force".to_owned(),
        };
    };
    let all = told.rules.len();
    let first = (from as usize).min(all);
    let end = (first + RULES_TOLD_MAX).min(all);
    ControlReply::Rules {
        held: told.held,
        rules: told.rules[first..end].to_vec(),
        next: (end < all).then_some(end as u32),
    }
}

async fn tell(channel: &mut Channel, reply: &ControlReply) -> Result<(), ChannelError> {
    match channel.send(reply).await {
        // Hundreds of links may not fit; whoever asked shall read why, not guess from a closed socket.
        Err(ChannelError::Datagram(problem)) => {
            let reason = problem.to_string();
            channel.send(&ControlReply::Refused { reason }).await
        }
        result => result,
    }
}

impl Knowledge {
    /// Has the interfaces looked at once more: the kernel does not tell of everything. Whoever watches none has nothing to look at.
    async fn look_again(&self) {
        let (asker, looked) = oneshot::channel();
        if self.look_again.try_send(asker).is_ok() {
            // Late, or no watcher: what is known is told.
            let _ = timeout(LOOK_MAX, looked).await;
        }
    }

    /// The answer to one request.
    #[must_use]
    pub fn answer(&self, request: &ControlRequest) -> ControlReply {
        let neighbours = self.neighbours.borrow();
        let daemon_connected = neighbours.daemon().is_some();
        match request {
            ControlRequest::Version => ControlReply::Version(ControlVersion {
                api: Versions::SPOKEN.newest,
                oldest: Some(Versions::SPOKEN.oldest),
                program: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                uptime_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
                node: self.node.clone(),
                guid: neighbours.daemon(),
            }),
            ControlRequest::Neighbours => ControlReply::Neighbours {
                daemon_connected,
                neighbours: neighbours.neighbours(),
            },
            ControlRequest::Links => ControlReply::Links {
                daemon_connected,
                links: neighbours.links(),
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
            started: Instant::now(),
            neighbours: watch::channel(Neighbours::default()).1,
            interfaces: watch::channel(Interfaces::of(&[])).1,
            look_again: mpsc::channel(1).0,
            agreement: None,
        }
    }

    /// A client in one of `places` as control has it, and the client's own end.
    fn client(places: &Places) -> (Client, Channel) {
        let (socket, other) = UnixSeqpacket::pair().expect("a pair");
        let client = Client {
            socket: socket.into(),
            who: Who::Operator,
            place: places.take(Who::Operator).expect("free"),
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
    async fn a_client_that_says_nothing_is_hung_up_on() {
        let places = one_place();
        let (client, mut channel) = client(&places);
        channel.send(&ControlRequest::Version).await.expect("room");
        let began = Instant::now();
        let ended = timeout(LONG, converse(client, &knowledge(), SHORT)).await;
        let ended = ended.expect("the conversation ends");
        assert!(matches!(ended, Err(ChannelError::Closed)), "{ended:?}");
        assert!(began.elapsed() >= SHORT);
        let reply = channel.recv().await.expect("what it asked for");
        assert!(matches!(reply, ControlReply::Version(_)), "{reply:?}");
        let end = channel.recv::<ControlReply>().await;
        assert!(matches!(end, Err(ChannelError::Closed)), "{end:?}");
        assert!(places.take(Who::Operator).is_ok());
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_hung_up_on() {
        let places = one_place();
        let (client, channel) = client(&places);
        // There is a request at every moment, so control waits for room, never for a request.
        let asks = async { while channel.send(&ControlRequest::Version).await.is_ok() {} };
        let began = Instant::now();
        let knowledge = knowledge();
        let both = async { join!(converse(client, &knowledge, SHORT), asks) };
        let (ended, ()) = timeout(LONG, both).await.expect("the conversation ends");
        assert!(matches!(ended, Err(ChannelError::Closed)), "{ended:?}");
        assert!(began.elapsed() >= SHORT);
        assert!(places.take(Who::Operator).is_ok());
    }
}
