//! The systems to compare with: one list of names for every suite.

use anyhow::{Result, bail, ensure};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};

/// All that a suite knows.
pub const ALL: &str = "all";

/// No other system: only the Covalent sides run.
pub const NONE: &str = "none";

/// All systems that some suite measures, with a description. Each result states what a name means
/// in its suite, with version, tuning and command lines.
const NAMES: &[(&str, &str)] = &[
    (ALL, "every contestant of the suite"),
    (NONE, "no other system: Covalent alone"),
    ("udp", "kernel UDP, both ends asleep in the kernel"),
    ("udp-spin", "the same, both ends calling recv repeatedly"),
    ("udp-busy", "the same, the kernel polling the interface"),
    ("tcp", "kernel TCP, both ends asleep in the kernel"),
    ("tcp-spin", "the same, both ends calling recv repeatedly"),
    ("tcp-busy", "the same, the kernel polling the interface"),
    (
        "tcp-rto",
        "tcp with a shorter least time to a retransmission",
    ),
    (
        "rxe-cas",
        "a compare-and-swap over soft-RoCE, with perftest's timeout",
    ),
    (
        "rxe-cas-rto",
        "the same with the shortest timeout that helps",
    ),
    ("unix", "a Unix stream socket"),
    (
        "af_packet",
        "packet sockets of the kernel, both ends asleep; for rates its ring",
    ),
    (
        "af_packet-spin",
        "the same, both ends calling recv repeatedly",
    ),
    (
        "af_packet-busy",
        "the same, the kernel polling the interface",
    ),
    ("af_xdp", "a bare AF_XDP socket: the machine's limit"),
    ("af_xdp-unread", "the same, neither end reads a frame"),
    (
        "af_xdp-handed-over",
        "af_xdp that serves a second thread, as a lane serves an application",
    ),
    ("af_xdp-gathering", "the same, coalescing frames"),
    ("dpdk-af_xdp", "testpmd over net_af_xdp"),
    ("dpdk-af_xdp-looking", "the same, looking at each frame"),
    ("dpdk-af_xdp-busy", "testpmd over net_af_xdp, busy polling"),
    ("dpdk-af_packet", "testpmd over net_af_packet"),
    ("dpdk-memif", "two testpmds over memif"),
    ("dpdk-memif-zero-copy", "the same, zero-copy"),
    ("dpdk-vhost", "two testpmds over vhost and virtio_user"),
    ("ring", "a bare ring in shared memory: the machine's limit"),
    ("iceoryx2", "iceoryx2, publish and subscribe"),
    ("aeron", "Aeron IPC"),
    ("ucx", "UCX, posix and cma"),
    ("libfabric", "libfabric, provider shm"),
    (
        "redis",
        "INCR of Redis, one request of a connection in flight",
    ),
    ("redis-pipelined", "the same with 64 in flight"),
    (
        "redis-stream",
        "XADD to a stream of Redis with two replicas, 64 in flight",
    ),
    (
        "etcd",
        "writes to three members of etcd, by its own benchmark",
    ),
    (
        "records",
        "records that neither end reads: the port's limit",
    ),
    ("covalent-port", "ours: frames into an application's pipe"),
    ("covalent-pipe", "ours: a pipe with its session"),
    ("covalent-pipe-alone", "ours: a pipe alone"),
    (
        "covalent-message",
        "ours: a message to another node and back",
    ),
    ("covalent-echo", "ours: an application that echoes a pipe"),
    (
        "covalent-lane-cas",
        "ours: a compare-and-swap submitted in a lane's thread",
    ),
    (
        "covalent-lane-cas-to-daemon",
        "the same, answered by covalentd",
    ),
    ("covalent-cas", "ours: a compare-and-swap at another node"),
    ("covalent-cas-two-phase", "the same in two phases"),
    ("covalent-local-cas", "the same at the own node"),
    (
        "covalent-add",
        "ours: additions of an application at another node",
    ),
    (
        "covalent-multicast",
        "ours: messages in one order to all members of a group, all sending",
    ),
    ("covalent-multicast-one", "the same, one of them sending"),
    (
        "covalent-multicast-lone",
        "the same, one message in flight at a time",
    ),
    (
        "covalent-lane-add",
        "the same, submitted in the lane's thread",
    ),
];

/// The `--against` option.
#[derive(Debug, Clone, Args)]
pub struct Against {
    /// Systems to compare with. A name means the same in every suite. Covalent's sides always take
    /// part. If some of its sides are named, the other ones are left out. A name that this suite
    /// does not know is an error, which lists the known names.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME",
        default_value = ALL,
        value_parser = parser(),
    )]
    pub against: Vec<String>,
}

/// A side that can take part in a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// One of the list.
    pub name: &'static str,
    /// Covalent.
    pub is_ours: bool,
}

/// Accepts the names of the list.
pub fn parser() -> PossibleValuesParser {
    PossibleValuesParser::new(
        NAMES
            .iter()
            .map(|(name, what)| PossibleValue::new(*name).help(*what)),
    )
}

/// Returns the `candidates` of `suite` that `wanted` selects: the named systems, and all sides of
/// ours unless some are named.
///
/// # Errors
/// The suite does not know a name. The error lists the known names.
pub fn chosen(
    wanted: &[String],
    suite: &str,
    candidates: &[Candidate],
) -> Result<Vec<&'static str>> {
    let is_wanted = |name: &str| wanted.iter().any(|found| found == name);
    for name in wanted
        .iter()
        .filter(|name| ![ALL, NONE].contains(&name.as_str()))
    {
        if !candidates.iter().any(|known| known.name == name) {
            let known: Vec<_> = candidates.iter().map(|known| known.name).collect();
            bail!(
                "`{name}` takes no part in `{suite}`\n  cure: --against with some of {}, or {ALL}, \
                 or {NONE}",
                known.join(",")
            );
        }
    }
    ensure!(
        !(is_wanted(ALL) && is_wanted(NONE)),
        "--against with {ALL} and {NONE}: one of the two"
    );
    let ours_named = candidates
        .iter()
        .any(|known| known.is_ours && is_wanted(known.name));
    Ok(candidates
        .iter()
        .filter(|known| {
            is_wanted(known.name)
                || if known.is_ours {
                    !ours_named
                } else {
                    is_wanted(ALL)
                }
        })
        .map(|known| known.name)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANDIDATES: [Candidate; 4] = [
        Candidate {
            name: "covalent-cas",
            is_ours: true,
        },
        Candidate {
            name: "covalent-message",
            is_ours: true,
        },
        Candidate {
            name: "udp",
            is_ours: false,
        },
        Candidate {
            name: "tcp",
            is_ours: false,
        },
    ];

    fn of(wanted: &[&str]) -> Result<Vec<&'static str>> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        chosen(&wanted, "latency", &CANDIDATES)
    }

    #[test]
    fn ours_takes_part_beside_those_named_unless_some_of_it_is() {
        let names = |wanted: &[&str]| of(wanted).expect("known");
        assert_eq!(names(&["udp"]), ["covalent-cas", "covalent-message", "udp"]);
        assert_eq!(names(&["tcp", "covalent-cas"]), ["covalent-cas", "tcp"]);
        assert_eq!(names(&["all"]).len(), 4);
        assert_eq!(names(&["none"]), ["covalent-cas", "covalent-message"]);
        assert_eq!(names(&["none", "covalent-cas"]), ["covalent-cas"]);
        assert_eq!(names(&["covalent-cas"]), ["covalent-cas"]);
    }

    #[test]
    fn a_name_of_another_suite_is_refused_with_the_valid_names() {
        let problem = of(&["redis"]).expect_err("of another").to_string();
        assert!(
            problem.contains("`redis`")
                && problem.contains("covalent-cas,covalent-message,udp,tcp"),
            "{problem}"
        );
        of(&["all", "none"]).expect_err("both");
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<_> = NAMES.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }
}
