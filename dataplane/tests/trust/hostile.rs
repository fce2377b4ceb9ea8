//! An application that writes false values into shared memory is detached with a reason. Other
//! applications are unaffected.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    child::Application,
    honest::{Honest, Progress},
    namespace::with_veth,
    node::{self, Node, pair_on_a_cable, pair_on_af_xdp},
    noise::Noise,
    offender::Siege,
    seeds::Seeds,
    turn,
    witness::{Detached, Witness},
};

/// How long one look at the throughput lasts, with an offender or without.
const WINDOW: Duration = Duration::from_millis(150);

/// Minimum share of their throughput that the honest applications keep. The reference is the lesser
/// of their throughput alone and beside a process that only burns CPU time.
const KEPT_MIN: f64 = 0.4;

/// The same for their usual throughput beside an offender, not for their best.
const USUALLY_KEPT_MIN: f64 = 0.2;

/// Additional seeds beyond the time limit, if the honest applications kept too little so far or too
/// few false values were detected.
const MORE_SEEDS: u32 = 8;

/// Minimum number of offender incarnations that end by a detected false value.
const FOUND_OUT_MIN: usize = 11;

/// Longest round of a lane, and longest wait for a reply, on a machine with more runnable processes
/// than cores. Both include the scheduler's delays. A lane that waits for an offender would wait
/// forever.
const ROUND_MAX: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The text of a reason: the name of a word, followed by its value.
const WORDS: [&str; 9] = [
    "head is ",
    "tail is ",
    "end of the seen data is ",
    "a packet's length is ",
    "a length word of a TX pipe is ",
    "mailbox's written count is ",
    "mailbox's taken count is ",
    "a mailbox names pipe ",
    "count of refused packets is ",
];

/// The results of one window.
struct Window {
    progress: Progress,
    slowest_answer: Duration,
}

fn watch(nodes: [&Node; 2], honest: &Honest) -> Window {
    let mut slowest_answer = Duration::ZERO;
    let before = honest.progress(&nodes[0].status());
    let end = Instant::now() + WINDOW;
    let mut clients = nodes.map(Node::client);
    while Instant::now() < end {
        for client in &mut clients {
            let requested = Instant::now();
            client.status();
            slowest_answer = slowest_answer.max(requested.elapsed());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Window {
        progress: honest.progress(&clients[0].status()).since(before),
        slowest_answer,
    }
}

/// Whether `reason` names a word and its value.
fn names_word_and_value(reason: &str) -> bool {
    let named = reason.split_once("shared memory: ").map(|(_, named)| named);
    WORDS.iter().any(|word| {
        let value = named.and_then(|named| named.split_once(word));
        value.is_some_and(|(_, value)| value.starts_with(|first: char| first.is_ascii_digit()))
    })
}

/// The besieged pipes, each with the texts of the reasons: whether it is an RX/TX pipe.
const BESIEGED: [(bool, [&str; 2]); 2] = [
    (true, ["transmit tail is ", "a packet's length is "]),
    (false, ["head is ", "end of the seen data is "]),
];

/// Returns the sieges among the ends of offenders, and the reasons that offenders received for
/// being detached.
fn found_out(ends: &[String]) -> (Vec<Siege>, Vec<String>) {
    let sieges: Vec<Siege> = ends.iter().filter_map(|end| Siege::read(end)).collect();
    let reported = ends.iter().filter_map(|end| end.strip_prefix("detached: "));
    let reasons = reported.chain(sieges.iter().map(|siege| siege.reason.as_str()));
    let reasons = reasons.map(str::to_owned).collect();
    (sieges, reasons)
}

/// Whether so many lies were found out that the test can judge them.
fn enough_is_found_out(ends: &[String]) -> bool {
    let (sieges, reasons) = found_out(ends);
    reasons.len() >= FOUND_OUT_MIN
        && BESIEGED.iter().all(|(is_rx_tx, words)| {
            let of_it = |word: &&str| {
                let mut sieges = sieges.iter();
                sieges.any(|siege| siege.is_rx_tx == *is_rx_tx && siege.reason.contains(*word))
            };
            words.iter().all(of_it)
        })
}

/// Fails unless besieged pipes of both kinds carried packets, and false values in each of their
/// words were detected. Only the application's own words could expose these pipes.
fn check_sieges(sieges: &[Siege]) {
    for (is_rx_tx, words) in BESIEGED {
        let sieges = || sieges.iter().filter(|siege| siege.is_rx_tx == is_rx_tx);
        let sum = |count: fn(&Siege) -> u64| sieges().map(count).sum::<u64>();
        let found = words.map(|word| {
            let reported = sieges().filter(|siege| siege.reason.contains(word));
            reported.count()
        });
        eprintln!(
            "{} sieges of {}: {} packets received, {} sent, {} discarded; found out by {words:?}: \
             {found:?}",
            sieges().count(),
            if is_rx_tx {
                "RX/TX pipes"
            } else {
                "byte pipes"
            },
            sum(|siege| siege.received),
            sum(|siege| siege.sent),
            sum(|siege| siege.discarded),
        );
        for siege in sieges() {
            assert!(
                siege.received > 0 && (!is_rx_tx || siege.sent > 0 && siege.discarded > 0),
                "lies about a pipe that carried nothing: {siege:?}"
            );
            assert!(
                words.iter().any(|word| siege.reason.contains(word)),
                "lies about a pipe that were found elsewhere: {siege:?}"
            );
        }
        for (word, found) in words.iter().zip(found) {
            assert!(found > 0, "no lie was found out by `{word}`");
        }
    }
}

fn attack(mut a: Node, mut b: Node, seeds: &mut Seeds) {
    let witnesses = [Witness::start(&a), Witness::start(&b)];
    let honest = Honest::start(&a, &b);
    let (mut alone, mut beside_burner, mut beside_offender) = (Vec::new(), Vec::new(), Vec::new());
    let mut slowest_answer = Duration::ZERO;
    let mut ends = Vec::new();
    let (mut kept, mut usually_kept) = ([0.0; 2], [0.0; 2]);
    // Other users of the machine may come and go meanwhile: a few more windows cover that.
    let mut more = MORE_SEEDS;
    let keep_enough = |kept: [f64; 2], usually_kept: [f64; 2]| {
        kept.iter().all(|&kept| kept > KEPT_MIN)
            && usually_kept.iter().all(|&kept| kept > USUALLY_KEPT_MIN)
    };
    while !seeds.is_over()
        || more > 0 && !(keep_enough(kept, usually_kept) && enough_is_found_out(&ends))
    {
        more -= u32::from(seeds.is_over());
        let mut noise = Noise::new(seeds.draw());
        for target in [&a, &b] {
            alone.push(watch([&a, &b], &honest).progress);
            let mut burner = Application::start("offender::burner", target.socket(), "");
            burner.next_report().expect("it is ready");
            beside_burner.push(watch([&a, &b], &honest).progress);
            burner.stop();
            let orders = format!("{} {}", noise.next(), beside_offender.len());
            let mut offender = Application::start("offender::offender", target.socket(), &orders);
            offender.next_report().expect("it is ready");
            let window = watch([&a, &b], &honest);
            beside_offender.push(window.progress);
            slowest_answer = slowest_answer.max(window.slowest_answer);
            ends.extend(offender.stop_and_read());
        }
        a.check_alive();
        b.check_alive();
        // Scheduling and cores that wake from idle make any single window unreliable. An offender
        // that delays a lane does so in every window, even in its best one.
        let usual = [&alone, &beside_burner].map(|windows| Progress::median(windows));
        let usual = usual[0].least_of(usual[1]);
        kept = Progress::best(&beside_offender).part_of(usual);
        usually_kept = Progress::median(&beside_offender).part_of(usual);
    }
    honest.stop();
    let statuses = [a.status_at_rest(), b.status_at_rest()];
    a.disable_port();
    b.disable_port();
    let witnessed: Vec<Detached> = witnesses.into_iter().flat_map(Witness::detached).collect();

    let (sieges, detached) = found_out(&ends);
    for reason in &detached {
        assert!(names_word_and_value(reason), "{reason}");
        assert!(
            witnessed.iter().any(|event| event.reason == *reason),
            "no event reports {reason}"
        );
    }
    let violations: u64 = statuses
        .iter()
        .map(|status| status.sessions_detached["violation"])
        .sum();
    let by_cause: u64 = statuses
        .iter()
        .flat_map(|status| status.violations.values())
        .sum();
    let logged: usize = [&a, &b]
        .iter()
        .map(|node| node.log().matches("an application is detached").count())
        .sum();
    let rounds = statuses
        .each_ref()
        .map(|status| Duration::from_nanos(status.lanes[0].longest_round_ns));
    let worst = Progress::worst(&beside_offender);
    eprintln!(
        "{} runs of offenders, {} received the reason of their detachment, {violations} detached: \
         {:?} and {:?}\nparts of their frames and verbs that the honest kept: usually \
         {usually_kept:.2?}, at best {kept:.2?}; in the worst window {worst:?}\nlongest rounds \
         {rounds:?}, slowest answer {slowest_answer:?}",
        ends.len(),
        detached.len(),
        statuses[0].violations,
        statuses[1].violations,
    );
    check_sieges(&sieges);
    assert_eq!(violations, by_cause);
    // An offender that does not read gets no reason.
    assert!(detached.len() as u64 <= violations);
    // Repeated messages are counted there, with one line for all.
    assert!((1..=violations as usize).contains(&logged), "{logged}");
    assert!(
        detached.len() >= FOUND_OUT_MIN && detached.len() * 2 > ends.len(),
        "too few lies were found out"
    );
    for status in &statuses {
        assert_eq!(
            (status.sessions, status.pipes.len(), status.regions.len()),
            (0, 0, 0)
        );
    }
    assert!(rounds.iter().all(|&round| round < ROUND_MAX), "{rounds:?}");
    assert!(slowest_answer < ANSWER_MAX, "{slowest_answer:?}");
    assert!(
        keep_enough(kept, usually_kept),
        "at best {kept:?}, usually {usually_kept:?}"
    );
    assert!(
        worst.frames > 0 && worst.verbs > 0,
        "the honest stood still beside an offender: {worst:?}"
    );
}

#[test]
fn garbage_in_every_shared_word_harms_no_other_application() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, b) = pair_on_a_cable(dir.path());
    attack(a, b, &mut Seeds::for_about(Duration::from_secs(3)));
}

#[test]
fn garbage_in_every_shared_word_harms_no_other_application_on_af_xdp() {
    let _turn = turn::take();
    with_veth(|| {
        let dir = node::place();
        let (a, b) = pair_on_af_xdp(dir.path());
        attack(a, b, &mut Seeds::for_about(Duration::from_secs(3)));
    });
}
