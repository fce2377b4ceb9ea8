//! Several verb queues of one device.

use std::time::Duration;

use covalent::{
    Completion, Error, Mode, Outcome, RemoteRegion, Rights, Target, Timeout, Verb, Verbs,
};

use crate::nodes::{Nodes, PATIENCE, soon};

const ADD: Verb<'_> = Verb::FetchAdd {
    offset_bytes: 0,
    delta: 1,
};

fn open(verbs: &mut Verbs<'_>, node: &str, region: &str) -> RemoteRegion {
    verbs
        .open_region(Target::Name(node), region, Timeout::FOREVER)
        .unwrap()
}

/// Takes `count` final completions, each with the previous value of a word. Returns their user
/// data in order.
fn take(verbs: &mut Verbs<'_>, count: usize) -> Vec<u64> {
    let mut taken = Vec::new();
    let mut completions = vec![Completion::default(); 16];
    while taken.len() < count {
        let came = verbs.poll(&mut completions, soon()).unwrap();
        for completion in &completions[..came] {
            match completion.outcome {
                Outcome::Old(_) => taken.push(completion.user_data),
                Outcome::InDoubt(_) => {}
                _ => panic!("{completion:?}"),
            }
        }
    }
    taken.sort_unstable();
    taken
}

#[test]
fn each_queue_has_its_own_completions_and_takes_only_its_own_verbs_along() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let mut queues: Vec<_> = (0..5).map(|_| device.verbs().unwrap()).collect();
    let counter = open(&mut queues[0], "b", "counter");
    let (mut posted, mut confirmed) = (0, 0);
    for round in 0..20 {
        for (at, queue) in queues.iter_mut().enumerate() {
            for number in 0..30 {
                let user_data = 1000 * at as u64 + number;
                queue
                    .post(&counter, ADD, Mode::TwoPhase, user_data)
                    .unwrap();
                posted += 1;
            }
        }
        // Its verbs are executed or not, and no queue receives their completions.
        drop(queues.remove(round % queues.len()));
        queues.push(device.verbs().unwrap());
        let whole = queues.len() - 1;
        let mut seen = Vec::new();
        for queue in &mut queues[..whole] {
            assert_eq!(queue.outstanding(), 30);
            let taken = take(queue, 30);
            let at = taken[0] / 1000;
            assert_eq!(taken, (1000 * at..1000 * at + 30).collect::<Vec<_>>());
            assert_eq!(queue.outstanding(), 0);
            confirmed += 30;
            seen.push(at);
        }
        seen.dedup();
        assert_eq!(seen.len(), whole, "no two queues are one");
        let mut none = [Completion::default()];
        assert_eq!(queues[whole].try_poll(&mut none).unwrap(), 0);
    }
    let executed = own.load(0).unwrap();
    assert!((confirmed..=posted).contains(&executed), "{executed}");
    // Each is two pipes, of which a session has a bounded number.
    let error = loop {
        match device.verbs() {
            Ok(queue) => queues.push(queue),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(
        error.to_string().contains("pipes_per_session_max"),
        "{error}"
    );
    let last = queues.last_mut().unwrap();
    last.fetch_add(&counter, 0, 1, soon()).unwrap();
}

#[test]
fn a_queue_whose_node_is_cut_off_does_not_hold_up_the_others() {
    const STUCK: u64 = 1000;
    let nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    let far = host.register_region("far", 8, Rights::ALL).unwrap();
    let near = device.register_region("near", 8, Rights::ALL).unwrap();
    let mut stuck = device.verbs_with_depth(STUCK as u32).unwrap();
    let mut free = device.verbs().unwrap();
    let to_far = open(&mut stuck, "b", "far");
    let to_near = open(&mut free, "a", "near");
    nodes.set_port("p0", false);
    for number in 0..STUCK {
        stuck.post(&to_far, ADD, Mode::TwoPhase, number).unwrap();
    }
    // Until the lane takes no more of them.
    std::thread::sleep(Duration::from_millis(100));
    for number in 0..200 {
        let before = free.fetch_add(&to_near, 0, 1, soon()).unwrap();
        assert_eq!(before, number);
    }
    // To the node that is cut off there is room for some, too.
    free.post(&to_far, ADD, Mode::TwoPhase, 7).unwrap();
    free.fetch_add(&to_near, 0, 1, soon()).unwrap();
    nodes.set_port("p0", true);
    assert_eq!(
        take(&mut stuck, STUCK as usize),
        (0..STUCK).collect::<Vec<_>>()
    );
    assert_eq!(take(&mut free, 1), [7]);
    assert_eq!(
        (far.load(0).unwrap(), near.load(0).unwrap()),
        (STUCK + 1, 201)
    );
}

#[test]
fn all_queues_of_a_device_live_through_a_restart() {
    let mut nodes = Nodes::start(&["p0"]);
    let (device, host) = (nodes.attach("a"), nodes.attach("b"));
    device.set_reconnect(Some(PATIENCE));
    let own = host.register_region("counter", 8, Rights::ALL).unwrap();
    let first = device.verbs().unwrap();
    let mut queues = [device.verbs().unwrap(), device.verbs().unwrap()];
    // Pipe numbers with holes.
    drop(first);
    let rx = device.rx_pipe(1 << 16).unwrap();
    let counter = open(&mut queues[0], "b", "counter");
    let mut expected = 0;
    for _ in 0..3 {
        nodes.stop("a");
        nodes.respawn("a");
        for (at, queue) in queues.iter_mut().enumerate() {
            for number in 0..50 {
                let user_data = 100 * at as u64 + number;
                queue
                    .post(&counter, ADD, Mode::TwoPhase, user_data)
                    .unwrap();
                expected += 1;
            }
        }
        for (at, queue) in queues.iter_mut().enumerate() {
            let first = 100 * at as u64;
            assert_eq!(take(queue, 50), (first..first + 50).collect::<Vec<_>>());
        }
        assert_eq!(own.load(0).unwrap(), expected);
    }
    drop(rx);
}
