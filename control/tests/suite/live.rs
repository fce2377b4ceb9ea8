//! Tests the live page: complete without external resources, and accurate, also in a browser.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    guid::Guid,
    request::Reply,
    status::{FarNodeStatus, NodeStatus},
};
use serde_json::{Value, json};

use crate::{
    browser::Browser,
    client::get,
    daemon::Running,
    fake::{PATIENCE, Session, link_down, link_up, listen},
    fixture,
};

/// Pages that may be open at a time.
const WATCHERS_MAX: usize = 16;

/// An open stream.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("control serves");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        write!(
            stream,
            "GET /live/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        .expect("sent");
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// The data of the next message of this kind.
    fn next(&mut self, kind: &str) -> String {
        let wanted = format!("event: {kind}");
        for _ in 0..200 {
            if self.line() == wanted {
                let data = self.line();
                return data.strip_prefix("data: ").expect("data").to_owned();
            }
        }
        panic!("no message `{kind}`");
    }
}

/// A daemon that sends two events and answers every status request with the status that `status`
/// makes, until control disconnects.
fn play(
    running: &Running,
    status: impl FnMut() -> NodeStatus + Send + 'static,
) -> thread::JoinHandle<u64> {
    let listener = listen(&running.daemon_socket());
    thread::spawn(move || {
        let session = Session::greeted(&listener);
        session.event(1, link_up("p0"));
        session.event(2, link_down("p1"));
        session.answer_each(status)
    })
}

/// The status of the fixture, whose links have received 5,000 frames a second since `start`.
fn moving(start: Instant) -> NodeStatus {
    let mut status = fixture::status();
    let uptime_ns = u64::try_from(start.elapsed().as_nanos()).expect("a short test");
    status.uptime_ns = uptime_ns;
    for link in &mut status.links {
        link.rx_frames += uptime_ns / 200_000;
    }
    status
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let running = Running::start();
    let mut stream = Stream::open(running.metrics);
    drop(stream.line());
    for path in ["/", "/live.css", "/live.js"] {
        let (code, body) = get(running.metrics, path);
        assert_eq!(code, 200, "{path}");
        let without = body.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http:", "https:", "//cdn", "@import"] {
            assert!(!without.contains(foreign), "{path} requests `{foreign}`");
        }
        assert!(!body.contains("innerHTML"), "{path} makes markup of data");
    }
    let mut head = TcpStream::connect(running.metrics).expect("control serves");
    write!(
        head,
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let lines: Vec<String> = BufReader::new(head).lines().map_while(Result::ok).collect();
    let policy = lines
        .iter()
        .find(|line| line.starts_with("content-security-policy: "));
    assert!(
        policy.is_some_and(|policy| policy.contains("default-src 'none'")),
        "{lines:?}"
    );
}

#[test]
fn the_stream_has_status_events_and_the_loss_of_the_daemon() {
    let running = Running::start();
    let listener = listen(&running.daemon_socket());
    let leaves = Arc::new(AtomicBool::new(false));
    let may_leave = Arc::clone(&leaves);
    let daemon = thread::spawn(move || {
        let session = Session::greeted(&listener);
        session.event(1, link_up("p0"));
        while !may_leave.load(Ordering::SeqCst) {
            session.next().expect("a request");
            session.send_reply(&Reply::Status(Box::new(fixture::status())));
        }
    });
    let mut stream = Stream::open(running.metrics);
    let shown_text: Value = serde_json::from_str(&stream.next("baseline")).expect("JSON");
    let mut status = serde_json::to_value(fixture::status()).expect("JSON");
    let region = status["regions"][0].as_object_mut().expect("a region");
    region.remove("rkey").expect("the daemon reports its key");
    assert_eq!(shown_text, status, "all but keys of regions");
    let events: Value = serde_json::from_str(&stream.next("events")).expect("JSON");
    assert_eq!(events[0]["event"], "link_up");
    assert_eq!(events.as_array().map(Vec::len), Some(1));
    let second: Value = serde_json::from_str(&stream.next("status")).expect("JSON");
    assert_eq!(second, status);
    leaves.store(true, Ordering::SeqCst);
    let gone = stream.next("gone");
    assert!(gone.contains("the daemon is unreachable"), "{gone}");
    daemon.join().expect("it played its part");
}

#[test]
fn an_unwatched_page_sends_no_requests_and_few_may_watch() {
    let running = Running::start();
    let daemon = play(&running, fixture::status);
    let mut streams: Vec<Stream> = (0..WATCHERS_MAX)
        .map(|_| Stream::open(running.metrics))
        .collect();
    for stream in &mut streams {
        stream.next("baseline");
    }
    let (code, shown_text) = get(running.metrics, "/live/stream");
    assert_eq!(code, 503, "{shown_text}");
    streams.pop();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut next = Stream::open(running.metrics);
        if next.line().contains("200") {
            next.next("baseline");
            break;
        }
        assert!(Instant::now() < deadline, "its place was not given back");
        thread::sleep(Duration::from_millis(20));
    }
    drop(streams);
    drop(running);
    assert!(daemon.join().expect("it played its part") > 0);
}

/// Waits until an expression in the page is true.
fn wait_for(browser: &Browser, expression: &str) {
    let deadline = Instant::now() + PATIENCE;
    while browser.script(&format!("return {expression};")) != true {
        assert!(
            Instant::now() < deadline,
            "never `{expression}`: {}",
            browser.script("return document.body.innerText;")
        );
        thread::sleep(Duration::from_millis(50));
    }
}

/// Keeps a picture of the page, for people.
fn keep_picture(browser: &Browser, name: &str) {
    let picture = artifacts().join(format!("{name}.png"));
    fs::write(&picture, browser.picture()).expect("written");
    eprintln!("{}", picture.display());
}

/// Where pictures of the page are kept.
fn artifacts() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-page");
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

#[test]
fn a_browser_shows_links_rates_and_events_on_a_desk_and_on_a_phone() {
    let running = Running::start();
    let start = Instant::now();
    let daemon = play(&running, move || moving(start));
    let Some(browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("http://{}/", running.metrics));
    let shown = |script: &str| browser.script(&format!("return {script};"));
    wait_for(
        &browser,
        "document.querySelectorAll('#events li').length == 2",
    );
    wait_for(&browser, "!document.querySelector('main').hidden");
    let text = shown("document.body.innerText")
        .as_str()
        .expect("text")
        .to_owned();
    for shown_text in [
        "Covalent node-a",
        "1 of 2 links up",
        "node-b",
        "link up: port p0",
        "link down: port p1, reason carrier lost",
    ] {
        assert!(text.contains(shown_text), "`{shown_text}` is not in {text}");
    }
    assert_eq!(shown("document.title"), "node-a – Covalent");

    // For screen readers: captions of tables, headers of rows and columns, a textual description of
    // the drawing.
    assert_eq!(
        shown(
            "[...document.querySelectorAll('table')].every((t) => t.caption && \
             t.querySelector('th[scope=col]') && t.querySelector('th[scope=row]'))"
        ),
        true
    );
    let drawing = shown("document.getElementById('topology-text').textContent");
    assert!(
        drawing
            .as_str()
            .is_some_and(|shown_text| shown_text.contains("p0 is up to quote")),
        "{drawing}"
    );
    assert_eq!(shown("document.documentElement.lang"), "en");
    assert_eq!(shown("document.querySelectorAll('h1').length"), 1);

    for (name, width, height) in [("desk", 1280, 1500), ("phone", 390, 1900)] {
        browser.resize(width, height);
        // Content wider than the window scrolls by itself: the page does not.
        let fits = "document.documentElement.scrollWidth <= window.innerWidth";
        assert_eq!(shown(fits), true, "{name}");
        keep_picture(&browser, name);
    }
    drop(browser);
    drop(running);
    daemon.join().expect("it played its part");
}

#[test]
fn rates_are_shown_from_the_first_sample_of_each_incarnation_of_the_daemon() {
    // The daemon is another process from this request on.
    const RESTART: usize = 4;
    let running = Running::start();
    let start = Instant::now();
    let mut restarted = None;
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let daemon = play(&running, move || {
        if count.fetch_add(1, Ordering::SeqCst) < RESTART {
            return moving(start);
        }
        let mut status = moving(*restarted.get_or_insert_with(Instant::now));
        status.pid += 1;
        status
    });
    let Some(browser) = Browser::start() else {
        return;
    };
    // Everything that a user can have seen in the column of a rate.
    browser.before_pages(
        "window.seen = []; new MutationObserver(() => {
             const cell = document.querySelector('#links-table td.number');
             if (cell && cell.getClientRects().length) seen.push(cell.textContent);
         }).observe(document, { childList: true, subtree: true, attributes: true });",
    );
    browser.open(&format!("http://{}/", running.metrics));
    // Until the page has two samples of the second incarnation.
    let deadline = Instant::now() + PATIENCE;
    while answered.load(Ordering::SeqCst) < RESTART + 4 {
        assert!(Instant::now() < deadline, "control stopped polling");
        thread::sleep(Duration::from_millis(50));
    }
    let seen = browser.script("return seen;");
    let seen: Vec<&str> = seen
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        seen.len() > 2 && seen.iter().all(|rate| rate.ends_with('K')),
        "{seen:?}"
    );
    drop(browser);
    drop(running);
    daemon.join().expect("it played its part");
}

#[test]
fn sections_with_nothing_to_show_are_one_line_that_unfolds() {
    let running = Running::start();
    let start = Instant::now();
    let has_group = Arc::new(AtomicBool::new(false));
    let group_is_made = Arc::clone(&has_group);
    let daemon = play(&running, move || {
        let mut status = moving(start);
        status.pipes.clear();
        status.verbs = Default::default();
        if !group_is_made.load(Ordering::SeqCst) {
            status.groups.clear();
        }
        status
    });
    let Some(browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("http://{}/", running.metrics));
    wait_for(&browser, "!document.querySelector('main').hidden");
    let visible = || {
        browser.script(
            "return [...document.querySelectorAll('section')]
                 .filter((section) => section.checkVisibility()).map((section) => section.id)",
        )
    };
    let line = || browser.script("return document.querySelector('summary').innerText;");
    assert_eq!(line(), "Nothing to show: verbs, groups, pipes");
    let full = ["topology-section", "links", "lanes", "ports"];
    let shown = json!([&full[..], &["events-section"]].concat());
    assert_eq!(visible(), shown);
    keep_picture(&browser, "folded");
    browser.script("document.querySelector('summary').click();");
    let unfolded = ["verbs", "groups", "pipes", "events-section"];
    assert_eq!(visible(), json!([&full[..], &unfolded].concat()));
    browser.script("document.querySelector('summary').click();");
    assert_eq!(visible(), shown);

    has_group.store(true, Ordering::SeqCst);
    wait_for(
        &browser,
        "document.getElementById('groups').checkVisibility()",
    );
    assert_eq!(line(), "Nothing to show: verbs, pipes");
    let shown = json!([&full[..], &["groups", "events-section"]].concat());
    assert_eq!(visible(), shown);
    drop(browser);
    drop(running);
    daemon.join().expect("it played its part");
}

/// A node with so many links to each of so many neighbors, and so many nodes beyond.
fn rack(start: Instant, neighbors: u64, links: u64, beyond: u64) -> NodeStatus {
    let mut status = moving(start);
    let link = status.links.swap_remove(0);
    let all = (0..neighbors * links).map(|at| {
        let mut link = link.clone();
        link.port = format!("p{at}");
        link.peer = Guid::new(0x100 + at / links);
        link.peer_name = Some(format!("rack-{neighbors}-node-{}", at / links));
        link
    });
    status.links = all.collect();
    let far = (0..beyond).map(|at| FarNodeStatus {
        guid: Guid::new(0x1_0000 + at).expect("not zero"),
        name: Some(format!("far-node-{at}")),
        standing: "reached".into(),
        hops: Some(2),
        port: Some("p0".into()),
    });
    status.nodes = far.collect();
    status
}

#[test]
fn the_topology_is_as_large_as_its_content() {
    const RACKS: [(u64, u64, u64); 7] = [
        (1, 1, 0),
        (2, 1, 0),
        (1, 8, 2),
        (4, 2, 1),
        (10, 1, 0),
        (10, 2, 24),
        (16, 4, 60),
    ];
    let running = Running::start();
    let start = Instant::now();
    let drawn = Arc::new(AtomicUsize::new(0));
    let to_draw = Arc::clone(&drawn);
    let daemon = play(&running, move || {
        let (neighbors, links, beyond) = RACKS[to_draw.load(Ordering::SeqCst)];
        rack(start, neighbors, links, beyond)
    });
    let Some(browser) = Browser::start() else {
        return;
    };
    browser.resize(1280, 1000);
    browser.open(&format!("http://{}/", running.metrics));
    for (at, (neighbors, links, beyond)) in RACKS.into_iter().enumerate() {
        drawn.store(at, Ordering::SeqCst);
        wait_for(
            &browser,
            &format!(
                "document.querySelectorAll('#topology line').length == {} && \
                 document.getElementById('topology').textContent.includes('rack-{neighbors}-')",
                neighbors * links + beyond.min(24),
            ),
        );
        keep_picture(&browser, &format!("topology-{neighbors}-{links}-{beyond}"));
        // In units of the drawing: the empty margin of each side, and whether texts overlap.
        let measured = browser.script(
            "const svg = document.getElementById('topology'), view = svg.viewBox.baseVal;
             const boxes = [...svg.querySelectorAll('circle, text')].map((part) => part.getBBox());
             const texts = [...svg.querySelectorAll('text')].map((part) => part.getBBox());
             const least = (pick) => Math.min(...boxes.map(pick));
             const inset = 4;
             const overlap = texts.some((a, at) => texts.slice(0, at).some((b) =>
                 a.x < b.x + b.width && b.x < a.x + a.width &&
                 a.y + inset < b.y + b.height - inset && b.y + inset < a.y + a.height - inset));
             return {
                 margins: [
                     least((box) => box.x - view.x),
                     least((box) => box.y - view.y),
                     least((box) => view.x + view.width - box.x - box.width),
                     least((box) => view.y + view.height - box.y - box.height),
                 ],
                 overlap,
                 height: svg.getBoundingClientRect().height,
                 scale: svg.getBoundingClientRect().width / view.width,
             };",
        );
        let rack = RACKS[at];
        let margins = measured["margins"].as_array().expect("four");
        for margin in margins {
            let margin = margin.as_f64().expect("a number");
            assert!((0.0..=20.0).contains(&margin), "{rack:?}: {measured}");
        }
        assert_eq!(measured["overlap"], false, "{rack:?}");
        let scale = measured["scale"].as_f64().expect("a number");
        assert!(scale <= 1.001, "{rack:?}: small drawings are not enlarged");
        if neighbors * links <= 2 {
            let height = measured["height"].as_f64().expect("a number");
            assert!(height < 100.0, "{rack:?}: {measured}");
        }
    }
    drop(browser);
    drop(running);
    daemon.join().expect("it played its part");
}
