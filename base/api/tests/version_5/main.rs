//! Programs of version 5 and of this version are compatible. Datagrams that version 5 sent are read
//! here. Datagrams for a program of version 5 are read by its types ([`schema`]), which are frozen.
//! Additions of later versions are read or refused as [`covalent_api::versions`] describes.

mod schema;

use std::fmt::Debug;

use covalent_api::{
    API_VERSION,
    control::{ControlReply, ControlRequest, ControlVersion},
    datagram,
    event::EventKind,
    request::{Reply, Request},
    versions::{Versions, is_refusal_of_version_5},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const REQUESTS: &str = include_str!("requests.jsonl");
const REPLIES: &str = include_str!("replies.jsonl");
const CONTROL_REQUESTS: &str = include_str!("control_requests.jsonl");
const CONTROL_REPLIES: &str = include_str!("control_replies.jsonl");

fn read<T: DeserializeOwned>(text: &str) -> T {
    datagram::decode(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

/// The JSON that is sent for `message`.
fn sent<T: Serialize>(message: &T) -> Value {
    let bytes = datagram::encode(message).expect("fits");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn reads_and_sends_unchanged<T: DeserializeOwned + Serialize>(recorded: &str) {
    for text in recorded.lines() {
        let message: T = read(text);
        let recorded: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(sent(&message), recorded);
    }
}

#[test]
fn messages_of_version_5_are_read_and_sent_unchanged() {
    reads_and_sends_unchanged::<Request>(REQUESTS);
    reads_and_sends_unchanged::<Reply>(REPLIES);
    reads_and_sends_unchanged::<ControlRequest>(CONTROL_REQUESTS);
    reads_and_sends_unchanged::<ControlReply>(CONTROL_REPLIES);
}

/// The frozen types read all datagrams that version 5 sent, so they match version 5.
#[test]
fn the_frozen_types_read_what_version_5_sent() {
    REQUESTS.lines().for_each(|text| {
        read::<schema::Request>(text);
    });
    REPLIES.lines().for_each(|text| {
        read::<schema::Reply>(text);
    });
    CONTROL_REQUESTS.lines().for_each(|text| {
        read::<schema::ControlRequest>(text);
    });
    CONTROL_REPLIES.lines().for_each(|text| {
        read::<schema::ControlReply>(text);
    });
}

#[test]
fn version_5_reads_what_this_version_sends_to_it() {
    let as_sent = |message: &Value| message.to_string();
    for text in REQUESTS.lines() {
        read::<schema::Request>(&as_sent(&sent(&read::<Request>(text))));
    }
    for text in CONTROL_REQUESTS.lines() {
        read::<schema::ControlRequest>(&as_sent(&sent(&read::<ControlRequest>(text))));
    }
    read::<schema::Request>(&as_sent(&sent(&Request::hello_of_version_5("p"))));
    let mut replies: Vec<Reply> = REPLIES.lines().map(read).collect();
    for reply in &mut replies {
        if let Reply::Welcome { speaks, .. } = reply {
            *speaks = Some(Versions::SUPPORTED);
        }
    }
    replies.push(Reply::Pipe {
        pipe: 1,
        page_bytes: 4096,
        frame_bytes_max: 1514,
        link_ethertype: Some(0x88b5),
    });
    replies.push(Reply::Refused {
        reason: "another version".into(),
        speaks: Some(Versions::SUPPORTED),
    });
    for reply in &replies {
        read::<schema::Reply>(&as_sent(&sent(reply)));
    }
    let mut replies: Vec<ControlReply> = CONTROL_REPLIES.lines().map(read).collect();
    for reply in &mut replies {
        if let ControlReply::Version(ControlVersion { api, oldest, .. }) = reply {
            (*api, *oldest) = (API_VERSION, Some(API_VERSION - 1));
        }
    }
    for reply in &replies {
        read::<schema::ControlReply>(&as_sent(&sent(reply)));
    }
}

/// A daemon of version 5 refuses this version's greeting. Its reason is known, so the client sends
/// the greeting of version 5.
#[test]
fn a_daemon_of_version_5_is_known_by_its_refusal() {
    let hello = sent(&Request::hello("p")).to_string();
    let error = datagram::decode::<schema::Request>(hello.as_bytes())
        .expect_err("version 5 knows no ranges");
    // The words of its daemon.
    let refusal = format!("{error}; speak JSON as in covalent-api, version 5");
    assert!(is_refusal_of_version_5(&refusal), "{refusal}");
    for other in [
        "user 1000 may not attach",
        "unknown field `oldest`; speak JSON as in covalent-api, versions 6 to 7",
    ] {
        assert!(!is_refusal_of_version_5(other));
    }
}

/// Every object in `value`, itself first.
fn objects(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            all.push(at.to_owned());
            for (key, value) in members {
                objects(value, &format!("{at}/{key}"), all);
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                objects(value, &format!("{at}/{number}"), all);
            }
        }
        _ => {}
    }
}

/// Each of the recorded messages with one additional member, in each of its objects. Steering rules
/// are left out: a rule is read completely or not at all.
fn with_one_member_more(recorded: &str) -> Vec<(Value, Value)> {
    let mut all = Vec::new();
    for text in recorded.lines() {
        let message: Value = serde_json::from_str(text).expect("JSON");
        let mut places = Vec::new();
        objects(&message, "", &mut places);
        for place in places {
            let mut more = message.clone();
            let Some(Value::Object(members)) = more.pointer_mut(&place) else {
                panic!("an object at {place}");
            };
            if !members.contains_key("match") {
                members.insert("of_a_later_version".into(), json!(7));
                all.push((message.clone(), more));
            }
        }
    }
    all
}

fn ignores_new_fields<T: DeserializeOwned + Serialize + Debug>(recorded: &str) {
    let all = with_one_member_more(recorded);
    assert!(all.len() > recorded.lines().count() / 2);
    for (message, more) in all {
        let found = sent(&read::<T>(&more.to_string()));
        // Tables of counts by cause take in every cause.
        assert!(found == message || found == more, "{found}\nof {more}");
    }
}

#[test]
fn fields_that_a_later_version_adds_to_replies_are_passed_over() {
    ignores_new_fields::<Reply>(REPLIES);
    ignores_new_fields::<ControlReply>(CONTROL_REPLIES);
}

#[test]
fn an_event_that_only_a_later_version_knows_keeps_its_number() {
    let event = r#"{"sequence":9,"realtime_ns":8,"event":"node_painted","color":{"r":1}}"#;
    let pushed = event.replacen('{', r#"{"reply":"event","#, 1);
    let Reply::Event(pushed) = read(&pushed) else {
        panic!("an event")
    };
    assert_eq!(
        (pushed.sequence, pushed.realtime_ns, &pushed.kind),
        (9, 8, &EventKind::Unknown)
    );
    let reply_text = format!(r#"{{"reply":"events","events":[{event}],"next":null}}"#);
    assert_eq!(
        read::<Reply>(&reply_text),
        Reply::Events {
            events: vec![pushed],
            next: None
        }
    );
    let broken = r#"{"reply":"event","sequence":9,"realtime_ns":8,"event":"carrier"}"#;
    assert!(
        datagram::decode::<Reply>(broken.as_bytes()).is_err(),
        "a known event is read as strictly as ever"
    );
}

#[test]
fn a_request_that_a_later_version_changed_is_refused_whole() {
    for text in REQUESTS.lines() {
        let mut more: Value = serde_json::from_str(text).expect("JSON");
        let members = more.as_object_mut().expect("an object");
        members.insert("of_a_later_version".into(), json!(true));
        let more = more.to_string();
        assert!(
            datagram::decode::<Request>(more.as_bytes()).is_err(),
            "{more}"
        );
        assert!(datagram::is_named_request(more.as_bytes()));
        let greeting = Request::read_greeting(more.as_bytes());
        assert_eq!(
            greeting.ok(),
            matches!(read(text), Request::Hello { .. }).then(|| read::<Request>(text)),
            "of a greeting alone it is passed over"
        );
    }
    for text in [
        "",
        "paint",
        "7",
        r#"["request"]"#,
        r#"{"request":7}"#,
        r#"{"reply":"done"}"#,
    ] {
        assert!(!datagram::is_named_request(text.as_bytes()), "{text}");
    }
}
