//! Forwards frames between two DPDK devices with our ports and with testpmd, on the same virtual
//! devices, and prints the ratio.
//!
//! ```text
//!   testpmd, the peer (core 1):  sends on both ports as fast as it can, discards received frames
//!                                   ▲            ▲
//!   the forwarder (core 0):      port 0 ◄──► port 1          ours or testpmd, in turn
//! ```
//! The peer counts the frames that it receives back, so the same clock and counter measure both
//! forwarders. It sends more than it receives back, whatever the loss: frames that only circulate
//! would measure how many of them are left. Needs dpdk-testpmd (Debian's `dpdk-dev`), two cores,
//! and root for `af_xdp`. Its veth pairs are in a network namespace that ends with this process.
//!
//! `cargo run --release -p covalent-dataplane --features dpdk --example dpdk_forward --
//! memif|af_xdp [SECONDS] [ROUNDS]`
#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::{
    env,
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent_config::{
    DataplaneConfig, HugePages, LinkConfig, PortConfig, PortKind, RxChecksum, TxChecksum,
};
use covalent_dataplane::port::{LaneMemory, Port, open};
use nix::sched::{CloneFlags, unshare};

/// Frames taken at a time, as testpmd does.
const BURST: usize = 32;

/// How long the peer waits for its forwarder before it sends the first frames.
const SETTLE: Duration = Duration::from_secs(4);

/// From the first frames to the first count.
const WARM_UP: Duration = Duration::from_secs(1);

/// Argument with which this program starts itself as our forwarder.
const FORWARD: &str = "forward";

/// Memory of each testpmd, in MiB.
const TESTPMD_MIB: &str = "256";

/// The devices: of the peer, then of the forwarder.
struct Medium {
    peer: [String; 2],
    forwarder: [String; 2],
}

impl Medium {
    fn memif(directory: &Path) -> Self {
        let device = |number: usize, role: &str| {
            let socket = directory.join(format!("{number}.memif"));
            format!(
                "net_memif{number},role={role},socket={},socket-abstract=no",
                socket.display()
            )
        };
        Self {
            peer: [device(0, "server"), device(1, "server")],
            forwarder: [device(0, "client"), device(1, "client")],
        }
    }

    fn af_xdp() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).context("a network namespace needs root")?;
        for number in 0..2 {
            let (near, far) = (format!("near{number}"), format!("far{number}"));
            ip(&["link", "add", &near, "type", "veth", "peer", "name", &far])?;
            for interface in [near, far] {
                ip(&["link", "set", &interface, "up"])?;
            }
        }
        let device = |number: usize, end: &str| format!("net_af_xdp{number},iface={end}{number}");
        Ok(Self {
            peer: [device(0, "far"), device(1, "far")],
            forwarder: [device(0, "near"), device(1, "near")],
        })
    }
}

fn ip(arguments: &[&str]) -> Result<()> {
    let status = Command::new("ip").args(arguments).status().context("ip")?;
    ensure!(status.success(), "ip {arguments:?} failed");
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [word, one, other, millis] = arguments.as_slice()
        && word == FORWARD
    {
        let time = Duration::from_millis(millis.parse()?);
        return forward(&[one.clone(), other.clone()], time);
    }
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (seconds, rounds) = (number(1, 5)?.max(1), number(2, 3)?.max(1));
    let directory = tempfile::tempdir()?;
    let medium = match arguments.first().map(String::as_str) {
        Some("memif") => Medium::memif(directory.path()),
        Some("af_xdp") => Medium::af_xdp()?,
        _ => bail!("expected memif or af_xdp"),
    };
    let time = Duration::from_secs(seconds);
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let theirs = beside(&medium, time, |whole| {
            let mut child = testpmd("forwarder", ["1", "0"], &medium.forwarder)?;
            send_commands(&mut child, "set fwd io\nstart\n")?;
            sleep(whole);
            end(child).map(drop)
        })?;
        let ours = beside(&medium, time, |whole| {
            // A process of its own, as testpmd is: net_af_xdp of 22.11 never closes its sockets.
            let status = Command::new(env::current_exe()?)
                .arg(FORWARD)
                .args(&medium.forwarder)
                .arg(whole.as_millis().to_string())
                .status()?;
            ensure!(status.success(), "our forwarder: {status}");
            Ok(())
        })?;
        println!(
            "round {round}: testpmd {:.3} Mpps, ours {:.3} Mpps, ratio {:.3}",
            theirs / 1e6,
            ours / 1e6,
            ours / theirs
        );
        ratios.push(ours / theirs);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio {:.3}", ratios[ratios.len() / 2]);
    Ok(())
}

/// Returns the frames per second that the peer receives back. `forwarder` runs for the duration
/// that it is passed.
fn beside(
    medium: &Medium,
    time: Duration,
    forwarder: impl FnOnce(Duration) -> Result<()>,
) -> Result<f64> {
    let mut peer = testpmd("peer", ["0", "1"], &medium.peer)?;
    sleep(Duration::from_secs(2));
    let whole = SETTLE + WARM_UP + time + Duration::from_secs(1);
    let mut stdin = peer.stdin.take().context("its input")?;
    let driver = std::thread::spawn(move || -> Result<Duration> {
        sleep(SETTLE);
        stdin.write_all(b"set fwd flowgen\nstart\n")?;
        sleep(WARM_UP);
        stdin.write_all(b"clear port stats all\n")?;
        let begin = Instant::now();
        sleep(time);
        stdin.write_all(b"show port stats all\n")?;
        let took = begin.elapsed();
        sleep(Duration::from_millis(300));
        stdin.write_all(b"stop\nquit\n")?;
        Ok(took)
    });
    let forwarded = forwarder(whole);
    let took = match driver.join() {
        Ok(took) => took?,
        Err(_) => bail!("the peer's driver panicked"),
    };
    let output = end(peer)?;
    forwarded?;
    Ok(received(&output) as f64 / took.as_secs_f64())
}

/// Returns the sum of both ports' received packets in the output of `show port stats all`.
fn received(output: &str) -> u64 {
    output
        .lines()
        .take_while(|line| !line.contains("Forward statistics"))
        .filter_map(|line| line.trim().strip_prefix("RX-packets:"))
        .filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// Starts a testpmd that waits for commands. Its main thread runs on the first core, the forwarding
/// thread on the second.
fn testpmd(name: &str, cores: [&str; 2], devices: &[String; 2]) -> Result<Child> {
    let mut command = Command::new("dpdk-testpmd");
    command.args([
        format!("--lcores=0@{},1@{}", cores[0], cores[1]),
        format!("--file-prefix=covalent-{name}-{}", std::process::id()),
    ]);
    command.args([
        "--no-huge",
        "--no-shconf",
        "-m",
        TESTPMD_MIB,
        "--no-pci",
        "--no-telemetry",
        "--iova-mode=va",
    ]);
    command.args(devices.iter().map(|device| format!("--vdev={device}")));
    // The peer sends one prebuilt frame repeatedly: building each frame would cost more than
    // sending it.
    command.args(["--", "-i", "--total-num-mbufs=16384", "--no-mlockall"]);
    command.args(["--flowgen-flows=1", "--flowgen-clones=31"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("dpdk-testpmd: apt-get install dpdk-dev")
}

fn send_commands(child: &mut Child, commands: &str) -> Result<()> {
    let stdin = child.stdin.as_mut().context("its input")?;
    stdin.write_all(commands.as_bytes())?;
    Ok(())
}

/// Makes a testpmd quit and returns its output.
fn end(mut child: Child) -> Result<String> {
    if child.stdin.is_some() {
        // One that has quit already takes no more commands.
        let _ = send_commands(&mut child, "stop\nquit\n");
    }
    drop(child.stdin.take());
    let mut output = String::new();
    child
        .stdout
        .take()
        .context("its output")?
        .read_to_string(&mut output)?;
    child.wait()?;
    Ok(output)
}

/// Our ports do it, on core 0.
fn forward(devices: &[String; 2], time: Duration) -> Result<()> {
    let configs: Vec<PortConfig> = (0..)
        .zip(devices)
        .map(|(number, device)| port(number, device))
        .collect();
    let dataplane = DataplaneConfig {
        huge_pages: HugePages::Never,
        ..DataplaneConfig::default()
    };
    let mut memory = LaneMemory::for_lane(&configs, 0)?;
    let mut ports = configs
        .iter()
        .map(|config| open(config, &dataplane, &LinkConfig::default(), &mut memory))
        .collect::<Result<Vec<_>, _>>()?;
    let (Some(mut one), Some(mut other)) = (ports.pop(), ports.pop()) else {
        bail!("two ports");
    };
    // Pin after the first port opens: DPDK's own threads stay on the cores of the opening thread.
    core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
    let end = Instant::now() + time;
    // Counted from the first frame on: before it, the peer does not send.
    let (mut bursts, mut full) = (0_u64, 0_u64);
    while Instant::now() < end {
        for _ in 0..64 {
            for passed in [
                pass_on(&mut *one, &mut *other)?,
                pass_on(&mut *other, &mut *one)?,
            ] {
                bursts += u64::from(passed > 0 || bursts > 0);
                full += u64::from(passed == BURST);
            }
        }
    }
    println!(
        "  ours: {:.1} % of the bursts were full; if few are, the peer is the limit",
        100.0 * full as f64 / bursts.max(1) as f64
    );
    Ok(())
}

/// Returns the number of received frames.
fn pass_on(from: &mut dyn Port, to: &mut dyn Port) -> Result<usize> {
    let passed = from.receive(BURST, |frame| {
        // A full port drops it, as testpmd does; the port counts it as refused.
        let _ = to.tx(frame);
    })?;
    if passed > 0 {
        // Without a carrier the frames wait.
        let _ = to.flush();
    }
    Ok(passed)
}

fn port(number: u32, device: &str) -> PortConfig {
    PortConfig {
        name: format!("p{number}"),
        lane: 0,
        link: false,
        kind: PortKind::Dpdk {
            device: device.to_owned(),
            queues: 1,
            ring_slots: 2048,
            rx_checksum: RxChecksum::Ignore,
            tx_checksum: TxChecksum::Keep,
        },
        faults: None,
    }
}
