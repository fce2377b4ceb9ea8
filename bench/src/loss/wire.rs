//! A cable that loses the frames of all sides alike.
//!
//! ```text
//!   a: a0 ══ veth ══ m0 ─► nftables: lose some, pass the others ─► m1 ══ veth ══ b0 :b   and back
//! ```
//! The rules are attached to the ingress of the two middle interfaces, before the kernel parses any
//! protocol. TCP frames and link frames are lost with the same probability, and the kernel counts
//! the losses. The ends get no notification.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    interfaces::Interfaces,
    stage::{Namespace, Stage},
};

/// Scale of the loss probability: parts per million.
pub const MILLION: u32 = 1_000_000;

/// Interfaces in the middle: towards a, and towards b.
const MIDDLE: [&str; 2] = ["m0", "m1"];

/// Counters of the frames lost in each direction.
const COUNTERS: [&str; 2] = ["lost_there", "lost_back"];

/// Two namespaces, and the one between them.
pub struct LossyWire {
    /// The ends, as every measurement on a cable knows them.
    pub ends: Stage,
    middle: Namespace,
    interfaces: Interfaces,
}

/// The behavior of the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Each frame is lost with a chance of so many in a million, each way.
    Loses(u32),
    /// Every frame is.
    Silent,
}

impl LossyWire {
    /// Builds the cable without losses.
    ///
    /// # Errors
    /// `nft` is missing, or the kernel lacks a feature that the rules need.
    pub fn build() -> Result<Self> {
        let (ends, middle) = Stage::build_with_middle(MIDDLE)?;
        let interfaces = Interfaces::open(&middle, &MIDDLE)?;
        let wire = Self {
            ends,
            middle,
            interfaces,
        };
        wire.nft(&tables())?;
        wire.set(Condition::Loses(0))?;
        Ok(wire)
    }

    /// Has it do so from now on: for frames that come when this has returned.
    pub fn set(&self, condition: Condition) -> Result<()> {
        self.nft(&rules(condition))
    }

    /// Takes the carrier of both ends away, or gives it back.
    pub fn set_carrier(&self, up: bool) -> Result<()> {
        (0..MIDDLE.len()).try_for_each(|at| self.interfaces.set(at, up))
    }

    /// Frames that were lost there and back since it was built.
    pub fn lost_frames(&self) -> Result<[u64; 2]> {
        let output = self.middle.within(|| {
            Command::new("nft")
                .args(["list", "counters"])
                .output()
                .context("running `nft`")
        })?;
        ensure!(
            output.status.success(),
            "nft list counters: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let text = String::from_utf8_lossy(&output.stdout);
        let of = |name| {
            packets_of(&text, name)
                .with_context(|| format!("nft printed no counter {name}: {text}"))
        };
        Ok([of(COUNTERS[0])?, of(COUNTERS[1])?])
    }

    fn nft(&self, script: &str) -> Result<()> {
        self.middle.within(|| {
            let mut child = Command::new("nft")
                .args(["-f", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .context("running `nft`\n  cure: apt-get install nftables")?;
            if let Some(mut input) = child.stdin.take() {
                input
                    .write_all(script.as_bytes())
                    .context("sending the rules to nft")?;
            }
            let output = child.wait_with_output().context("waiting for nft")?;
            if !output.status.success() {
                bail!(
                    "nft refuses the rules that lose frames: {}\n  cure: a kernel with \
                     NF_TABLES_NETDEV, NFT_NUMGEN and NFT_FWD_NETDEV",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
            }
            Ok(())
        })
    }
}

/// The chains, one for each way.
fn tables() -> String {
    let mut out = "table netdev wire {\n".to_owned();
    for counter in COUNTERS {
        out += &format!("  counter {counter} {{}}\n");
    }
    for (chain, interface) in ["there", "back"].into_iter().zip(MIDDLE) {
        out += &format!(
            "  chain {chain} {{ type filter hook ingress device \"{interface}\" priority 0; }}\n"
        );
    }
    out + "}\n"
}

/// The rules of a condition, put in the place of those before in one step.
fn rules(condition: Condition) -> String {
    let mut out = String::new();
    for (at, chain) in ["there", "back"].into_iter().enumerate() {
        let (counter, towards) = (COUNTERS[at], MIDDLE[1 - at]);
        out += &format!("flush chain netdev wire {chain}\n");
        let lost = match condition {
            Condition::Loses(0) => String::new(),
            Condition::Loses(parts) => format!("numgen random mod {MILLION} < {parts} "),
            Condition::Silent => " ".to_owned(),
        };
        if !lost.is_empty() {
            out += &format!("add rule netdev wire {chain} {lost}counter name {counter} drop\n");
        }
        out += &format!("add rule netdev wire {chain} fwd to \"{towards}\"\n");
    }
    out
}

/// Returns the packet count of a counter in the output of `nft list counters`.
fn packets_of(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("counter {name} "))?;
    let (_, rest) = rest.split_once("packets ")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, time::Duration};

    use super::*;
    use crate::latency;

    #[test]
    fn rules_lose_count_and_pass_on() {
        let rules = rules(Condition::Loses(100));
        assert!(
            rules.contains(
                "add rule netdev wire there numgen random mod 1000000 < 100 counter \
                name lost_there drop\nadd rule netdev wire there fwd to \"m1\""
            ),
            "{rules}"
        );
        assert!(
            rules.contains("add rule netdev wire back fwd to \"m0\""),
            "{rules}"
        );
        assert!(!super::rules(Condition::Loses(0)).contains("drop"));
    }

    #[test]
    fn counters_are_read() {
        let text = "table netdev wire {\n\tcounter lost_there {\n\t\tpackets 38 bytes 1210\n\t}\n\tcounter lost_back {\n\t\tpackets 0 bytes 0\n\t}\n}\n";
        assert_eq!(packets_of(text, "lost_there"), Some(38));
        assert_eq!(packets_of(text, "lost_back"), Some(0));
        assert_eq!(packets_of(text, "lost"), None);
    }

    #[test]
    fn the_cable_loses_exactly_the_frames_that_it_counts() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: making network namespaces needs root");
            return;
        }
        if Command::new("nft").arg("--version").output().is_err() {
            eprintln!("skipped: there is no nft (Debian package nftables)");
            return;
        }
        let wire = LossyWire::build().expect("a wire");
        latency::give_addresses(&wire.ends).expect("addresses");
        let server = wire
            .ends
            .b
            .within(|| Ok(UdpSocket::bind("10.87.0.2:9")?))
            .expect("bound");
        let client = wire
            .ends
            .a
            .within(|| Ok(UdpSocket::bind("10.87.0.1:0")?))
            .expect("bound");
        client.connect("10.87.0.2:9").expect("connected");
        server
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("reported");
        let arrived = |count: u32| {
            let mut buffer = [0; 64];
            for _ in 0..count {
                client.send(b"request").expect("sent");
            }
            (0..count)
                .take_while(|_| server.recv(&mut buffer).is_ok())
                .count() as u64
        };
        let lost = || wire.lost_frames().expect("reported")[0];
        assert_eq!((arrived(100), lost()), (100, 0));
        wire.set(Condition::Loses(MILLION / 5)).expect("reported");
        let came = arrived(200);
        assert_eq!(came + lost(), 200);
        assert!((100..198).contains(&came), "{came}");
        let before = lost();
        wire.set(Condition::Silent).expect("reported");
        assert_eq!(arrived(10), 0);
        assert!(lost() >= before + 10);
    }
}
