//! DPDK: two `dpdk-testpmd` joined by memif, or by virtio-user and vhost.
//!
//! The near one forwards what it receives (`io`), and starts with the packets that are to
//! circulate. The far one swaps the addresses of each packet in place (`macswap`). It touches every
//! packet, as the application's side of a pipe does, with vector instructions: the least possible
//! cost for DPDK. The rate is the near one's receive counter over a window without other commands.

mod output;
mod process;

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{
    report::Description,
    stop,
    streams::{
        HugePages,
        case::{Case, Size, Test},
        contestant::{Contestant, Outcome},
        source::Mix,
    },
};
pub use process::Testpmd;

/// The program, and the Debian package that has it.
pub const PROGRAM: &str = "dpdk-testpmd";
const PACKAGE: &str = "dpdk-dev";

/// Memory of each process, in MiB.
const MEMORY_MIB: u32 = 128;

/// Huge pages that two processes take.
pub const HUGE_PAGES: u64 = 2 * MEMORY_MIB as u64 / 2;

/// Packets moved at a time.
const BURST: u32 = 64;

/// Bursts that start the circulation. The excess over the rings' capacity is dropped, so the rings
/// are full.
const FIRST_BURSTS: u32 = 32;

/// Buffers of each process.
const MBUFS: u32 = 16_384;

/// Classes of packet lengths that stand for the mix; each circulates as often.
const CLASSES: u32 = 16;

/// Shortest packet that testpmd builds: Ethernet, IPv4 and UDP headers.
const PACKET_BYTES_MIN: usize = 60;

/// How the two processes are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// `net_memif`, each side copies.
    Memif,
    /// `net_memif`, the near side (the client) shares its packet memory.
    MemifZeroCopy,
    /// `net_vhost` near, `net_virtio_user` far.
    Vhost,
}

/// Two processes of testpmd.
pub struct TestpmdPair<'a> {
    join: Join,
    /// Cores of the near and the far side.
    cores: [usize; 2],
    folder: PathBuf,
    warm_up: Duration,
    slice: Duration,
    mix: &'a Mix,
    running: Option<[Testpmd; 2]>,
}

impl<'a> TestpmdPair<'a> {
    /// One that is not running yet.
    pub fn new(
        join: Join,
        cores: [usize; 2],
        folder: &Path,
        windows: [Duration; 2],
        mix: &'a Mix,
    ) -> Self {
        let [warm_up, slice] = windows;
        Self {
            join,
            cores,
            folder: folder.to_owned(),
            warm_up,
            slice,
            mix,
            running: None,
        }
    }

    /// The arguments of the near or the far side.
    fn arguments(&self, far: bool) -> Vec<String> {
        let [near_core, far_core] = self.cores;
        let (worker, main) = if far {
            (far_core, near_core)
        } else {
            (near_core, far_core)
        };
        let socket = self.folder.join(format!("{}.sock", self.name()));
        let socket = socket.display();
        let memif = format!("socket={socket},socket-abstract=no");
        let device = match (self.join, far) {
            (Join::Memif | Join::MemifZeroCopy, true) => format!("net_memif,role=server,{memif}"),
            (Join::Memif, false) => format!("net_memif,role=client,{memif}"),
            (Join::MemifZeroCopy, false) => format!("net_memif,role=client,zero-copy=yes,{memif}"),
            (Join::Vhost, false) => format!("net_vhost0,iface={socket},queues=1"),
            (Join::Vhost, true) => format!(
                "net_virtio_user0,path={socket},queues=1,queue_size=1024,packed_vq=1,in_order=1,mrg_rxbuf=0"
            ),
        };
        let mut arguments = vec![
            // The main thread only waits for commands.
            format!("--lcores=0@{main},1@{worker}"),
            format!(
                "--file-prefix=covalent-bench-{}-{}-{far}",
                std::process::id(),
                self.name()
            ),
            "--in-memory".to_owned(),
            "-m".to_owned(),
            MEMORY_MIB.to_string(),
            "--no-pci".to_owned(),
            "--no-telemetry".to_owned(),
        ];
        // Memory that the other side maps has to be few files.
        if matches!(
            (self.join, far),
            (Join::MemifZeroCopy, false) | (Join::Vhost, true)
        ) {
            arguments.push("--single-file-segments".to_owned());
        }
        arguments.push(format!("--vdev={device}"));
        arguments.push("--".to_owned());
        arguments.extend([
            "-i".to_owned(),
            format!("--total-num-mbufs={MBUFS}"),
            format!("--burst={BURST}"),
            "--no-mlockall".to_owned(),
        ]);
        arguments
    }

    fn command(&self, far: bool) -> String {
        format!("{PROGRAM} {}", self.arguments(far).join(" "))
    }

    /// Starts both processes, the one that creates the socket first.
    fn start(&self) -> Result<[Testpmd; 2]> {
        let start = |far| Testpmd::start(PROGRAM, &self.arguments(far), &self.folder);
        let (mut near, mut far) = if self.join == Join::Vhost {
            let near = start(false)?;
            (near, start(true)?)
        } else {
            let far = start(true)?;
            (start(false)?, far)
        };
        far.send_command("set fwd macswap")?;
        near.send_command("set fwd io")?;
        near.wait_for_link()?;
        Ok([near, far])
    }

    fn begin(&self, near: &mut Testpmd, size: Size) -> Result<()> {
        match size {
            Size::Bytes(bytes) => {
                near.send_command(&format!("set txpkts {bytes}"))?;
                near.send_command(&format!("start tx_first {FIRST_BURSTS}"))
            }
            Size::Mix => {
                // Starting discards packets left from the previous case.
                near.send_command("start")?;
                near.send_command("stop")?;
                // Keep circulating packets when forwarding stops, so that each class adds to the
                // previous ones.
                near.send_command("set flush_rx off")?;
                for bytes in self.mix.classes(CLASSES as usize) {
                    near.send_command(&format!("set txpkts {}", bytes.max(PACKET_BYTES_MIN)))?;
                    near.send_command(&format!("start tx_first {}", FIRST_BURSTS / CLASSES))?;
                    near.send_command("stop")?;
                }
                near.send_command("start")
            }
        }
    }
}

impl Contestant for TestpmdPair<'_> {
    fn name(&self) -> &'static str {
        match self.join {
            Join::Memif => "dpdk-memif",
            Join::MemifZeroCopy => "dpdk-memif-zero-copy",
            Join::Vhost => "dpdk-vhost",
        }
    }

    fn prepare(&mut self) -> Result<Description> {
        let version = version()?;
        let what = match self.join {
            Join::Memif => "DPDK net_memif between two processes, copied at each side",
            Join::MemifZeroCopy => "DPDK net_memif between two processes, zero-copy client",
            Join::Vhost => "DPDK net_vhost and net_virtio_user in two processes",
        };
        Ok(Description {
            what: what.to_owned(),
            version,
            tuning: format!(
                "near side `set fwd io`, far side `set fwd macswap`; bursts of {BURST}, begun with \
                 {FIRST_BURSTS} of them, {MBUFS} mbufs, 2 MiB pages; \
                 the mix is {CLASSES} classes of length"
            ),
            commands: vec![self.command(false), self.command(true)],
        })
    }

    fn takes(&self, case: Case) -> bool {
        case.test == Test::Echo
    }

    fn run(&mut self, case: Case) -> Result<Outcome> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => HugePages::start(HUGE_PAGES, || self.start())?,
        };
        let [near, far] = &mut running;
        far.send_command("start")?;
        // Wait for its reply, which comes after it has flushed its queue. No packet of this case
        // may be in that flush.
        far.packets_per_second()?;
        self.begin(near, case.size)?;
        stop::sleep(self.warm_up)?;
        near.packets_per_second()?;
        let before = (Instant::now(), near.cpu_seconds()?, far.cpu_seconds()?);
        stop::sleep(self.slice)?;
        let rate = near.packets_per_second()?;
        let seconds = before.0.elapsed().as_secs_f64();
        let outcome = Outcome {
            figure: rate / 1e6,
            daemon_cores: (near.cpu_seconds()? - before.1) / seconds,
            application_cores: (far.cpu_seconds()? - before.2) / seconds,
            other_cores: 0.0,
        };
        near.send_command("set flush_rx on")?;
        // Stopped processes sleep until the next case and take no CPU time from other contestants.
        for side in [near, far] {
            side.send_command("stop")?;
            side.wait_until_done()?;
        }
        ensure!(outcome.figure > 0.0, "no packet was returned");
        self.running = Some(running);
        Ok(outcome)
    }

    fn pause(&mut self) {
        self.running = None;
    }
}

/// Returns the version of testpmd: the version of its package, because the program prints it only
/// while running.
///
/// # Errors
/// testpmd is not installed.
pub fn version() -> Result<String> {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(PROGRAM).is_file())
    });
    ensure!(
        found,
        "there is no {PROGRAM}: install the package {PACKAGE} (`make bench` does)"
    );
    let query_output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Version}", PACKAGE])
        .output();
    Ok(query_output.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix() -> Mix {
        Mix {
            origin: String::new(),
            frames: vec![vec![0; 60]; 3],
        }
    }

    #[test]
    fn each_side_polls_on_its_own_core_and_waits_on_the_others() {
        let mix = mix();
        let windows = [Duration::ZERO; 2];
        let pair = TestpmdPair::new(
            Join::MemifZeroCopy,
            [4, 6],
            Path::new("/run/x"),
            windows,
            &mix,
        );
        let (near, far) = (pair.command(false), pair.command(true));
        assert!(
            near.contains("--lcores=0@6,1@4") && far.contains("--lcores=0@4,1@6"),
            "{near} {far}"
        );
        assert!(
            near.contains("role=client,zero-copy=yes") && near.contains("--single-file-segments")
        );
        assert!(far.contains("role=server") && !far.contains("--single-file-segments"));
        let vhost = TestpmdPair::new(Join::Vhost, [0, 1], Path::new("/run/x"), windows, &mix);
        assert!(
            vhost.command(false).contains("net_vhost0")
                && vhost.command(true).contains("net_virtio_user0")
        );
    }

    #[test]
    fn only_echoes_are_measured() {
        let mix = mix();
        let pair = TestpmdPair::new(
            Join::Memif,
            [0, 1],
            Path::new("/run/x"),
            [Duration::ZERO; 2],
            &mix,
        );
        let case = |test| Case {
            test,
            size: Size::Mix,
        };
        assert!(pair.takes(case(Test::Echo)) && !pair.takes(case(Test::OneWay)));
    }
}
