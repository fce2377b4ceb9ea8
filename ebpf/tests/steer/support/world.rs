//! A loaded program and an oracle with the same rules and settings.

use std::os::fd::AsFd;

use covalent_ebpf::{Action, Counters, Key, Steering};

use super::{
    oracle::Oracle,
    test_run::{How, XDP_DROP, XDP_PASS, XDP_REDIRECT, test_run},
};

/// The two side by side.
pub struct World {
    pub steering: Steering,
    pub oracle: Oracle,
    /// Whether the queue that frames arrive on has a socket.
    pub has_socket: bool,
}

impl World {
    pub fn new() -> Self {
        Self {
            steering: Steering::load().expect("load the program"),
            oracle: Oracle::default(),
            has_socket: false,
        }
    }

    pub fn insert(&mut self, key: Key, action: Action) {
        self.steering.insert(&key, action).expect("insert a rule");
        self.oracle.rules.retain(|(other, _)| *other != key);
        self.oracle.rules.push((key, action));
    }

    pub fn remove(&mut self, key: Key) {
        assert!(
            self.steering.remove(&key).expect("remove a rule"),
            "{key:?} was there"
        );
        self.oracle.rules.retain(|(other, _)| *other != key);
    }

    pub fn set_default(&mut self, action: Action) {
        self.steering.set_default(action).unwrap();
        self.oracle.default = Some(action);
    }

    pub fn set_link_ethertype(&mut self, ethertype: u16) {
        self.steering.set_link_ethertype(ethertype).unwrap();
        self.oracle.link_ethertype = Some(ethertype).filter(|&number| number != 0);
    }

    /// Runs the program on the frame and checks that verdict and counter equal the oracle's.
    /// Returns the cause and whether the frame was redirected.
    #[track_caller]
    pub fn check(&self, frame: &[u8]) -> (&'static str, bool) {
        let before = self.steering.counters().unwrap();
        let (verdict, _) =
            test_run(self.steering.as_fd(), frame, How::default()).expect("BPF_PROG_TEST_RUN");
        let after = self.steering.counters().unwrap();
        let (cause, action) = self.oracle.decide(frame);
        let redirected = action == Action::Dataplane && self.has_socket;
        let expected = match action {
            Action::Drop => XDP_DROP,
            _ if redirected => XDP_REDIRECT,
            _ => XDP_PASS,
        };
        let counter = match action {
            Action::Drop => format!("{cause} dropped"),
            Action::Kernel => format!("{cause} to_kernel"),
            Action::Dataplane if self.has_socket => format!("{cause} to_dataplane"),
            Action::Dataplane => "no_socket".to_owned(),
        };
        assert_eq!(
            (verdict, counted(&before, &after)),
            (expected, vec![counter]),
            "frame {} with {:?}, default {:?}",
            hex(frame),
            self.oracle.rules,
            self.oracle.default
        );
        (cause, redirected)
    }
}

/// Names of the counters that went up by one; one that went up by more is there as often.
fn counted(before: &Counters, after: &Counters) -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |name: String, from: u64, to: u64| names.extend((from..to).map(|_| name.clone()));
    for ((cause, old), (_, new)) in before.by_cause().into_iter().zip(after.by_cause()) {
        add(
            format!("{cause} to_dataplane"),
            old.to_dataplane,
            new.to_dataplane,
        );
        add(format!("{cause} to_kernel"), old.to_kernel, new.to_kernel);
        add(format!("{cause} dropped"), old.dropped, new.dropped);
    }
    add("no_socket".into(), before.no_socket, after.no_socket);
    add(
        "redirect_refused".into(),
        before.redirect_refused,
        after.redirect_refused,
    );
    names
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
