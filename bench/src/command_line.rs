//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{
    arguments::{Atomics, Exchanges, Failover, Page, Restart, Streams, Wire},
    latency::Latency,
    loss::Loss,
    multicast::Multicast,
    perftest::Perftest,
    rate::Rate,
    telemetry::{Counters, Scrape},
};

/// Measures Covalent against other systems on the same machine, in turn, in one run.
///
/// It cleans up after itself, also when SIGINT, SIGTERM or SIGHUP ends it, or its terminal or pipe
/// is closed. Exit status: 0 every goal is met; 1 a goal is missed or Covalent failed; 2 the
/// measurement could not be made; 128 plus the signal number if a signal ended it.
#[derive(Debug, Parser)]
#[command(
    name = "covalent-bench",
    version,
    after_help = "Examples:\n  \
        sudo covalent-bench latency --against udp,tcp-busy --rate 20000 --spread-max 0.05\n  \
        sudo covalent-bench rate --against af_packet,dpdk-af_xdp --results bench/results\n  \
        sudo covalent-bench streams --against dpdk-memif,ring --tests echo,one-way\n  \
        sudo covalent-bench atomics --against redis --repeats-max 100 --spread-max 0.02\n  \
        sudo covalent-bench multicast --against etcd,redis-stream --members 4\n  \
        sudo covalent-bench failover --against tcp --format json\n  \
        covalent-bench page bench/results --out performance.md"
)]
pub struct Arguments {
    /// The subcommand.
    #[command(subcommand)]
    pub action: Action,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Round-trip times of requests sent on a fixed schedule, in perftest's columns, beside UDP,
    /// TCP and others (as root).
    Latency(Latency),
    /// Frames per second that one lane receives into an application's pipe, beside bare AF_XDP,
    /// DPDK and AF_PACKET (as root).
    Rate(Rate),
    /// Packets and messages through pipes between two processes, beside DPDK's memif and vhost,
    /// iceoryx2, Aeron, UCX, libfabric, sockets and a bare ring.
    Streams(Streams),
    /// Atomic additions per second to a counter at another node. Goal: at least 5 times the rate of
    /// Redis' INCR, pipelined (as root).
    Atomics(Atomics),
    /// Totally ordered messages to all members of a group. Goals: at least 1 M deliveries per
    /// second in a group of 4, and 10 times the writes of etcd (as root).
    Multicast(Multicast),
    /// Links that are cut under load. Goal: p99 below 1 ms from the cut to the first completion
    /// over the other link. Compares with TCP on a cable that is cut (as root).
    Failover(Failover),
    /// Round trips and recovery on one cable that loses frames and is cut, beside TCP (as root).
    Loss(Loss),
    /// Reads perftest output from your own hardware and prints it in the same columns as our
    /// results.
    Perftest(Perftest),
    /// Additions to 8 bytes over one link on an in-memory cable. Goals: at least 10 M/s in one
    /// phase and 6 M/s in two.
    Exchanges(Exchanges),
    /// System calls that lanes make for an application's verbs, counted by strace. Goal: none
    /// except a port's doorbell and yielding the core (as root).
    SystemCalls(Wire),
    /// Two linked daemons with nothing to do: below 2 % of a core and 100 MiB each (as root).
    Idle(Wire),
    /// Daemons that are restarted under load: the gap that their clients see, and whether each
    /// addition ran exactly as often as reported to its client (as root).
    Restart(Restart),
    /// Frames that a lane moves with counters in shared memory and without: at least 0.99 of them.
    Counters(Counters),
    /// Scrapes of /metrics of a node with 1000 pipes: below 20 ms, without asking a lane.
    Scrape(Scrape),
    /// Writes docs/performance.md and its plots from the results of all measurements.
    Page(Page),
    /// One of the members that `multicast` starts. It receives its instructions on standard input.
    #[command(hide = true)]
    Member,
    /// One of the processes that `streams` and `latency` start.
    #[command(hide = true)]
    Role {
        /// Where the measurement listens.
        socket: PathBuf,
    },
}
