//! Control and daemons of the release before and of the next one.

use covalent_api::{
    API_VERSION,
    control::{ControlReply, ControlRequest},
    request::{Reply, Request},
    versions::Versions,
};

use crate::{
    client::{get, send_request},
    daemon::Running,
    fake::{Session, link_up, welcome},
    fixture,
};

/// How a daemon of version 5 refuses a greeting that it does not know.
const REFUSAL_OF_5: &[u8] = br#"{"reply":"refused","reason":"not a message that this side knows: unknown field `oldest`, expected `version` or `program` (are both sides of the same version?); speak JSON as in covalent-api, version 5"}"#;

#[test]
fn a_daemon_of_the_release_before_is_followed() {
    let control = Running::start();
    let listener = control.listen();
    let first = Session::accept(&listener);
    assert_eq!(first.next(), Some(Request::hello("covalent-control")));
    first.send_bytes(REFUSAL_OF_5);
    let daemon = Session::accept(&listener);
    assert_eq!(
        daemon.next(),
        Some(Request::hello_of_version_5("covalent-control"))
    );
    drop(first);
    daemon.send_reply(&welcome(5));
    assert_eq!(daemon.next(), Some(Request::Subscribe));
    daemon.send_reply(&Reply::Done);
    assert_eq!(daemon.next(), Some(Request::Status));
    daemon.send_reply(&Reply::Status(Box::new(fixture::status())));
    daemon.event(1, link_up("p1"));
    control.wait_for(|table| {
        table
            .links()
            .iter()
            .any(|link| link.port == "p1" && link.up)
    });
}

#[test]
fn a_daemon_of_the_next_release_is_followed() {
    let control = Running::start();
    let listener = control.listen();
    let daemon = Session::accept(&listener);
    assert!(matches!(daemon.next(), Some(Request::Hello { .. })));
    let mut welcome = serde_json::to_value(welcome(API_VERSION)).expect("JSON");
    welcome["color"] = "red".into();
    daemon.send_bytes(welcome.to_string().as_bytes());
    assert_eq!(daemon.next(), Some(Request::Subscribe));
    daemon.send_bytes(br#"{"reply":"done","color":"red"}"#);
    assert_eq!(daemon.next(), Some(Request::Status));
    let status = Reply::Status(Box::new(fixture::status()));
    let mut status = serde_json::to_value(status).expect("JSON");
    status["ports"][0]["color"] = "red".into();
    status["painters"] = serde_json::json!([{ "name": "x" }]);
    daemon.send_bytes(status.to_string().as_bytes());
    daemon.send_bytes(
        br#"{"reply":"event","sequence":1,"realtime_ns":2,"event":"node_painted","color":"red"}"#,
    );
    daemon.event(2, link_up("p1"));
    control.wait_for(|table| {
        table
            .links()
            .iter()
            .any(|link| link.port == "p1" && link.up)
    });
    assert!(
        daemon.is_quiet(),
        "an event of the next release is not one that was missed"
    );
}

#[test]
fn a_daemon_more_than_one_release_away_is_refused_with_both_ranges() {
    let control = Running::start();
    let listener = control.listen();
    let daemon = Session::accept(&listener);
    assert!(matches!(daemon.next(), Some(Request::Hello { .. })));
    daemon.send_bytes(br#"{"reply":"refused","reason":"no","speaks":{"oldest":8,"newest":9}}"#);
    assert_eq!(daemon.next(), None);
    let (_, body) = get(control.metrics, "/healthz");
    for part in [
        "versions 8 to 9",
        &Versions::SUPPORTED.to_string(),
        "covalent-control is the older",
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
}

#[test]
fn control_reports_its_supported_versions() {
    let control = Running::start();
    let reply = send_request(&control.control_socket(), &ControlRequest::Version);
    let ControlReply::Version(version) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(version.speaks(), Versions::SUPPORTED);
}
