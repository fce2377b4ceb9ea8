//! A received datagram is a valid message, or it is refused. The tests damage valid messages, as
//! text and as JSON. `make fuzz` tries more of them.

mod samples;

use std::fmt::Debug;

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    agreement::HeldBrief,
    control::{ControlReply, ControlRequest, ControlVersion, LinkBrief, Neighbor},
    datagram::{self, DatagramError},
    event::{Event, EventKind},
    faults::FaultRates,
    guid::Guid,
    hex64::Hex64,
    refusal::LinkRefusal,
    request::{PipeKind, PortBrief, Reply, Request, Rights},
    rule::{Match, Spread},
    tuning::{PipeTuning, RateLimit, RateUnit},
    versions::Versions,
};
use proptest::{collection::vec, option, prelude::*, sample::Index, sample::select};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn matches() -> impl Strategy<Value = Match> {
    select(samples::every_match())
}

fn tunings() -> impl Strategy<Value = PipeTuning> {
    let limit =
        (any::<bool>(), any::<u64>(), any::<u32>()).prop_map(|(bits, per_second, burst_us)| {
            RateLimit {
                unit: if bits {
                    RateUnit::Bits
                } else {
                    RateUnit::Packets
                },
                per_second,
                burst_us,
            }
        });
    (option::of(limit), any::<Option<u32>>()).prop_map(|(rate_limit, stamp_at_bytes)| PipeTuning {
        rate_limit,
        stamp_at_bytes,
    })
}

fn requests() -> impl Strategy<Value = Request> {
    let kinds = select(vec![
        PipeKind::Rx,
        PipeKind::Tx,
        PipeKind::RxTx,
        PipeKind::RxBytes,
        PipeKind::VerbSubmit,
        PipeKind::VerbComplete,
    ]);
    let reopened_kinds = kinds.clone();
    let spread = option::of(select(vec![Spread::Hash, Spread::RoundRobin]));
    let text = "\\PC{0,40}";
    prop_oneof![
        (any::<u32>(), any::<Option<u32>>(), text).prop_map(|(version, oldest, program)| {
            Request::Hello {
                version,
                oldest,
                program,
            }
        }),
        any::<u32>().prop_map(|lane| Request::OpenSession { lane }),
        (kinds, any::<u64>(), option::of(text)).prop_map(|(kind, capacity_bytes, port)| {
            Request::OpenPipe {
                kind,
                capacity_bytes,
                port,
                completions: None,
            }
        }),
        (any::<u32>(), reopened_kinds, any::<u64>(), option::of(text)).prop_map(
            |(pipe, kind, capacity_bytes, port)| Request::OpenPipeAgain {
                pipe,
                kind,
                capacity_bytes,
                port,
                completions: None
            }
        ),
        (any::<[u32; 2]>(), text, any::<u64>(), any::<bool>()).prop_map(
            |([rkey, seal], name, size_bytes, durable)| Request::RegisterRegionAgain {
                rkey,
                seal: Hex64(u64::from(seal) << 32 | u64::from(rkey)),
                name,
                size_bytes,
                rights: Rights::ALL,
                durable,
            }
        ),
        Just(Request::Mapped),
        any::<u32>().prop_map(|pipe| Request::ClosePipe { pipe }),
        (any::<u32>(), matches(), spread).prop_map(|(pipe, matches, spread)| Request::Bind {
            pipe,
            matches,
            spread
        }),
        (any::<u32>(), matches()).prop_map(|(pipe, matches)| Request::Unbind { pipe, matches }),
        (any::<u32>(), tunings()).prop_map(|(pipe, tuning)| Request::TunePipe { pipe, tuning }),
        (text, any::<u64>(), any::<[bool; 4]>(), any::<bool>()).prop_map(
            |(name, size_bytes, [read, write, atomic, send], durable)| {
                Request::RegisterRegion {
                    name,
                    size_bytes,
                    rights: Rights {
                        read,
                        write,
                        atomic,
                        send,
                    },
                    durable,
                }
            }
        ),
        any::<u32>().prop_map(|rkey| Request::WithdrawRegion { rkey }),
        text.prop_map(|name| Request::DeleteRegion { name }),
        Just(Request::Agreement),
        any::<u64>().prop_map(|from_bytes| Request::AgreedText { from_bytes }),
        (any::<u64>(), text).prop_map(|(from_bytes, text)| Request::Draft { from_bytes, text }),
        (any::<[u64; 5]>(), text).prop_map(|(numbers, port)| {
            let [epoch, digest, incarnation, believed, held] = numbers;
            Request::Offer {
                epoch,
                believes: HeldBrief {
                    incarnation: Hex64(incarnation),
                    epoch: believed,
                    digest: Hex64(held),
                },
                digest: Hex64(digest),
                reopen: vec![port],
            }
        }),
        Just(Request::Status),
        Just(Request::Subscribe),
        any::<u64>().prop_map(|from| Request::Events { from }),
        (text, any::<bool>()).prop_map(|(port, enabled)| Request::SetPort { port, enabled }),
        (text, faults(), faults()).prop_map(|(port, rx, tx)| Request::SetFaults { port, rx, tx }),
    ]
}

fn faults() -> impl Strategy<Value = FaultRates> {
    (any::<[u32; 3]>(), any::<bool>()).prop_map(|([drop, corrupt, duplicate], blackhole)| {
        FaultRates {
            drop_per_100k: drop,
            corrupt_per_100k: corrupt,
            duplicate_per_100k: duplicate,
            blackhole,
        }
    })
}

fn guids() -> impl Strategy<Value = Guid> {
    (1..=u64::MAX).prop_map(|bits| Guid::new(bits).expect("not zero"))
}

fn events() -> impl Strategy<Value = Event> {
    let text = "\\PC{0,40}";
    let kinds = prop_oneof![
        (text, guids(), text, any::<u16>(), any::<u32>()).prop_map(
            |(port, peer, peer_name, peer_port, epoch)| {
                EventKind::LinkUp {
                    port,
                    peer,
                    peer_name,
                    peer_port,
                    epoch,
                }
            }
        ),
        (text, text, any::<u32>()).prop_map(|(port, reason, open_transactions)| {
            EventKind::LinkDown {
                port,
                reason,
                open_transactions,
            }
        }),
        (text, text, text, text).prop_map(|(port, cause, reason, cure)| EventKind::LinkRefused {
            port,
            refusal: LinkRefusal {
                cause,
                reason,
                cure,
            },
        }),
        text.prop_map(|port| EventKind::LinkRefusalOver { port }),
        (text, any::<bool>()).prop_map(|(port, up)| EventKind::Carrier { port, up }),
        (text, text).prop_map(|(port, reason)| EventKind::PortAbsent { port, reason }),
        text.prop_map(|port| EventKind::PortOpened { port }),
        (guids(), text, any::<u16>(), text).prop_map(|(guid, name, hops, port)| {
            EventKind::NodeReachable {
                guid,
                name,
                hops,
                port,
            }
        }),
        (guids(), text).prop_map(|(guid, name)| EventKind::NodeUnreachable { guid, name }),
        (text, text, text).prop_map(|(cause, reason, cure)| EventKind::FabricProblem {
            cause,
            reason,
            cure,
        }),
        (any::<u64>(), any::<u32>(), text).prop_map(|(session, pid, program)| {
            EventKind::Attached {
                session,
                pid,
                program,
            }
        }),
        (any::<u32>(), text).prop_map(|(lane, reason)| EventKind::JournalFailed { lane, reason }),
        (any::<u64>(), text).prop_map(|(epoch, key)| EventKind::Configured {
            epoch,
            changed: vec![key],
        }),
        text.prop_map(|reason| EventKind::NotConfigured { reason }),
        Just(EventKind::Stopping),
        Just(EventKind::Unknown),
        (any::<u64>(), text, any::<u32>(), any::<u32>()).prop_map(
            |(session, reason, pipes, regions)| {
                EventKind::Detached {
                    session,
                    reason,
                    pipes,
                    regions,
                }
            }
        ),
    ];
    (any::<u64>(), any::<u64>(), kinds).prop_map(|(sequence, realtime_ns, kind)| Event {
        sequence,
        realtime_ns,
        kind,
    })
}

fn versions() -> impl Strategy<Value = Versions> {
    any::<[u32; 2]>().prop_map(|[oldest, newest]| Versions { oldest, newest })
}

fn replies() -> impl Strategy<Value = Reply> {
    let text = "\\PC{0,40}";
    let ports = vec(
        (text, any::<u32>(), any::<u32>()).prop_map(|(name, frame_bytes_max, lane)| PortBrief {
            name,
            frame_bytes_max,
            lane,
        }),
        0..4,
    );
    prop_oneof![
        (any::<u32>(), text, guids(), any::<u32>(), ports).prop_map(
            |(version, node, guid, lanes, ports)| {
                Reply::Welcome {
                    version,
                    speaks: Some(Versions {
                        oldest: version.saturating_sub(1),
                        newest: version,
                    }),
                    node,
                    guid,
                    lanes,
                    ports,
                }
            }
        ),
        (any::<u64>(), any::<u32>()).prop_map(|(session, slots)| Reply::Session { session, slots }),
        (
            any::<u32>(),
            any::<u64>(),
            any::<u32>(),
            option::of(any::<u16>())
        )
            .prop_map(
                |(pipe, page_bytes, frame_bytes_max, link_ethertype)| Reply::Pipe {
                    pipe,
                    page_bytes,
                    frame_bytes_max,
                    link_ethertype,
                }
            ),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(rkey, size_bytes, seal)| {
            Reply::Region {
                rkey,
                size_bytes,
                seal: Hex64(seal),
            }
        }),
        Just(Reply::Status(Box::new(samples::status()))),
        Just(Reply::Done),
        (text, option::of(versions()))
            .prop_map(|(reason, speaks)| Reply::Refused { reason, speaks }),
        events().prop_map(Reply::Event),
    ]
}

fn control_requests() -> impl Strategy<Value = ControlRequest> {
    select(vec![
        ControlRequest::Version,
        ControlRequest::Neighbors,
        ControlRequest::Links,
        ControlRequest::Interfaces,
    ])
}

fn links() -> impl Strategy<Value = Vec<LinkBrief>> {
    let text = "\\PC{0,40}";
    vec(
        (
            text,
            any::<(bool, Option<u16>, u32, Option<u64>)>(),
            option::of(guids()),
            option::of(text),
        )
            .prop_map(
                |(port, (up, peer_port, epoch, changed_realtime_ns), peer, name)| LinkBrief {
                    port,
                    up,
                    peer,
                    peer_name: name.clone(),
                    peer_port,
                    epoch,
                    last_failure: name,
                    changed_realtime_ns,
                },
            ),
        0..3,
    )
}

fn control_replies() -> impl Strategy<Value = ControlReply> {
    let text = "\\PC{0,40}";
    let neighbors = vec((guids(), text, links()), 0..3).prop_map(|all| {
        all.into_iter()
            .map(|(guid, name, links)| Neighbor { guid, name, links })
            .collect()
    });
    prop_oneof![
        (any::<(u32, u32, u64)>(), text, option::of(guids())).prop_map(
            |((api, pid, uptime_ns), node, guid)| {
                ControlReply::Version(ControlVersion {
                    api,
                    oldest: (pid % 2 == 0).then_some(pid),
                    program: node.clone(),
                    pid,
                    uptime_ns,
                    file: (pid % 3 == 0).then(|| node.clone()),
                    node,
                    guid,
                })
            }
        ),
        (any::<bool>(), neighbors).prop_map(|(daemon_connected, neighbors)| {
            ControlReply::Neighbors {
                daemon_connected,
                neighbors,
            }
        }),
        (any::<bool>(), links()).prop_map(|(daemon_connected, links)| ControlReply::Links {
            daemon_connected,
            links
        }),
        text.prop_map(|reason| ControlReply::Refused { reason }),
    ]
}

/// Damage to a message in transit.
#[derive(Debug, Clone)]
enum Damage {
    /// Replaces a value at any position.
    Replace(Index, Value),
    /// Adds an unknown member, or an existing one with another value.
    Add(Index, String, Value),
    Remove(Index),
    Byte(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Repeat(Index, Index),
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        select(vec![
            json!(null),
            json!(true),
            json!(-1),
            json!(0),
            json!(1.5),
            json!(1e300),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1u64 << 32),
            json!(""),
            json!("any"),
            json!("0000000000000000"),
            json!("+1"),
            json!([]),
            json!([1]),
            json!({}),
            json!({ "match": "any" }),
        ]),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ]
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let keys = select(vec![
        "request",
        "reply",
        "event",
        "match",
        "version",
        "pipe",
        "spread",
        "sequence",
        "port",
        "reason",
        "unprivileged",
    ]);
    let damage = prop_oneof![
        4 => (any::<Index>(), values()).prop_map(|(at, value)| Damage::Replace(at, value)),
        2 => (any::<Index>(), keys, values()).prop_map(
            |(at, key, value)| Damage::Add(at, key.into(), value),
        ),
        2 => any::<Index>().prop_map(Damage::Remove),
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), vec(any::<u8>(), 1..8)).prop_map(
            |(at, bytes)| Damage::Insert(at, bytes),
        ),
        1 => any::<(Index, Index)>().prop_map(|(start, end)| Damage::Repeat(start, end)),
    ];
    vec(damage, 0..4)
}

/// Every place in a value, itself first.
fn places(value: &Value, at: String, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            places(
                value,
                format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                all,
            )
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(number, value)| places(value, format!("{at}/{number}"), all)),
        _ => {}
    }
    all.push(at);
}

impl Damage {
    fn apply(&self, bytes: Vec<u8>) -> Vec<u8> {
        match serde_json::from_slice(&bytes) {
            Ok(value) => self
                .apply_to_json(value)
                .unwrap_or_else(|| self.apply_to_text(bytes)),
            Err(_) => self.apply_to_text(bytes),
        }
    }

    /// `None` for a damage to text.
    fn apply_to_json(&self, mut value: Value) -> Option<Vec<u8>> {
        let mut all = vec![];
        places(&value, String::new(), &mut all);
        let (Self::Replace(at, _) | Self::Add(at, ..) | Self::Remove(at)) = self else {
            return None;
        };
        let place = at.get(&all).clone();
        match self {
            Self::Replace(_, new) => *value.pointer_mut(&place)? = new.clone(),
            Self::Add(_, key, new) => match value.pointer_mut(&place)? {
                Value::Object(members) => drop(members.insert(key.clone(), new.clone())),
                Value::Array(items) => items.push(new.clone()),
                other => *other = json!({ key: new }),
            },
            _ => {
                let (parent, key) = place.rsplit_once('/')?;
                match value.pointer_mut(parent)? {
                    Value::Object(members) => drop(members.remove(key)),
                    Value::Array(items) => drop(items.remove(key.parse().ok()?)),
                    _ => return None,
                }
            }
        }
        Some(value.to_string().into_bytes())
    }

    fn apply_to_text(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() {
            return bytes;
        }
        match self {
            Self::Byte(at, byte) => *at.get_mut(&mut bytes) = *byte,
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Insert(at, new) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Repeat(start, end) => {
                let (start, end) = (start.index(bytes.len()), end.index(bytes.len()));
                let repeated = bytes[start.min(end)..start.max(end)].to_vec();
                bytes.splice(end..end, repeated);
            }
            Self::Replace(..) | Self::Add(..) | Self::Remove(_) => {}
        }
        bytes
    }
}

/// A message as it arrives.
fn arriving<T: Serialize + Debug>(
    messages: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<u8>> {
    (messages, damages()).prop_map(|(message, damages)| {
        let bytes = datagram::encode(&message).expect("fits");
        damages
            .iter()
            .fold(bytes, |bytes, damage| damage.apply(bytes))
    })
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    message: &T,
) -> Result<(), TestCaseError> {
    let bytes =
        datagram::encode(message).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert!(bytes.len() <= MAX_DATAGRAM_BYTES);
    let read =
        datagram::decode::<T>(&bytes).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&read, message, "{}", String::from_utf8_lossy(&bytes));
    Ok(())
}

/// The input is refused, or it is a message that survives encoding and decoding.
fn is_a_message_or_none<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    bytes: &[u8],
) -> Result<(), TestCaseError> {
    match datagram::decode::<T>(bytes) {
        Ok(message) => survives(&message),
        Err(DatagramError::TooLong { found }) => {
            prop_assert!(found > MAX_DATAGRAM_BYTES && found == bytes.len());
            Ok(())
        }
        Err(DatagramError::Malformed(_)) => Ok(()),
    }
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() }
    )]

    #[test]
    fn every_message_is_read_as_it_was_sent(
        request in requests(),
        reply in replies(),
        control in control_replies(),
    ) {
        survives(&request)?;
        survives(&reply)?;
        survives(&control)?;
    }

    #[test]
    fn a_damaged_request_is_another_or_none(bytes in arriving(requests())) {
        is_a_message_or_none::<Request>(&bytes)?;
    }

    #[test]
    fn a_damaged_reply_is_another_or_none(bytes in arriving(replies())) {
        is_a_message_or_none::<Reply>(&bytes)?;
    }

    #[test]
    fn a_damaged_control_message_is_another_or_none(
        request in arriving(control_requests()),
        reply in arriving(control_replies()),
    ) {
        is_a_message_or_none::<ControlRequest>(&request)?;
        is_a_message_or_none::<ControlReply>(&reply)?;
    }

    // Either side may receive a message that is meant for another.
    #[test]
    fn messages_of_one_kind_are_not_mistaken(request in requests(), reply in replies()) {
        let (request, reply) = (
            datagram::encode(&request).expect("fits"),
            datagram::encode(&reply).expect("fits"),
        );
        prop_assert!(datagram::decode::<Reply>(&request).is_err());
        prop_assert!(datagram::decode::<Request>(&reply).is_err());
        prop_assert!(datagram::decode::<ControlRequest>(&request).is_err());
        prop_assert!(datagram::decode::<ControlRequest>(&reply).is_err());
    }
}
