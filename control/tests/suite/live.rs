//! Tests the live page: complete without external resources, and accurate, also in a browser.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent_api::request::Reply;
use serde_json::Value;

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

/// A daemon that sends two events and answers every status request, until control disconnects.
fn play(running: &Running) -> thread::JoinHandle<u64> {
    let listener = listen(&running.daemon_socket());
    thread::spawn(move || {
        let session = Session::greeted(&listener);
        session.event(1, link_up("p0"));
        session.event(2, link_down("p1"));
        session.answer(&fixture::status())
    })
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
    let shown_text: Value = serde_json::from_str(&stream.next("status")).expect("JSON");
    let mut status = serde_json::to_value(fixture::status()).expect("JSON");
    let region = status["regions"][0].as_object_mut().expect("a region");
    region.remove("rkey").expect("the daemon reports its key");
    assert_eq!(shown_text["status"], status, "all but keys of regions");
    let events: Value = serde_json::from_str(&stream.next("events")).expect("JSON");
    assert_eq!(events[0]["event"], "link_up");
    assert_eq!(events.as_array().map(Vec::len), Some(1));
    let second: Value = serde_json::from_str(&stream.next("status")).expect("JSON");
    assert!(second["at_ms"].as_u64() > shown_text["at_ms"].as_u64());
    leaves.store(true, Ordering::SeqCst);
    let gone = stream.next("gone");
    assert!(gone.contains("the daemon is unreachable"), "{gone}");
    daemon.join().expect("it played its part");
}

#[test]
fn an_unwatched_page_sends_no_requests_and_few_may_watch() {
    let running = Running::start();
    let daemon = play(&running);
    let mut streams: Vec<Stream> = (0..WATCHERS_MAX)
        .map(|_| Stream::open(running.metrics))
        .collect();
    for stream in &mut streams {
        stream.next("status");
    }
    let (code, shown_text) = get(running.metrics, "/live/stream");
    assert_eq!(code, 503, "{shown_text}");
    streams.pop();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut next = Stream::open(running.metrics);
        if next.line().contains("200") {
            next.next("status");
            break;
        }
        assert!(Instant::now() < deadline, "its place was not given back");
        thread::sleep(Duration::from_millis(20));
    }
    drop(streams);
    drop(running);
    assert!(daemon.join().expect("it played its part") > 0);
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
    let daemon = play(&running);
    let Some(browser) = Browser::start() else {
        return;
    };
    browser.open(&format!("http://{}/", running.metrics));
    let shown = |script: &str| browser.script(&format!("return {script};"));
    let deadline = Instant::now() + PATIENCE;
    // The second status makes rates of counts.
    while shown("document.querySelector('#links-table td.number')?.textContent") != "0" {
        assert!(
            Instant::now() < deadline,
            "{}",
            shown("document.body.innerText")
        );
        thread::sleep(Duration::from_millis(50));
    }
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

    let directory = artifacts();
    for (name, width, height) in [("desk", 1280, 1500), ("phone", 390, 1900)] {
        browser.resize(width, height);
        // Content wider than the window scrolls by itself: the page does not.
        let fits = "document.documentElement.scrollWidth <= window.innerWidth";
        assert_eq!(shown(fits), true, "{name}");
        let picture = directory.join(format!("{name}.png"));
        fs::write(&picture, browser.picture()).expect("written");
        eprintln!("{}", picture.display());
    }
    drop(browser);
    drop(running);
    daemon.join().expect("it played its part");
}
