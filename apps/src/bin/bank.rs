//! `covalent-bank`: a bank in a shared region, and its clients.

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    io::{self, IsTerminal, Read, Stdin},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use covalent::{Rights, Target};
use covalent_apps::{
    bank::{REGION, audit, client::Plan, layout, run},
    device::{LaneArgs, SocketArgs},
    output::{self, Output, OutputArgs, count, time},
    stop::{POLL_INTERVAL, Stop},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout},
};
use serde::Serialize;

/// A bank in a region that clients on all nodes share: a counter, a pair of words behind a lock,
/// and accounts.
///
/// The host registers the region. Clients add to the counter (fetch-and-add), run sections under a
/// lock (compare-and-swap, read, write), and move money between accounts (multi-commit). In the end
/// every count and the sum of all accounts must be exact, whatever happened to the links.
///
/// Exit code: 0 if all checks passed, 1 if a check failed, 2 if it could not run.
#[derive(Debug, Parser)]
#[command(name = "covalent-bank", version)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Registers the bank's region and waits; prints the audit when stdin closes or on SIGINT or
    /// SIGTERM
    Host(HostArgs),
    /// Runs the jobs of a client and prints a report
    Client(ClientArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Example: covalent-bank host --accounts 64 --balance 1000 --format json")]
struct HostArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    lane: LaneArgs,
    /// Name of the region
    #[arg(long, default_value = REGION)]
    region: String,
    /// How many accounts
    #[arg(
        long,
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(
            i64::from(layout::ACCOUNTS_MIN)..=i64::from(layout::ACCOUNTS_MAX),
        ),
    )]
    accounts: u32,
    /// First balance of each account
    #[arg(
        long,
        default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(0..=layout::FIRST_BALANCE_MAX),
    )]
    balance: u64,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: covalent-bank client --node b --fetch-adds 250000 --transfers 20000 \
        --locks 500\n\n\
    The adds of all clients together happened exactly once if the bank's counter is the sum of \
    their delta_sum, its square the sum of their `squares` and its \
    cube that of their `cubes`, all modulo 2^64: then the intervals that the adds were handed tile \
    [0, counter)."
)]
struct ClientArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    lane: LaneArgs,
    /// The bank's node: a neighbor's name, the own name, or `local`
    #[arg(long)]
    node: String,
    /// Name of the region
    #[arg(long, default_value = REGION)]
    region: String,
    /// Additions to the counter
    #[arg(long, default_value_t = 100_000)]
    fetch_adds: u64,
    /// Transfers between two accounts
    #[arg(long, default_value_t = 10_000)]
    transfers: u64,
    /// Sections under the lock
    #[arg(long, default_value_t = 100)]
    locks: u64,
    /// Delta of each addition
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    delta: u64,
    /// Chooses accounts and amounts; the same seed makes the same choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Verbs in flight at a time
    #[arg(
        long,
        default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(
            1..=i64::from(covalent::VERBS_DEPTH_MAX),
        ),
    )]
    depth: u32,
    /// How long to wait for the bank to be there, in milliseconds
    #[arg(long, default_value_t = 10_000)]
    wait_ms: u64,
    /// How long to wait without any job done before giving up, in milliseconds
    #[arg(long, default_value_t = 60_000)]
    patience_ms: u64,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct HostReady<'a> {
    app: &'static str,
    node: &'a str,
    guid: String,
    region: &'a str,
    rkey: u32,
    accounts: u32,
    balance: u64,
}

#[derive(Serialize)]
struct HostReport {
    app: &'static str,
    #[serde(flatten)]
    audit: audit::Audit,
}

#[derive(Serialize)]
struct ClientReady<'a> {
    app: &'static str,
    node: &'a str,
    region: &'a str,
    accounts: u32,
}

fn main() -> ExitCode {
    let result = match Cli::parse().role {
        Role::Host(args) => host(&args),
        Role::Client(args) => client(&args),
    };
    output::exit("covalent-bank", result)
}

fn host(args: &HostArgs) -> Result<bool> {
    let stop = Stop::on_signals()?;
    let device = args
        .socket
        .attach_to_lane(args.lane, "covalent-bank host")?;
    let region = device.register_region(
        &args.region,
        layout::region_bytes(args.accounts),
        Rights::ALL,
    )?;
    audit::open(&region, args.accounts, args.balance)?;
    let output = Output::new(args.output);
    output.ready(&HostReady {
        app: "bank-host",
        node: &device.lane_name(),
        guid: device.address().to_string(),
        region: region.name(),
        rkey: region.rkey(),
        accounts: args.accounts,
        balance: args.balance,
    })?;
    let mut input = Input::new()?;
    while !stop.is_requested() && input.is_open()? {
        device.check_connection()?;
    }
    let audit = audit::audit(&region, args.accounts, args.balance)?;
    let ok = audit.ok;
    let rows = [
        ("counter", count(audit.counter)),
        (
            "lock",
            if audit.lock == 0 {
                "free".to_owned()
            } else {
                format!("held by {:#x}", audit.lock)
            },
        ),
        (
            "guarded pair",
            format!("{}, {}", count(audit.guarded[0]), count(audit.guarded[1])),
        ),
        ("accounts", count(audit.accounts.len() as u64)),
        ("sum of accounts", count(audit.accounts_sum)),
        ("expected", count(audit.accounts_sum_expected)),
    ];
    output.report(
        &HostReport {
            app: "bank-host",
            audit,
        },
        &rows,
    )?;
    Ok(ok)
}

/// The stdin of the host, whose end of file stops the host. Only a terminal, a pipe or a socket
/// counts: the end of a file or of `/dev/null` has no meaning.
struct Input {
    stdin: Stdin,
    is_watched: bool,
}

impl Input {
    fn new() -> Result<Self> {
        let stdin = io::stdin();
        // A duplicate descriptor: the `File` that queries the type closes it.
        let fd: OwnedFd = stdin.as_fd().try_clone_to_owned().context("stdin")?;
        let kind = File::from(fd).metadata().context("stdin")?.file_type();
        let is_watched = stdin.is_terminal() || kind.is_fifo() || kind.is_socket();
        Ok(Self { stdin, is_watched })
    }

    /// Waits a little; returns whether stdin is still open.
    fn is_open(&mut self) -> Result<bool> {
        if !self.is_watched {
            thread::sleep(POLL_INTERVAL);
            return Ok(true);
        }
        let timeout = PollTimeout::try_from(POLL_INTERVAL).context("poll")?;
        let mut fds = [PollFd::new(self.stdin.as_fd(), PollFlags::POLLIN)];
        match nix::poll::poll(&mut fds, timeout) {
            Ok(0) | Err(Errno::EINTR) => Ok(true),
            Ok(_) => {
                // The content has no meaning: only the end of file counts.
                let mut ignored = [0; 256];
                Ok(self.stdin.lock().read(&mut ignored).context("stdin")? > 0)
            }
            Err(errno) => Err(errno).context("stdin"),
        }
    }
}

fn client(args: &ClientArgs) -> Result<bool> {
    ensure!(
        args.fetch_adds > 0 || args.transfers > 0 || args.locks > 0,
        "there is nothing to do"
    );
    let stop = Stop::on_signals()?;
    let device = args
        .socket
        .attach_to_lane(args.lane, "covalent-bank client")?;
    let mut verbs = device.verbs_with_depth(args.depth)?;
    let target = if args.node == "local" {
        Target::Local
    } else {
        Target::Name(&args.node)
    };
    let deadline = Instant::now() + Duration::from_millis(args.wait_ms);
    let bank = run::find(&mut verbs, target, &args.region, deadline, &stop)?;
    let mut output = Output::new(args.output);
    let ready = ClientReady {
        app: "bank-client",
        node: &args.node,
        region: &args.region,
        accounts: bank.accounts,
    };
    output.ready(&ready)?;
    let plan = Plan {
        fetch_adds: args.fetch_adds,
        transfers: args.transfers,
        locks: args.locks,
        delta: args.delta,
        depth: args.depth,
        seed: args.seed,
        holder: holder(),
    };
    let work = run::Work {
        bank: &bank,
        stop: &stop,
        patience: Duration::from_millis(args.patience_ms),
    };
    let report = run::run(&mut verbs, plan, &work, &mut output)?;
    output.report(&report, &rows(&report))?;
    Ok(report.ok)
}

/// Returns a number for the lock's word that is not zero and that no other client has. The standard
/// library seeds its hasher from the system.
fn holder() -> u64 {
    RandomState::new().hash_one(std::process::id()) | 1
}

fn rows(report: &run::Report) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("fetch-and-adds", count(report.done.fetch_adds)),
        ("transfers", count(report.done.transfers)),
        ("locked sections", count(report.done.locks)),
        ("sum added", count(report.digest.delta_sum)),
        ("handed out twice", count(report.digest.overlaps)),
        ("verbs", count(report.verbs)),
        ("verbs/s", count(report.verbs_per_s as u64)),
        (
            "round trip p50, p99",
            format!("{}, {}", time(report.rtt_p50_ns), time(report.rtt_p99_ns)),
        ),
        ("longest gap", time(report.longest_gap_ns)),
        (
            "retries: accounts changed",
            count(report.retries.transfer_changed),
        ),
        ("retries: lock taken", count(report.retries.lock_taken)),
        ("retries: no room", count(report.retries.no_resources)),
        ("retries: busy", count(report.retries.busy)),
        ("times in doubt", count(report.in_doubt_seen)),
        (
            "all work done",
            if report.complete { "yes" } else { "no" }.to_owned(),
        ),
    ];
    for problem in &report.problems {
        rows.push(("problem", problem.clone()));
    }
    rows
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_roles_need_no_socket_as_the_other_programs() {
        for words in ["host", "client --node b"] {
            let words = format!("covalent-bank {words}");
            assert!(Cli::try_parse_from(words.split(' ')).is_ok(), "{words}");
        }
    }
}
