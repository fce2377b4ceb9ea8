//! Compare-and-swap over soft-RoCE, the kernel's software RDMA device on an Ethernet interface. It
//! waits for an acknowledgment and retransmits after a timeout.
//!
//! ```text
//!   client (near core) ─► libibverbs ─► rdma_rxe, UDP, IP ─► cable ─► UDP, IP, rdma_rxe, and back
//! ```
//! The client is one thread; at the far end the kernel replies. The cable is the one that all sides
//! share in turn. Kernels before 6.14 support soft-RoCE only in their initial network namespace.
//! Both ends therefore move there during this side's turn and move back afterwards. Frames still
//! cross the cable: the device binds its packets to its interface, which overrides the host's route
//! to its own address.

use std::{
    fs,
    io::{self, Write as _},
    net::Ipv4Addr,
    process::Command,
    thread,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    drive::{Client, Clock, IN_FLIGHT_MAX, Repeat},
    peer::{Load, Medium, Peer, Scene},
    rxe_pair::{ABSENT, Pair, Polled, Retry},
    sockets::give_addresses,
};
use crate::{
    beside::join,
    cores::pin,
    host::Host,
    report::Description,
    stage::{Namespace, Stage, ip},
};

/// RDMA devices at the near and the far end.
const DEVICES: [&str; 2] = ["rxe_near", "rxe_far"];

/// Interfaces of both ends, and their addresses while this side has its turn.
const ENDS: [(&str, Ipv4Addr); 2] = [
    ("a0", Ipv4Addr::new(10, 88, 0, 1)),
    ("b0", Ipv4Addr::new(10, 88, 0, 2)),
];

/// perftest's defaults.
const PERFTESTS: Retry = Retry {
    timeout: 14,
    count: 7,
};

/// The shortest useful timeout: 4.2 ms, about one tick of the kernel's clock. soft-RoCE does not go
/// below it.
const SHORT: Retry = Retry {
    timeout: 10,
    count: 7,
};

/// One of them.
struct Rxe {
    name: &'static str,
    retry: Retry,
}

/// All of them.
pub fn peers() -> Vec<Box<dyn Peer>> {
    [("rxe-cas", PERFTESTS), ("rxe-cas-rto", SHORT)]
        .into_iter()
        .map(|(name, retry)| Box::new(Rxe { name, retry }) as Box<dyn Peer>)
        .collect()
}

impl Peer for Rxe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        Medium::Wire
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        if let Some(reason) = ABSENT {
            bail!("{reason}");
        }
        let turn = Turn::begin(scene.stage()?)?;
        let _ = Pair::open(DEVICES, 1, self.retry)?;
        drop(turn);
        Ok(Description {
            what: "compare-and-swap of 8 bytes over soft-RoCE, a reliable connection of RoCE v2"
                .to_owned(),
            version: format!("Linux {}, rdma_rxe", Host::observed().kernel),
            tuning: format!(
                "polls its completion queue, as ib_atomic_lat does; the timeout of an \
                 acknowledgment is {:.1} ms or more, with {} retries{}; a connection that then \
                 breaks is replaced, and its requests in flight are lost",
                self.retry.timeout_ms(),
                self.retry.count,
                if self.retry == PERFTESTS {
                    " (perftest's own settings)"
                } else {
                    ""
                }
            ),
            commands: Vec::new(),
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        (load.bytes != 8).then(|| "a compare-and-swap is of 8 bytes".to_owned())
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        let _turn = Turn::begin(scene.stage()?)?;
        // In a thread of its own, for it is pinned.
        thread::scope(|threads| {
            join(threads.spawn(|| {
                pin(scene.cores.near)?;
                load.measure(&mut Swaps {
                    pair: Pair::open(DEVICES, IN_FLIGHT_MAX as u32, self.retry)?,
                    words: vec![0; IN_FLIGHT_MAX],
                    broken: 0,
                    odd: None,
                })
            }))
        })
    }
}

/// Swaps a word of its own for one that is larger by 1, for each request, as our side does.
struct Swaps {
    pair: Pair,
    words: Vec<u64>,
    /// How often the connection broke. After a break it is unknown which swaps in flight were
    /// executed.
    broken: u64,
    /// The first word that was not as it had been left.
    odd: Option<String>,
}

impl Client for Swaps {
    fn send(&mut self, number: u64) -> Result<bool> {
        let word = self.words[number as usize % IN_FLIGHT_MAX];
        self.pair.swap(number, word, word + 1)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        let Self {
            pair,
            words,
            broken,
            odd,
        } = self;
        let observed = pair.poll(|swapped| {
            let word = &mut words[swapped.number as usize % IN_FLIGHT_MAX];
            if swapped.found == *word {
                *word += 1;
            } else {
                // After a break this is legal: a swap whose completion was lost was executed.
                if *broken == 0 {
                    odd.get_or_insert_with(|| {
                        format!(
                            "a word was {}, expected {word} from the previous verb",
                            swapped.found
                        )
                    });
                }
                *word = swapped.found;
            }
            answered(swapped.number);
        });
        if observed == Polled::Broken {
            *broken += 1;
            pair.reconnect()?;
        }
        ensure!(odd.is_none(), "{}", odd.as_deref().unwrap_or_default());
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        std::hint::spin_loop();
        Ok(())
    }
}

/// Both ends of the cable in the calling thread's namespace, with addresses and RDMA devices.
/// Undone on drop.
struct Turn<'a> {
    stage: &'a Stage,
}

impl<'a> Turn<'a> {
    fn begin(stage: &'a Stage) -> Result<Self> {
        let home = Namespace::current()?;
        // From here on, dropping `turn` undoes all changes.
        let turn = Self { stage };
        for (namespace, (interface, _)) in [&stage.a, &stage.b].into_iter().zip(ENDS) {
            namespace.within(|| ip(&["link", "set", interface, "netns", &home.path()]))?;
        }
        let macs = [address_of(ENDS[0].0)?, address_of(ENDS[1].0)?];
        for (at, (interface, address)) in ENDS.into_iter().enumerate() {
            let (_, other) = ENDS[1 - at];
            let (address, other) = (address.to_string(), other.to_string());
            // The other end's address also belongs to this host: by default the kernel drops frames
            // from it as forged.
            for (key, value) in [("accept_local", "1"), ("rp_filter", "0")] {
                let path = format!("/proc/sys/net/ipv4/conf/{interface}/{key}");
                fs::write(&path, value).with_context(|| format!("writing {path}"))?;
            }
            ip(&["link", "set", interface, "up"])?;
            ip(&["addr", "add", &format!("{address}/32"), "dev", interface])?;
            ip(&["route", "add", &other, "dev", interface])?;
            let neighbor = ["neigh", "replace", &other, "lladdr", &macs[1 - at]];
            ip(&[&neighbor[..], &["dev", interface, "nud", "permanent"]].concat())?;
        }
        for (device, (interface, _)) in DEVICES.into_iter().zip(ENDS) {
            rdma(&["link", "add", device, "type", "rxe", "netdev", interface])
                .context("cure: a kernel with soft-RoCE: modprobe rdma_rxe ib_uverbs")?;
        }
        Ok(turn)
    }

    fn end(&self) -> Result<()> {
        for device in DEVICES {
            // One that was never made is not there to be deleted.
            let _ = rdma(&["link", "delete", device]);
        }
        for (namespace, (interface, _)) in [&self.stage.a, &self.stage.b].into_iter().zip(ENDS) {
            if fs::exists(format!("/sys/class/net/{interface}")).unwrap_or(false) {
                ip(&["link", "set", interface, "netns", &namespace.path()])?;
                namespace.within(|| ip(&["link", "set", interface, "up"]))?;
            }
        }
        // They went with the interfaces' leaving.
        give_addresses(self.stage)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Err(problem) = self.end() {
            let _ = writeln!(
                io::stderr(),
                "covalent-bench: the cable is not as it was before soft-RoCE: {problem:#}"
            );
        }
    }
}

fn address_of(interface: &str) -> Result<String> {
    let path = format!("/sys/class/net/{interface}/address");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    Ok(text.trim().to_owned())
}

/// Runs `rdma` of iproute2.
fn rdma(arguments: &[&str]) -> Result<()> {
    let output = Command::new("rdma")
        .args(arguments)
        .output()
        .context("running `rdma` (Debian package iproute2)")?;
    ensure!(
        output.status.success(),
        "rdma {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_timeout_is_a_tick_and_perftests_the_default() {
        assert!((PERFTESTS.timeout_ms() - 67.1).abs() < 0.1);
        assert!((SHORT.timeout_ms() - 4.2).abs() < 0.1);
    }
}
