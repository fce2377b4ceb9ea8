//! Tests telemetry over gRPC: it equals `/metrics`, it arrives in time, and a slow reader delays no
//! other client.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use covalent_api::{request::Reply, status::NodeStatus};
use covalent_control::{grpc::STREAMS, metrics};
use covalent_grpc_schema::{
    from_struct,
    v1::{
        DescribeRequest, Event, EventsRequest, Family, Filter, GetRequest, Sample, WatchRequest,
        series::Value, telemetry_client::TelemetryClient,
    },
};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{
    Code, Status, Streaming,
    transport::{Channel, Endpoint},
};

use crate::{
    client::{PCAP_PORT, get},
    daemon::Running,
    fake::{PATIENCE, Session, link_down, link_up, listen},
    fixture,
    namespace::skip,
};

/// The smallest window that HTTP/2 begins with.
const WINDOW_BYTES: u32 = 65_535;

/// A client with a thread of its own, whose waits time out.
pub struct Client {
    runtime: Runtime,
    telemetry: TelemetryClient<Channel>,
}

impl Client {
    fn at(place: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let endpoint = Endpoint::try_from(place.to_owned())
            .expect("a place")
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let channel = runtime
            .block_on(endpoint.connect())
            .expect("control serves gRPC");
        Self {
            runtime,
            telemetry: TelemetryClient::new(channel),
        }
    }

    pub fn of(running: &Running) -> Self {
        Self::at(&format!("unix://{}", running.telemetry_socket().display()))
    }

    fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        let within = async { timeout(PATIENCE, what).await.expect("an answer in time") };
        self.runtime.block_on(within)
    }

    pub fn get(&self, filter: Filter) -> Result<Sample, Status> {
        let request = GetRequest {
            filter: Some(filter),
        };
        let answer = self.wait(self.telemetry.clone().get(request));
        answer.map(tonic::Response::into_inner)
    }

    pub fn watch(&self, request: WatchRequest) -> Result<Streaming<Sample>, Status> {
        let answer = self.wait(self.telemetry.clone().watch(request));
        answer.map(tonic::Response::into_inner)
    }

    fn events(&self, request: EventsRequest) -> Result<Streaming<Event>, Status> {
        let answer = self.wait(self.telemetry.clone().events(request));
        answer.map(tonic::Response::into_inner)
    }

    /// The next message; `None` at the end.
    pub fn next<T>(&self, stream: &mut Streaming<T>) -> Option<T> {
        self.wait(stream.message()).expect("no error")
    }
}

/// Whether telemetry is served there.
pub fn is_served(place: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let endpoint = Endpoint::try_from(place.to_owned()).expect("a place");
    runtime.block_on(async {
        let Ok(channel) = endpoint.connect().await else {
            return false;
        };
        let mut telemetry = TelemetryClient::new(channel);
        telemetry.describe(DescribeRequest {}).await.is_ok()
    })
}

fn of_families(families: &[&str]) -> Filter {
    Filter {
        families: families.iter().map(|&name| name.to_owned()).collect(),
        ..Filter::default()
    }
}

pub fn quick(filter: Filter, changes_only: bool) -> WatchRequest {
    WatchRequest {
        filter: Some(filter),
        interval_ms: 100,
        changes_only,
    }
}

/// A daemon that answers each status request with the result of `status` for its number, until
/// control disconnects.
pub fn play(
    running: &Running,
    status: impl Fn(u64) -> NodeStatus + Send + 'static,
) -> thread::JoinHandle<()> {
    let listener = listen(&running.daemon_socket());
    let daemon = thread::spawn(move || {
        let session = Session::greeted(&listener);
        let mut answered = 0;
        while session.next().is_some() {
            session.send_reply(&Reply::Status(Box::new(status(answered))));
            answered += 1;
        }
    });
    running.wait_for(|table| !table.links().is_empty());
    daemon
}

/// Samples as `/metrics` names them.
fn exposed(families: &[Family]) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
    let mut all = BTreeMap::new();
    for family in families {
        for series in &family.series {
            let mut add = |suffix: &str, bound: Option<String>, value| {
                let mut labels = series.labels.clone();
                labels.extend(bound.map(|bound| ("le".to_owned(), bound)));
                let name = format!("{}{suffix}", family.name);
                assert_eq!(all.insert((name, labels), value), None, "reported twice");
            };
            match series.value.as_ref().expect("a value") {
                Value::Number(number) => add("", None, *number),
                Value::Histogram(histogram) => {
                    for bucket in &histogram.buckets {
                        let bound = bucket.upper_bound.to_string();
                        add("_bucket", Some(bound), bucket.cumulative_count as f64);
                    }
                    add("_bucket", Some("+Inf".into()), histogram.count as f64);
                    add("_sum", None, histogram.sum);
                    add("_count", None, histogram.count as f64);
                }
            }
        }
    }
    all
}

#[test]
fn a_sample_has_exactly_the_series_of_the_metrics_page() {
    let running = Running::start();
    let daemon = play(&running, |_| fixture::status());
    let client = Client::of(&running);
    let sample = client.get(Filter::default()).expect("a sample");
    let page = running.scrape();
    assert!(sample.daemon_answers && sample.daemon_problem.is_empty());
    assert_eq!((sample.number, sample.node.as_str()), (1, "node-a"));
    let reported = exposed(&sample.families);
    let page: BTreeMap<_, _> = page
        .samples
        .into_iter()
        .map(|sample| ((sample.name, sample.labels), sample.value))
        .collect();
    assert!(page.len() > 250, "{}", page.len());
    let names = |all: &BTreeMap<(String, BTreeMap<String, String>), f64>| {
        all.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&reported), names(&page));
    for ((name, labels), value) in &page {
        // Control's own metrics change between the two.
        if !name.starts_with("covalent_control_") {
            assert_eq!(
                reported.get(&(name.clone(), labels.clone())),
                Some(value),
                "{name} {labels:?}"
            );
        }
    }

    // The metrics that can appear are exactly the declared ones, in name and kind.
    let description = client
        .wait(client.telemetry.clone().describe(DescribeRequest {}))
        .expect("a description")
        .into_inner();
    let declared: Vec<_> = metrics::sections()
        .into_iter()
        .flat_map(|section| section.metrics)
        .collect();
    assert_eq!(description.metrics.len(), declared.len());
    for (reported, declared) in description.metrics.iter().zip(&declared) {
        assert_eq!(reported.name, declared.family.name);
        assert_eq!(
            reported.kind().as_str_name(),
            format!("KIND_{}", declared.kind.as_str().to_uppercase())
        );
        assert_eq!(reported.labels, *declared.labels);
        assert!(
            !reported.unit.is_empty() && !reported.meaning.is_empty() && !reported.worry.is_empty()
        );
    }
    for family in &sample.families {
        let of = description.metrics.iter().find(|it| it.name == family.name);
        assert_eq!(of.map(|it| it.kind), Some(family.kind), "{}", family.name);
    }
    drop((client, running));
    daemon.join().expect("it played its part");
}

#[test]
fn a_filter_chooses_families_and_objects() {
    let running = Running::start();
    let daemon = play(&running, |_| fixture::status());
    let client = Client::of(&running);
    let sample = client
        .get(Filter {
            families: vec!["covalent_port".into(), "covalent_up".into()],
            labels: [("port".to_owned(), "p1".to_owned())].into(),
        })
        .expect("a sample");
    assert!(sample.families.len() > 5);
    for family in &sample.families {
        assert!(family.name.starts_with("covalent_port_"), "{}", family.name);
        for series in &family.series {
            assert_eq!(series.labels["port"], "p1");
        }
    }
    for (filter, reported) in [
        (of_families(&["covalent_prot"]), "`covalent_prot`"),
        (of_families(&[""; 65]), "65 families"),
    ] {
        let refused = client.get(filter).expect_err("it means nothing");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains(reported), "{refused}");
    }
    for interval_ms in [1, 99, 3_600_001] {
        let request = WatchRequest {
            interval_ms,
            ..WatchRequest::default()
        };
        let refused = client.watch(request).expect_err("out of range");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("100 to 3600000"), "{refused}");
    }
    let refused = client
        .events(EventsRequest {
            kinds: vec!["link_dwon".into()],
            ..EventsRequest::default()
        })
        .expect_err("no event is called so");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("link_down"), "{refused}");
    drop((client, running));
    daemon.join().expect("it played its part");
}

#[test]
fn a_watch_of_changes_gets_changed_and_removed_series() {
    let running = Running::start();
    let daemon = play(&running, |answered| {
        let mut status = fixture::status();
        status.ports[0].rx_packets = 5_000_000 + answered;
        if answered >= 4 {
            status.pipes.clear();
        }
        status
    });
    let client = Client::of(&running);
    let wanted = of_families(&["covalent_port", "covalent_pipe"]);
    let mut stream = client.watch(quick(wanted, true)).expect("a stream");
    let first = client.next(&mut stream).expect("a sample");
    assert!(first.families.len() > 20 && first.gone.is_empty());
    let (mut before, mut gone) = (first, Vec::new());
    for _ in 0..50 {
        let sample = client.next(&mut stream).expect("a sample");
        assert_eq!(sample.number, before.number + 1);
        assert!(sample.monotonic_ns > before.monotonic_ns);
        let [rx] = &sample.families[..] else {
            panic!("{:?}", sample.families);
        };
        assert_eq!(rx.name, "covalent_port_rx_packets_total");
        assert_eq!(rx.series.len(), 1);
        assert_eq!(rx.series[0].labels["port"], "p0");
        gone.clone_from(&sample.gone);
        before = sample;
        if !gone.is_empty() {
            break;
        }
    }
    assert!(gone.len() > 10, "the pipe's series vanished: {gone:?}");
    assert!(gone.iter().all(|it| it.name.starts_with("covalent_pipe_")));
    drop((stream, client, running));
    daemon.join().expect("it played its part");
}

#[test]
fn a_stalled_reader_delays_no_one_and_learns_what_it_missed() {
    let running = Running::start();
    let requests = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&requests);
    let daemon = play(&running, move |answered| {
        counts.store(answered, Ordering::SeqCst);
        fixture::status()
    });
    let slow = Client::of(&running);
    let mut stands_still = slow
        .watch(quick(Filter::default(), false))
        .expect("a stream");
    let first = slow.next(&mut stands_still).expect("a sample");
    let sample_bytes = prost_len(&first);

    // The slow client's connection is not driven now. Another client receives its samples in time.
    let other = Client::of(&running);
    let mut stream = other
        .watch(quick(of_families(&["covalent_up"]), false))
        .expect("a stream");
    let begun = Instant::now();
    for _ in 0..40 {
        let sample = other.next(&mut stream).expect("a sample");
        assert!(sample.skipped_samples < 10, "{}", sample.skipped_samples);
    }
    assert!(begun.elapsed() < PATIENCE);
    assert_eq!(get(running.metrics, "/healthz").0, 200);

    // First the data in flight to it: at most the windows and the one waiting sample. Then the
    // newest.
    let (mut last, mut skipped, mut stale) = (first, 0, 0_usize);
    loop {
        let sample = slow.next(&mut stands_still).expect("a sample");
        assert_eq!(sample.number, last.number + 1);
        skipped += sample.skipped_samples;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let age = now.expect("after 1970").as_nanos() - u128::from(sample.realtime_ns);
        last = sample;
        if age < 500_000_000 && skipped > 0 {
            break;
        }
        stale += 1;
        assert!(stale < 100, "it never gets a new one");
    }
    let bytes_in_flight = stale * sample_bytes;
    assert!(
        bytes_in_flight < 1 << 20,
        "{stale} samples of {sample_bytes} bytes"
    );
    assert!(skipped >= 5, "{skipped} in 4 s");
    // Sent and skipped samples together are all due samples, except the last.
    let due = (last.monotonic_ns / 100_000_000).abs_diff(0);
    assert!(
        last.number + skipped <= due + 2,
        "{} {skipped} {due}",
        last.number
    );
    drop((stands_still, stream, slow, other, running));
    daemon.join().expect("it played its part");
    assert!(requests.load(Ordering::SeqCst) > 10);
}

fn prost_len(sample: &Sample) -> usize {
    prost::Message::encoded_len(sample)
}

#[test]
fn few_may_watch_at_a_time_and_their_places_are_reused() {
    let running = Running::start();
    let daemon = play(&running, |_| fixture::status());
    let client = Client::of(&running);
    let wanted = || quick(of_families(&["covalent_up"]), false);
    let mut streams: Vec<_> = (0..STREAMS.all)
        .map(|_| client.watch(wanted()).expect("a place"))
        .collect();
    for stream in &mut streams {
        client.next(stream).expect("a sample");
    }
    let refused = client.watch(wanted()).expect_err("all places are taken");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(client.events(EventsRequest::default()).is_err());
    assert!(client.get(Filter::default()).is_ok(), "this takes no place");
    streams.pop();
    let deadline = Instant::now() + PATIENCE;
    while client.watch(wanted()).is_err() {
        assert!(Instant::now() < deadline, "its place was not given back");
        thread::sleep(Duration::from_millis(20));
    }
    drop((streams, client, running));
    daemon.join().expect("it played its part");
}

#[test]
fn loss_of_the_daemon_is_reported_and_no_old_data_is_sent() {
    let running = Running::start();
    let client = Client::of(&running);
    let sample = client.get(Filter::default()).expect("a sample");
    assert!(!sample.daemon_answers);
    assert!(
        sample.daemon_problem.contains("the daemon is unreachable"),
        "{}",
        sample.daemon_problem
    );
    let others = |family: &&Family| {
        let name = family.name.as_str();
        !name.starts_with("covalent_control_") && name != "covalent_up"
    };
    assert_eq!(sample.families.iter().find(others), None);
}

#[test]
fn events_arrive_in_order_with_details_and_missed_ones_are_counted() {
    let running = Running::start();
    let listener = listen(&running.daemon_socket());
    let (report, reported) = std::sync::mpsc::channel::<u64>();
    let daemon = thread::spawn(move || {
        let session = Session::greeted(&listener);
        for sequence in reported {
            if sequence % 2 == 1 {
                session.event(sequence, link_up("p0"));
            } else {
                session.event(sequence, link_down("p1"));
            }
        }
    });
    let client = Client::of(&running);
    let mut stream = client.events(EventsRequest::default()).expect("a stream");
    for sequence in 1..=2 {
        report.send(sequence).expect("it listens");
        let event = client.next(&mut stream).expect("an event");
        assert_eq!((event.position, event.sequence), (sequence, sequence));
        assert_eq!((event.realtime_ns, event.missed), (sequence, 0));
        let details = from_struct(event.details.expect("details"));
        if sequence == 1 {
            assert_eq!(event.kind, "link_up");
            assert_eq!(details["peer_name"], "node-b");
            assert_eq!(details["epoch"], 5);
        } else {
            assert_eq!(event.kind, "link_down");
            assert_eq!(details["reason"], "carrier lost");
        }
    }
    // Far more events than are kept, while the client does not read.
    for sequence in 3..=30_000 {
        report.send(sequence).expect("it listens");
    }
    let mut position = 2;
    let mut missed = 0;
    while position < 30_000 {
        let event = client.next(&mut stream).expect("an event");
        assert_eq!(event.position, position + event.missed + 1);
        missed += event.missed;
        position = event.position;
    }
    assert!(missed > 0, "30000 events cannot be in flight");

    // A later client receives the kept events of the requested kinds, and none twice.
    let kept = |after_position, kinds: &[&str]| {
        let mut stream = client
            .events(EventsRequest {
                after_position,
                kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
                kept_only: true,
            })
            .expect("a stream");
        let mut events = Vec::new();
        while let Some(event) = client.next(&mut stream) {
            events.push(event);
        }
        events
    };
    let all = kept(0, &[]);
    assert_eq!(all.len(), 512);
    assert_eq!((all[0].position, all[0].missed), (29_489, 29_488));
    let downs = kept(29_990, &["link_down"]);
    let positions: Vec<_> = downs.iter().map(|event| event.position).collect();
    assert_eq!(positions, [29_992, 29_994, 29_996, 29_998, 30_000]);
    assert_eq!(kept(30_000, &[]), []);
    // From an earlier incarnation of control.
    assert_eq!(kept(1_000_000, &[]).len(), 512);
    drop((report, stream, client, running));
    daemon.join().expect("it played its part");
}

#[test]
fn the_socket_is_open_to_all() {
    let running = Running::start();
    let socket = running.telemetry_socket();
    let mode = fs::metadata(&socket)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn it_is_served_at_a_loopback_address_too_if_wanted() {
    let more = format!("grpc_listen = \"127.0.0.1:0\"\n{PCAP_PORT}");
    let running = Running::start_with(&more);
    let address = running.telemetry.expect("an address");
    let client = Client::at(&format!("http://{address}"));
    assert!(client.get(Filter::default()).is_ok());
    assert_eq!(Running::start().telemetry, None);
}

#[test]
fn silent_connections_over_the_address_keep_no_client_out() {
    let more = format!("grpc_listen = \"127.0.0.1:0\"\n{PCAP_PORT}");
    let running = Running::start_with(&more);
    let address = running.telemetry.expect("an address");
    let silent: Vec<_> = (0..16)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    let began = Instant::now();
    assert!(is_served(&format!("http://{address}")));
    // They would lose their seats after five seconds anyway.
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    drop(silent);
}

#[test]
fn a_client_without_requests_loses_its_place() {
    let running = Running::start();
    let mut silent = UnixStream::connect(running.telemetry_socket()).expect("control serves");
    silent.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut rest = Vec::new();
    // Control sends the HTTP/2 preface, and then closes the connection.
    silent.read_to_end(&mut rest).expect("an end");
}

/// Runs an independent client: Python's gRPC, with the schema from reflection.
fn foreign(socket: &Path) -> Option<serde_json::Value> {
    const PYTHON: &str = "/usr/bin/python3";
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suite/reflection.py");
    let has_grpc = Command::new(PYTHON)
        .args(["-c", "import grpc, google.protobuf"])
        .output();
    if !has_grpc.is_ok_and(|output| output.status.success()) {
        skip("there is no python3-grpcio or no python3-protobuf");
        return None;
    }
    let output = Command::new(PYTHON)
        .arg(script)
        .arg(socket)
        .output()
        .expect("runs");
    let error_output = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error_output}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn a_foreign_client_needs_only_reflection() {
    let running = Running::start();
    let listener = listen(&running.daemon_socket());
    let daemon = thread::spawn(move || {
        let session = Session::greeted(&listener);
        session.event(1, link_up("p0"));
        session.answer(&fixture::status())
    });
    running.wait_for(|table| !table.links().is_empty());
    let Some(reported) = foreign(&running.telemetry_socket()) else {
        drop(running);
        daemon.join().expect("it played its part");
        return;
    };
    let services: Vec<_> = reported["services"].as_array().expect("a list").clone();
    for name in [
        "covalent.telemetry.v1.Telemetry",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ] {
        assert!(services.iter().any(|it| it == name), "{services:?}");
    }
    assert_eq!(
        reported["methods"],
        serde_json::json!(["Describe", "Get", "Watch", "Events"])
    );
    let rx = fixture::status().ports[0].rx_packets;
    assert_eq!(reported["rx_packets"], rx as f64);
    assert_eq!(reported["numbers"], serde_json::json!([1, 2, 3]));
    assert_eq!(reported["event"]["kind"], "link_up");
    assert_eq!(reported["event"]["peer_name"], "node-b");
    assert_eq!(reported["refused"], "INVALID_ARGUMENT");
    drop(running);
    daemon.join().expect("it played its part");
}
