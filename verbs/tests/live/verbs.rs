//! Every verb, on the own node and on another one, and every refusal.

use std::time::Instant;

use covalent::{
    CommitWord, Comparison, Completion, Condition, Device, Error, Guid, MULTI_COMMIT_WORDS_MAX,
    Mode, Order, Outcome, READ_BYTES_MAX, Refusal, Region, RemoteRegion, Rights, Target, Timeout,
    Update, Verb, Verbs, WRITE_BYTES_MAX,
};

use crate::nodes::{Nodes, eventually, soon};

fn word(offset_bytes: u64, expected: u64, new: u64) -> CommitWord {
    CommitWord {
        offset_bytes,
        expected,
        new,
    }
}

fn on(comparison: Comparison, comparand: u64, order: Order) -> Condition {
    Condition {
        comparison,
        comparand,
        order,
    }
}

/// Minima, maxima and conditions, from the word's first value 0.
fn comparing_verbs(verbs: &mut Verbs<'_>, remote: &RemoteRegion, own: &Region, at: u64) {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    use Order::{Signed, Unsigned};
    const MINUS_2: u64 = u64::MAX - 1;
    assert_eq!(
        verbs
            .fetch_min(remote, at, MINUS_2, Unsigned, Timeout::FOREVER)
            .unwrap(),
        0
    );
    assert_eq!(
        verbs
            .fetch_min(remote, at, MINUS_2, Signed, Timeout::FOREVER)
            .unwrap(),
        0
    );
    let max = verbs.fetch_max(remote, at, 3, Unsigned, soon());
    assert_eq!(max.unwrap(), MINUS_2);
    assert_eq!(
        verbs
            .fetch_max(remote, at, 3, Signed, Timeout::FOREVER)
            .unwrap(),
        MINUS_2
    );
    let min = verbs.fetch_min(remote, at, 7, Unsigned, soon());
    assert_eq!((min.unwrap(), own.load(at).unwrap()), (3, 3));
    for (condition, update, expected, after) in [
        (on(Less, 3, Unsigned), Update::Write(9), Err(3), 3),
        (on(LessOrEqual, 3, Unsigned), Update::Write(9), Ok(3), 9),
        (on(Greater, MINUS_2, Unsigned), Update::Add(1), Err(9), 9),
        (on(Greater, MINUS_2, Signed), Update::Add(1), Ok(9), 10),
        (on(Equal, 9, Unsigned), Update::Swap(1), Err(10), 10),
        (on(Equal, 10, Signed), Update::Min(MINUS_2), Ok(10), MINUS_2),
        (
            on(GreaterOrEqual, 0, Signed),
            Update::Max(5),
            Err(MINUS_2),
            MINUS_2,
        ),
        (
            on(GreaterOrEqual, 0, Unsigned),
            Update::And(0xf0),
            Ok(MINUS_2),
            0xf0,
        ),
        (on(Less, 0xf1, Unsigned), Update::Or(1), Ok(0xf0), 0xf1),
    ] {
        let done = verbs
            .update_if(remote, at, condition, update, Timeout::FOREVER)
            .unwrap();
        assert_eq!(done, expected, "{condition:?} {update:?}");
        assert_eq!(own.load(at).unwrap(), after, "{condition:?} {update:?}");
    }
    let done = verbs.update_if(remote, at, on(Less, 0, Signed), Update::Xor(1), soon());
    assert_eq!(done.unwrap(), Err(0xf1));
}

/// Runs every verb on a region that no other client uses.
fn all_verbs(verbs: &mut Verbs<'_>, remote: &RemoteRegion, own: &Region) {
    assert_eq!(remote.size_bytes(), own.size_bytes());
    assert_eq!(remote.rights(), Rights::ALL);
    assert_eq!(verbs.fetch_add(remote, 0, 5, Timeout::FOREVER).unwrap(), 0);
    assert_eq!(verbs.fetch_add(remote, 0, u64::MAX, soon()).unwrap(), 5);
    assert_eq!(own.load(0).unwrap(), 4);
    assert_eq!(verbs.swap(remote, 0, 0xf0f0, Timeout::FOREVER).unwrap(), 4);
    assert_eq!(verbs.swap(remote, 0, 0xff00, soon()).unwrap(), 0xf0f0);
    assert_eq!(
        verbs
            .fetch_and(remote, 0, 0x0ff0, Timeout::FOREVER)
            .unwrap(),
        0xff00
    );
    assert_eq!(
        verbs.fetch_or(remote, 0, 0x000f, Timeout::FOREVER).unwrap(),
        0x0f00
    );
    assert_eq!(
        verbs
            .fetch_xor(remote, 0, 0x0001, Timeout::FOREVER)
            .unwrap(),
        0x0f0f
    );
    assert_eq!(
        verbs.fetch_and(remote, 0, u64::MAX, soon()).unwrap(),
        0x0f0e
    );
    assert_eq!(verbs.fetch_or(remote, 0, 0, soon()).unwrap(), 0x0f0e);
    assert_eq!(verbs.fetch_xor(remote, 0, 0, soon()).unwrap(), 0x0f0e);
    assert_eq!(
        verbs
            .compare_and_swap(remote, 0, 0x0f0e, 1, Timeout::FOREVER)
            .unwrap(),
        Ok(0x0f0e)
    );
    assert_eq!(
        verbs
            .compare_and_swap(remote, 0, 0x0f0e, 2, Timeout::FOREVER)
            .unwrap(),
        Err(1)
    );
    assert_eq!(
        verbs.compare_and_swap(remote, 0, 1, 2, soon()).unwrap(),
        Ok(1)
    );

    comparing_verbs(verbs, remote, own, 3000 / 8 * 8);

    let data: Vec<u8> = (0..WRITE_BYTES_MAX).map(|at| at as u8).collect();
    verbs.write(remote, 101, &data, Timeout::FOREVER).unwrap();
    let mut read = [0; READ_BYTES_MAX];
    verbs
        .read(remote, 101, &mut read, Timeout::FOREVER)
        .unwrap();
    assert_eq!(read[..], data);
    verbs.write(remote, 101, &[7], soon()).unwrap();
    // As long as a word, and yet bytes.
    verbs.read(remote, 101, &mut read[..8], soon()).unwrap();
    assert_eq!(read[..8], [7, 1, 2, 3, 4, 5, 6, 7]);
    let mut bytes = [0; 2];
    own.read(101, &mut bytes).unwrap();
    assert_eq!(bytes, [7, 1]);

    let last = own.size_bytes() - 8;
    assert_eq!(
        verbs
            .multi_commit(remote, &[word(8, 0, 1), word(last, 0, 2)], Timeout::FOREVER)
            .unwrap(),
        Ok(())
    );
    assert_eq!(
        verbs
            .multi_commit(remote, &[word(8, 1, 3), word(last, 9, 4)], Timeout::FOREVER)
            .unwrap()
            .map_err(|mismatch| (mismatch.index, mismatch.found)),
        Err((1, 2))
    );
    assert_eq!(
        (own.load(8).unwrap(), own.load(last).unwrap()),
        (1, 2),
        "all or nothing"
    );
    let many: Vec<_> = (0..MULTI_COMMIT_WORDS_MAX as u64)
        .map(|at| word(1024 + 8 * at, 0, at + 1))
        .collect();
    assert_eq!(verbs.multi_commit(remote, &many, soon()).unwrap(), Ok(()));
    assert!(
        many.iter()
            .all(|word| own.load(word.offset_bytes).unwrap() == word.new)
    );
}

#[test]
fn on_the_own_node() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    let own = device.register_region("own", 4096, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    for target in [
        Target::Local,
        Target::Name("b"),
        Target::Guid(device.node().guid),
    ] {
        let remote = verbs.open_region(target, "own", Timeout::FOREVER).unwrap();
        assert_eq!((remote.node(), remote.rkey()), (None, own.rkey()));
    }
    let remote = verbs
        .open_region(Target::Local, "own", Timeout::FOREVER)
        .unwrap();
    all_verbs(&mut verbs, &remote, &own);
}

#[test]
fn on_another_node() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("theirs", 4096, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let remote = verbs
        .open_region(Target::Name("b"), "theirs", Timeout::FOREVER)
        .unwrap();
    assert_eq!(remote.node(), Some(host.node().guid));
    assert_eq!(
        verbs
            .open_region(Target::Guid(host.node().guid), "theirs", soon())
            .unwrap(),
        remote
    );
    all_verbs(&mut verbs, &remote, &own);
    // Both ways of traveling.
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let id = verbs
            .post(
                &remote,
                Verb::FetchAdd {
                    offset_bytes: 2048,
                    delta: 1,
                },
                mode,
                0,
            )
            .unwrap();
        assert!(matches!(
            verbs.wait(id, soon()).unwrap().outcome,
            Outcome::Old(_)
        ));
    }
    assert_eq!(own.load(2048).unwrap(), 2);
}

fn refused(result: covalent::Result<u64>) -> Refusal {
    match result {
        Err(Error::VerbRefused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Refusals by the executing node. None of them changes anything, and the queue still works.
fn refusals(device: &Device, target: Target<'_>, own: &Region, read_only: &Region) {
    let mut verbs = device.verbs().unwrap();
    let good = verbs
        .open_region(target, own.name(), Timeout::FOREVER)
        .unwrap();
    let key = |rkey| RemoteRegion::from_key(good.node(), rkey, good.size_bytes(), Rights::ALL);
    assert_eq!(
        refused(verbs.fetch_add(&key(good.rkey() ^ 0x5555_5555), 0, 1, Timeout::FOREVER)),
        Refusal::UnknownRegion
    );
    assert_eq!(
        refused(verbs.fetch_add(&good, own.size_bytes(), 1, Timeout::FOREVER)),
        Refusal::OutOfBounds
    );
    assert_eq!(
        refused(verbs.fetch_add(&good, u64::from(u32::MAX - 7), 1, Timeout::FOREVER)),
        Refusal::OutOfBounds
    );
    let error = verbs
        .read(&good, own.size_bytes() - 4, &mut [0; 8], Timeout::FOREVER)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::VerbRefused {
                refusal: Refusal::OutOfBounds,
                ..
            }
        ),
        "{error}"
    );
    let error = verbs
        .write(&good, u64::from(u32::MAX), &[0; 8], Timeout::FOREVER)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::VerbRefused {
                refusal: Refusal::OutOfBounds,
                ..
            }
        ),
        "{error}"
    );
    let error = verbs
        .multi_commit(
            &good,
            &[word(0, 0, 1), word(own.size_bytes(), 0, 1)],
            Timeout::FOREVER,
        )
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::VerbRefused {
                refusal: Refusal::OutOfBounds,
                ..
            }
        ),
        "{error}"
    );

    let twice = [word(0, 0, 1), word(8, 0, 1), word(0, 0, 2)];
    let error = verbs
        .multi_commit(&good, &twice, Timeout::FOREVER)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::VerbRefused {
                refusal: Refusal::Duplicate,
                ..
            }
        ),
        "{error}"
    );

    let read_only_region = verbs
        .open_region(target, read_only.name(), Timeout::FOREVER)
        .unwrap();
    assert_eq!(
        read_only_region.rights(),
        Rights {
            read: true,
            write: false,
            atomic: false,
            send: false
        }
    );
    let mut read = [1; 8];
    verbs
        .read(&read_only_region, 0, &mut read, Timeout::FOREVER)
        .unwrap();
    assert_eq!(read, [0; 8]);
    assert_eq!(
        refused(verbs.fetch_add(&read_only_region, 0, 1, Timeout::FOREVER)),
        Refusal::NoRight
    );
    let error = verbs
        .write(&read_only_region, 0, &[1], Timeout::FOREVER)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::VerbRefused {
                refusal: Refusal::NoRight,
                ..
            }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("it grants read, and the verb needs write"),
        "{text}"
    );
    let size_bytes = read_only_region.size_bytes();
    let text = verbs
        .read(&read_only_region, size_bytes, &mut read, Timeout::FOREVER)
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(&format!("of {size_bytes} bytes")) && text.contains("beyond"),
        "{text}"
    );

    let error = verbs
        .fetch_add(&key(77), 0, 1, Timeout::FOREVER)
        .unwrap_err()
        .to_string();
    let node = match good.node() {
        Some(guid) => guid.to_string(),
        None => device.lane_name(),
    };
    for part in ["with key 0x0000004d", &format!("node {node} ")] {
        assert!(error.contains(part), "{part} in {error}");
    }
    let error = verbs
        .open_region(target, "absent", Timeout::FOREVER)
        .unwrap_err();
    let text = error.to_string();
    let node = match target {
        Target::Local => device.lane_name(),
        other => other.to_string(),
    };
    assert!(
        text.contains(&format!("node {node} has no region `absent`")),
        "{text}"
    );
    assert!(
        matches!(
            error,
            Error::VerbRefused {
                refusal: Refusal::UnknownRegion,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!((own.load(0).unwrap(), read_only.load(0).unwrap()), (0, 0));
    assert_eq!(verbs.fetch_add(&good, 0, 1, Timeout::FOREVER).unwrap(), 0);
    assert_eq!(verbs.outstanding(), 0);
}

#[test]
fn the_executing_node_refuses_bad_keys_bounds_and_rights() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let read_only = Rights {
        read: true,
        write: false,
        atomic: false,
        send: false,
    };
    for (host, target, number) in [(&a, Target::Local, 0), (&b, Target::Name("b"), 1)] {
        let own = host
            .register_region(&format!("own{number}"), 64, Rights::ALL)
            .unwrap();
        let read_only_region = host
            .register_region(&format!("looked-at{number}"), 64, read_only)
            .unwrap();
        refusals(&a, target, &own, &read_only_region);
    }
}

#[test]
fn a_verb_that_no_node_would_execute_is_not_posted() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    let _region = device.register_region("own", 4096, Rights::ALL).unwrap();
    let mut verbs = device.verbs().unwrap();
    let own = verbs
        .open_region(Target::Local, "own", Timeout::FOREVER)
        .unwrap();
    let too_many = vec![word(0, 0, 0); MULTI_COMMIT_WORDS_MAX + 1];
    let invalid = [
        Verb::FetchAdd {
            offset_bytes: 4,
            delta: 1,
        },
        Verb::CompareAndSwap {
            offset_bytes: 7,
            expected: 0,
            new: 0,
        },
        Verb::Read {
            offset_bytes: 0,
            len_bytes: 0,
        },
        Verb::Read {
            offset_bytes: 0,
            len_bytes: READ_BYTES_MAX as u32 + 1,
        },
        Verb::Write {
            offset_bytes: 0,
            data: &[],
        },
        Verb::Write {
            offset_bytes: 0,
            data: &[0; WRITE_BYTES_MAX + 1],
        },
        Verb::MultiCommit { words: &[] },
        Verb::MultiCommit { words: &too_many },
        Verb::MultiCommit {
            words: &[word(12, 0, 0)],
        },
        // The wire has 32 bits for an offset.
        Verb::FetchAdd {
            offset_bytes: 1 << 32,
            delta: 1,
        },
        Verb::MultiCommit {
            words: &[word(8 + (1 << 32), 0, 0)],
        },
        Verb::Conditional {
            offset_bytes: 4,
            condition: on(Comparison::Equal, 0, Order::Unsigned),
            update: Update::Write(1),
        },
    ];
    for verb in invalid {
        let error = verbs.post(&own, verb, Mode::TwoPhase, 0).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{verb:?}: {error}");
    }
    assert_eq!(verbs.outstanding(), 0);
    assert!(matches!(device.verbs_with_depth(0), Err(Error::Invalid(_))));
}

#[test]
fn unknown_nodes_are_named() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("a");
    let mut verbs = device.verbs().unwrap();
    let error = verbs
        .open_region(Target::Name("c"), "bank", Timeout::FOREVER)
        .unwrap_err();
    assert!(
        matches!(&error, Error::UnknownNode { name, known } if name == "c" && known == "a, b"),
        "{error}"
    );
    // Asking for the node is a part of the call, and ends with its deadline.
    eventually("an answer arrives too late", || {
        let late = verbs.open_region(Target::Name("c"), "bank", Instant::now());
        matches!(late, Err(Error::Deadline { .. }))
    });
    let unknown = Guid::new(0xdead).unwrap();
    let error = verbs
        .open_region(Target::Guid(unknown), "bank", Timeout::FOREVER)
        .unwrap_err();
    assert!(matches!(error, Error::NoSuchPeer), "{error}");
    // The queue still works.
    let mut completions = [Completion::default()];
    assert_eq!(verbs.try_poll(&mut completions).unwrap(), 0);
}
