//! Steps of the wall clock under load, by hours, years and a century, forward and back. Both
//! processes of one node see the steps; the other node does not. libfaketime replaces the kernel's
//! time and leaves the monotonic clock unchanged.
#![allow(clippy::unwrap_used)]

mod support;
mod wireshark;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{
    Guarded,
    node::{Node, PATIENCE},
    program,
    terminal::Terminal,
    wait_until,
};
use wireshark::{has_tshark, tshark_fields};

/// The successive settings of the clock.
const STEPS: [&str; 9] = [
    "+2h", "-2h", "+1d", "-3y", "+10y", "-25y", "+100y", "-1h", "+0",
];

/// How long each is kept.
const KEPT: Duration = Duration::from_millis(700);

/// The clock of a node's processes.
struct Clock(PathBuf);

impl Clock {
    fn set(&self, offset: &str) {
        // Whole at every moment: it is read with each look at the clock.
        let next = self.0.with_extension("next");
        fs::write(&next, format!("{offset}\n")).unwrap();
        fs::rename(next, &self.0).unwrap();
    }

    /// Returns the environment that makes a program use this clock.
    fn environment<'a>(&'a self, library: &'a Path) -> [(&'static str, &'a str); 6] {
        [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", self.0.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
            ("NO_FAKE_STAT", "1"),
        ]
    }
}

fn faketime() -> Option<PathBuf> {
    let directories = support::entries(Path::new("/usr/lib"));
    let mut libraries = directories
        .into_iter()
        .map(|directory| directory.join("faketime/libfaketimeMT.so.1"));
    let found = libraries.find(|library| library.exists());
    if found.is_none() {
        eprintln!("skipped: libfaketime is not installed (scripts/install-packages units)");
    }
    found
}

/// Returns the last line of a program of the bank.
fn last_line(printed: &str) -> Value {
    let line = printed.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// The years that the times of `lines` are in, each of which begins with one.
fn years(lines: &str) -> BTreeSet<i16> {
    let year = |line: &str| {
        let time = line.split_ascii_whitespace().next().unwrap_or_default();
        let time: Timestamp = time
            .parse()
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        time.to_zoned(jiff::tz::TimeZone::UTC).year()
    };
    lines.lines().map(year).collect()
}

/// Checks that counters, the samples' clock and their numbers never decrease. Returns the years of
/// the samples.
fn check_samples(lines: &str) -> BTreeSet<i16> {
    let mut counters: BTreeMap<String, f64> = BTreeMap::new();
    let mut last = (0, 0);
    let mut years = BTreeSet::new();
    for line in lines.lines() {
        let sample: Value = serde_json::from_str(line).unwrap();
        assert_eq!(sample["daemon_answers"], true, "{line}");
        let now = ["number", "monotonic_ns"].map(|what| sample[what].as_u64().unwrap());
        // A late reader may get the previous sample again.
        assert!(now[0] > last.0 && now[1] >= last.1, "{last:?} {now:?}");
        last = now.into();
        let realtime = sample["realtime_ns"].as_u64().unwrap();
        let time = Timestamp::from_nanosecond(realtime.into()).unwrap();
        years.insert(time.to_zoned(jiff::tz::TimeZone::UTC).year());
        for family in sample["families"].as_array().unwrap() {
            if family["kind"] != "counter" {
                continue;
            }
            for series in family["series"].as_array().unwrap() {
                let name = format!("{} {}", family["name"], series["labels"]);
                let value = series["number"].as_f64().unwrap();
                let before = counters.insert(name.clone(), value).unwrap_or(0.0);
                assert!(value >= before, "{name}: {before}, then {value}");
            }
        }
    }
    assert!(counters.len() > 20, "{} counters", counters.len());
    years
}

/// Whether a number on the screen has a minus before it.
fn has_negative_number(screen: &str) -> bool {
    let mut words = screen.split_whitespace();
    words.any(|word| {
        let rest = word.strip_prefix('-').unwrap_or_default();
        rest.starts_with(|first: char| first.is_ascii_digit())
    })
}

fn is_sound(node: &Node) {
    let links = node.json(&["links"]);
    let links = links.as_array().unwrap();
    assert!(!links.is_empty());
    for link in links {
        let failures = link["failures"].as_object().unwrap();
        assert!(failures.values().all(|count| count == 0), "{failures:?}");
        assert_eq!(link["state"], "up", "{link}");
    }
}

#[test]
fn the_wall_clock_steps_under_load_and_nothing_fails_or_is_lost() {
    let Some(library) = faketime() else { return };
    let place = tempfile::tempdir().unwrap();
    let clock = Clock(place.path().join("clock"));
    clock.set("+0");
    let cable = place.path().join("cable.sock");
    let mut environment = clock.environment(&library).to_vec();
    environment.push(("RUST_LOG", "debug"));
    // Reading a file with each look at a clock takes its time: a link may be silent for a second.
    let slow = "[link]\nidle_tick_ms = 100\n";
    let a = Node::up_with(place.path(), "a", &cable, slow, &environment);
    let b = Node::up(place.path(), "b", &cable, slow);
    wait_until("the link is up", PATIENCE, || {
        a.json(&["links"])[0]["state"] == "up"
    });

    let file = |name: &str| place.path().join(name);
    let into = |name: &str| Stdio::from(File::create(file(name)).unwrap());
    let piped = |mut command: Command| {
        let child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn();
        Guarded(child.unwrap())
    };
    let mut host = Command::new(program("covalent-bank"));
    host.args(["host", "--format", "json", "--socket"])
        .arg(b.socket());
    let mut host = piped(host);
    let mut books = BufReader::new(host.0.stdout.take().unwrap()).lines();
    books.next().unwrap().unwrap();
    let watch = ["watch", "--interval", "0.1", "--format", "json"];
    let mut samples = Guarded(a.command(&watch).stdout(into("samples")).spawn().unwrap());
    let watch = ["watch", "--events", "--format", "json"];
    let mut events = Guarded(a.command(&watch).stdout(into("events")).spawn().unwrap());
    let terminal = Terminal::open();
    if let Some(terminal) = &terminal {
        let covalent = env!("CARGO_BIN_EXE_covalent");
        let socket = a.socket();
        terminal.run(&format!(
            "{covalent} monitor --interval 0.1 --socket {}",
            socket.display()
        ));
        terminal.wait_for("node a (");
    }

    let capture = ["capture", "--frames", "links", "--count", "100"];
    let (mut added, mut steps_under_load) = (0, 0);
    for step in STEPS {
        let mut client = Command::new(program("covalent-bank"));
        client
            .args(["client", "--node", "b", "--format", "json"])
            .args([
                "--fetch-adds",
                "15000",
                "--transfers",
                "500",
                "--locks",
                "5",
            ])
            .arg("--socket")
            .arg(a.socket());
        let mut client = piped(client);
        let mut printed = BufReader::new(client.0.stdout.take().unwrap());
        let mut line = String::new();
        // It has found the bank: the clock is set while it works.
        printed.read_line(&mut line).unwrap();
        clock.set(step);
        steps_under_load += usize::from(client.0.try_wait().unwrap().is_none());
        let frames = file(&format!("{step}.pcapng"));
        let (went, message) = a.run(&[&capture[..], &[frames.to_str().unwrap()]].concat());
        assert!(went, "{step}: {message}");
        sleep(KEPT);
        if let Some(terminal) = &terminal {
            let screen = terminal.screen();
            assert!(!has_negative_number(&screen), "{step}: {screen}");
        }
        let report = printed.lines().map(Result::unwrap).last().unwrap();
        let report = last_line(&report);
        assert!(
            report["ok"] == true && report["complete"] == true,
            "{step}: {report}"
        );
        assert_eq!(report["in_doubt_seen"], 0, "{step}: {report}");
        added += report["delta_sum"].as_u64().unwrap();
        assert_eq!(client.exit_code(PATIENCE), Some(0), "{step}");
    }

    eprintln!("{steps_under_load} of {} steps under load", STEPS.len());
    assert!(steps_under_load > STEPS.len() / 2);
    drop(host.0.stdin.take());
    let audit = last_line(&books.next().unwrap().unwrap());
    assert_eq!(audit["ok"], true, "{audit}");
    assert_eq!(audit["counter"], added);
    is_sound(&a);
    is_sound(&b);
    for child in [&mut samples, &mut events] {
        child.signal(Signal::SIGINT);
        assert_eq!(child.exit_code(PATIENCE), Some(130));
    }
    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    let seen = check_samples(&read("samples"));
    eprintln!("samples of the years {seen:?}");
    assert!(seen.len() >= 4, "the clock was set: {seen:?}");
    for line in read("events").lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["event"].is_string(), "{line}");
    }
    let kept = a.json(&["events"]);
    assert!(kept.as_array().unwrap().len() > 2 * STEPS.len(), "{kept}");
    if has_tshark() {
        let mut times = String::new();
        for step in STEPS {
            let frames = file(&format!("{step}.pcapng"));
            let printed = tshark_fields(&frames, ["covalent.check", "frame.time_epoch"]);
            assert!(printed.len() >= 100, "{step}: {} frames", printed.len());
            assert!(
                printed.iter().all(|[check, _]| check == &["good"]),
                "{step}"
            );
            let [_, time] = &printed[99];
            let seconds = time[0].split('.').next().unwrap().parse().unwrap();
            times += &format!("{}\n", Timestamp::from_second(seconds).unwrap());
        }
        let seen = years(&times);
        eprintln!("captures of the years {seen:?}");
        assert!(seen.len() >= 4, "{seen:?}");
    }
    let logs = ["covalentd.log", "covalent-control.log"].map(|log| {
        let text = fs::read_to_string(file("a/run").join(log)).unwrap();
        (log, years(&text))
    });
    eprintln!("lines of the years {logs:?}");
    // Control logs repeated messages as one line.
    assert!(logs[0].1.len() >= 4, "{logs:?}");
    let (went, printed) = a.run(&["down"]);
    assert!(went, "{printed}");
}
