//! The bank over AF_XDP while both links are cut and restored at random, on a clean wire and on one
//! that drops and corrupts frames.
//!
//! Two nodes in two network namespaces are joined by two virtual cables. A link is cut in three
//! ways: its interface goes down, an administrator disables the port, or frames vanish in one
//! direction while the carrier stays. The results of the verbs and the books must agree exactly.
//!
//! Each test runs for some seconds with a fixed seed, or for `SOAK_SECONDS` with a new seed, which
//! it prints. `COVALENT_SEED` sets the seed.

use std::{
    fs::File,
    os::fd::AsRawFd,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use covalent::Client;
use covalent_api::status::NodeStatus;
use covalent_config::{Config, FaultRates, FaultsConfig};
use covalent_dataplane::{Daemon, FaultInjection, journal::OnLoss, privilege::Privileges};
use tempfile::TempDir;

use crate::{
    bank::{assert_exact, books, client_at, host_at},
    namespace::{ip, is_root},
    nodes::eventually,
    noise::Noise,
    process::{App, number},
    rack::{enter, namespace},
    seeds::{lasts, seed},
};

const USUAL: Duration = Duration::from_secs(2);

/// How much longer it may take until links were cut in every way.
const SEEN_AT_LATEST: Duration = Duration::from_secs(60);

const PORTS: [&str; 2] = ["p0", "p1"];

/// Of the wire that loses and damages frames: 1 % and 0.1 % of those that arrive at either end.
const BAD: FaultRates = FaultRates {
    drop_per_100k: 1000,
    corrupt_per_100k: 100,
    duplicate_per_100k: 0,
    blackhole: false,
};

#[test]
fn the_books_are_exact_however_links_are_cut() {
    soak(FaultRates::default());
}

#[test]
fn the_books_are_exact_on_a_wire_that_loses_and_damages_frames() {
    soak(BAD);
}

fn soak(rates: FaultRates) {
    if !is_root() {
        return;
    }
    // On a thread of its own, which ends in another namespace.
    let run = || {
        let (mut noise, lasts) = (Noise::new(seed()), lasts(USUAL));
        let rack = Rack::build(rates);
        let host = host_at(&rack.socket("b"), &["--accounts", "16", "--balance", "500"]);
        let clients = ["a", "a", "b", "b"].map(|on| {
            let endless = ["--fetch-adds", "1000000000", "--transfers", "100000000"];
            client_at(
                &rack.socket(on),
                &[&endless[..], &["--locks", "10000000"]].concat(),
            )
        });
        let mut cuts = [0_u32; CUTS.len()];
        let end = Instant::now() + lasts;
        // On a busy machine a cut takes longer, and is over before anything was sent into it.
        let latest = end + SEEN_AT_LATEST;
        while Instant::now() < end || (Instant::now() < latest && !rack.has_seen(&cuts, rates)) {
            rack.cut_once(&mut noise, &mut cuts);
        }
        rack.await_links();
        rack.settle(host, clients);
        rack.assert_reported(rates);
        // One of each kind takes less than a second.
        assert!(cuts.iter().all(|&count| count > 0), "{cuts:?}");
        eprintln!("{cuts:?} cuts of the kinds {CUTS:?}");
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        std::panic::resume_unwind(panic);
    }
}

/// How a link is cut.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// The interface goes down, at node a.
    Carrier,
    /// The port is taken out, at the node of this name.
    Disabled(&'static str),
    /// Frames vanish on their way to, or from, the node of this name.
    To(&'static str),
    From(&'static str),
}

const CUTS: [Cut; 5] = [
    Cut::Carrier,
    Cut::Disabled("a"),
    Cut::To("a"),
    Cut::Disabled("b"),
    Cut::From("b"),
];

/// Two nodes, each in its own namespace. The calling thread is in the namespace of node a.
struct Rack {
    // They end before their namespaces and directories go.
    _daemons: [Daemon; 2],
    _there: File,
    directory: TempDir,
    rates: FaultRates,
}

impl Rack {
    fn build(rates: FaultRates) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let there = namespace();
        let here = namespace();
        enter(&here);
        let path = format!("/proc/{}/fd/{}", std::process::id(), there.as_raw_fd());
        for cable in 0..PORTS.len() {
            ip(&format!(
                "link add near{cable} type veth peer name far{cable}"
            ));
            ip(&format!("link set far{cable} netns {path}"));
            ip(&format!("link set near{cable} up"));
        }
        enter(&there);
        for cable in 0..PORTS.len() {
            ip(&format!("link set far{cable} up"));
        }
        let b = start(&directory, "b", "far", rates);
        enter(&here);
        let a = start(&directory, "a", "near", rates);
        let rack = Self {
            _daemons: [a, b],
            _there: there,
            directory,
            rates,
        };
        rack.await_links();
        rack
    }

    fn path(&self, node: &str) -> PathBuf {
        self.directory.path().join(node).join("covalentd.sock")
    }

    fn socket(&self, node: &str) -> String {
        self.path(node).to_str().unwrap().to_owned()
    }

    fn client(&self, node: &str) -> Client {
        Client::connect(self.path(node), "soak").unwrap()
    }

    fn status(&self, node: &str) -> NodeStatus {
        self.client(node).status().unwrap()
    }

    fn await_links(&self) {
        eventually("all links are up", || {
            ["a", "b"].iter().all(|node| {
                let links = self.status(node).links;
                links.len() == PORTS.len() && links.iter().all(|link| link.state == "up")
            })
        });
    }

    /// Cuts one link or both for a while, and mends them.
    fn cut_once(&self, noise: &mut Noise, cuts: &mut [u32; CUTS.len()]) {
        let kind = noise.below(CUTS.len() as u64) as usize;
        let ports = match noise.below(3) {
            0 => &PORTS[..1],
            1 => &PORTS[1..],
            _ => &PORTS[..],
        };
        for port in ports {
            self.set(CUTS[kind], port, true);
        }
        // Longer than the silence after which a link is declared dead, or much shorter.
        thread::sleep(Duration::from_millis(1 + noise.below(150)));
        for port in ports {
            self.set(CUTS[kind], port, false);
        }
        cuts[kind] += 1;
        thread::sleep(Duration::from_millis(1 + noise.below(100)));
    }

    fn set(&self, cut: Cut, port: &str, is_cut: bool) {
        let hole = FaultRates {
            blackhole: is_cut,
            ..self.rates
        };
        let sent = FaultRates {
            blackhole: is_cut,
            ..FaultRates::default()
        };
        match cut {
            Cut::Carrier => {
                let state = if is_cut { "down" } else { "up" };
                ip(&format!("link set near{} {state}", &port[1..]));
            }
            Cut::Disabled(node) => self.client(node).set_port(port, !is_cut).unwrap(),
            Cut::To(node) => self
                .client(node)
                .set_faults(port, hole, FaultRates::default())
                .unwrap(),
            Cut::From(node) => self
                .client(node)
                .set_faults(port, self.rates, sent)
                .unwrap(),
        }
    }

    /// Ends the clients, then the bank, and looks into the books.
    fn settle(&self, host: App, clients: [App; 4]) {
        clients.iter().for_each(App::terminate);
        let reports = clients.map(|client| {
            let (report, status) = client.report();
            assert!(status.success(), "{report}");
            assert!(number(&report, "verbs") > 0, "{report}");
            report
        });
        for node in ["a", "b"] {
            assert_eq!(self.status(node).verbs.in_doubt, 0, "at node {node}");
        }
        assert_exact(&books(host), &reports);
    }

    /// The daemons report the damage to their links, and nothing else.
    fn assert_reported(&self, rates: FaultRates) {
        for node in ["a", "b"] {
            let status = self.status(node);
            for link in &status.links {
                let failures: u64 = link.failures.values().sum();
                // On a wire that loses frames it may be down once more by now.
                let is_down = u64::from(link.state != "up");
                assert!(failures > 0 && link.ups + is_down > failures, "{link:?}");
            }
            for port in &status.ports {
                for (deed, rate) in deeds(rates) {
                    assert_eq!(port.faults[deed] > 0, rate > 0, "{deed} of {port:?}");
                }
            }
        }
        assert!(self.counts_vanished(), "no frame vanished");
    }

    /// Whether links were cut in every way, each link failed, and each kind of damage occurred at
    /// each port.
    fn has_seen(&self, cuts: &[u32; CUTS.len()], rates: FaultRates) -> bool {
        let is_reported = |node| {
            let status = self.status(node);
            let mut links = status.links.iter();
            let mut ports = status.ports.iter();
            links.all(|link| link.failures.values().sum::<u64>() > 0)
                && ports.all(|port| {
                    let mut deeds = deeds(rates).into_iter();
                    deeds.all(|(deed, rate)| rate == 0 || port.faults[deed] > 0)
                })
        };
        cuts.iter().all(|&count| count > 0)
            && self.counts_vanished()
            && ["a", "b"].into_iter().all(is_reported)
    }

    /// Whether frames vanished on their way to node a and on their way from node b.
    fn counts_vanished(&self) -> bool {
        [("a", "rx_blackholed"), ("b", "tx_blackholed")]
            .iter()
            .all(|&(node, deed)| {
                let ports = self.status(node).ports;
                ports.iter().any(|port| port.faults[deed] > 0)
            })
    }
}

/// The port counters of a bad wire, with their rates.
fn deeds(rates: FaultRates) -> [(&'static str, u32); 2] {
    [
        ("rx_dropped", rates.drop_per_100k),
        ("rx_corrupted", rates.corrupt_per_100k),
    ]
}

/// Starts a daemon in the namespace of the calling thread. Its ports `p0` and `p1` are the
/// interfaces named `interface` plus a number.
fn start(directory: &TempDir, name: &str, interface: &str, rx: FaultRates) -> Daemon {
    let at = directory.path().display();
    let mut text = format!(
        "[node]\nname = \"{name}\"\nruntime_dir = \"{at}/{name}\"\nstate_dir \
         = \"{at}/{name}-state\"\n\
         [dataplane]\nhuge_pages = \"never\"\n[link]\nidle_tick_ms = 5\n"
    );
    for (cable, port) in PORTS.iter().enumerate() {
        text += &format!(
            "[[port]]\nname = \"{port}\"\nkind = \"af_xdp\"\ninterface \
             = \"{interface}{cable}\"\nring_slots = 1024\n"
        );
    }
    let mut config = Config::parse(&text, "test").unwrap();
    for (seed, port) in (0..).zip(&mut config.port) {
        port.faults = Some(FaultsConfig {
            seed,
            rx,
            ..FaultsConfig::default()
        });
    }
    Daemon::start_with(
        config,
        Privileges::Keep,
        FaultInjection::Allowed,
        OnLoss::Refuse,
        None,
    )
    .unwrap()
}
