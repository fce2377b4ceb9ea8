//! `covalent-registers`: registers that a group keeps, and clients of theirs.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, Subcommand};
use covalent::{GroupOptions, MEMBERS_MAX};
use covalent_apps::{
    device::{LaneArgs, SocketArgs},
    output::{self, Output, OutputArgs, count},
    registers::{
        check,
        history::Operation,
        machine::{Answer, KEY_BYTES_MAX, Op, VALUE_BYTES_MAX},
        requester::{Node, Requester},
        serve::{self, Counts, News},
        torture::{self, Plan},
    },
    stop::Stop,
};
use serde::Serialize;

/// Registers that a group of servers replicates, one server on each node. They stay linearizable
/// whichever server dies.
///
/// Every server has all registers. A server multicasts each request to the group. All servers apply
/// the delivered commands in one order, and the server that received the request replies. The reply
/// reflects a point in time between request and reply, whichever server sent it. Reads are no
/// exception: a server that is cut off returns no reply instead of a stale one. A client without a
/// reply sends the same command to another server, and the command executes once. The registers
/// survive as long as more than half of the servers that have them survive, or half with the
/// oldest. They are in memory only.
///
/// Exit code: 0 if the command succeeded, 1 if a check failed or a `cas` found another value, 2 if
/// it could not run.
#[derive(Debug, Parser)]
#[command(name = "covalent-registers", version)]
struct Cli {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serves until SIGINT or SIGTERM, then leaves the group
    Serve(ServeArgs),
    /// Prints the value of a register
    Get(GetArgs),
    /// Sets a register
    Put(PutArgs),
    /// Sets a register if it has a certain value: compare-and-swap
    Cas(CasArgs),
    /// Runs many clients against the registers for a while, and checks that their history is
    /// linearizable
    Torture(TortureArgs),
}

#[derive(Debug, Args)]
struct GroupArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    lane: LaneArgs,
    /// Name of the group: 1 to 30 letters, digits, `-`, `_` and `.`
    #[arg(long, default_value = "registers")]
    group: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example, on three nodes that are cabled to each other:\n\n  covalent-registers \
        serve --founders 3\n\n\
    The three found the group. A server that is started later, without --founders, joins it and \
    gets the registers."
)]
struct ServeArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// Number of servers that found the group if there is none: the number of servers with this
    /// option. 0: only joins
    #[arg(
        long,
        default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=MEMBERS_MAX as i64),
    )]
    founders: u8,
    /// Maximum number of servers: the same at all servers
    #[arg(
        long,
        default_value_t = 8,
        value_parser = clap::value_parser!(u8).range(2..=MEMBERS_MAX as i64),
    )]
    servers_max: u8,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct ClientArgs {
    #[command(flatten)]
    group: GroupArgs,
    /// Nodes whose servers the client uses: names of neighbors, or `local`. Default: all neighbors
    /// and the own node
    #[arg(long = "node")]
    nodes: Vec<String>,
    /// How long to wait for one server before the next one is tried, in milliseconds
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    patience_ms: u64,
    /// How long to wait for an answer in all, in milliseconds
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: covalent-registers get leader")]
struct GetArgs {
    /// The register: 1 to 32 bytes
    key: String,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example: covalent-registers put leader node-a")]
struct PutArgs {
    /// The register: 1 to 32 bytes
    key: String,
    /// The value: 0 to 256 bytes
    value: String,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  covalent-registers cas leader --unset node-a\n  covalent-registers \
        cas leader --expected node-a node-b"
)]
struct CasArgs {
    /// The register: 1 to 32 bytes
    key: String,
    /// The new value: 0 to 256 bytes
    new: String,
    /// The expected value
    #[arg(long, required_unless_present = "unset", conflicts_with = "unset")]
    expected: Option<String>,
    /// It must never have been set
    #[arg(long)]
    unset: bool,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example: covalent-registers torture --clients 4 --seconds 10\n\n\
    Kill servers and cut cables meanwhile: while a quorum of servers runs, the clients continue, \
    and the results that they receive stay linearizable. All clients run in this process, so that \
    their histories have one clock."
)]
struct TortureArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// How many clients
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Registers at a time; the fewer, the more clients meet at one
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    registers: u64,
    /// How long
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Seed of the operations. The same seed chooses the same operations as long as the replies are
    /// the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
struct ServeReady<'a> {
    app: &'static str,
    group: &'a str,
    node: String,
}

#[derive(Serialize)]
struct ServeReport<'a> {
    app: &'static str,
    #[serde(flatten)]
    counts: &'a Counts,
}

#[derive(Serialize)]
struct AnswerReport {
    app: &'static str,
    ok: bool,
    /// The value of the register. Absent if it was never set, or if the command does not return it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Serialize)]
struct TortureReport {
    app: &'static str,
    ok: bool,
    operations: usize,
    answered: usize,
    unanswered: usize,
    /// The first register whose history is not linearizable.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

fn main() -> ExitCode {
    let result = match Cli::parse().role {
        Role::Serve(args) => serve(&args),
        Role::Get(GetArgs { key, client }) => one(&client, Op::Get { key: key.into() }),
        Role::Put(PutArgs { key, value, client }) => one(
            &client,
            Op::Put {
                key: key.into(),
                value: value.into(),
            },
        ),
        Role::Cas(args) => one(
            &args.client,
            Op::Cas {
                key: args.key.into(),
                expected: args.expected.map(String::into_bytes),
                new: args.new.into(),
            },
        ),
        Role::Torture(args) => torture(&args),
    };
    output::exit("covalent-registers", result)
}

fn serve(args: &ServeArgs) -> Result<bool> {
    let stop = Stop::on_signals()?;
    let group = &args.group;
    let device = group
        .socket
        .attach_to_lane(group.lane, "covalent-registers serve")?;
    let options = GroupOptions::new()
        .founders(args.founders)
        .members_max(args.servers_max);
    let output = Output::new(args.output);
    let ready = ServeReady {
        app: "registers-server",
        group: &group.group,
        node: device.lane_name(),
    };
    let mut is_ready = false;
    let counts = serve::serve(&device, &group.group, options, &stop, &mut |news| {
        if matches!(news, News::Serving { .. }) && !std::mem::replace(&mut is_ready, true) {
            output.ready(&ready)?;
        }
        output.news(&news, &text_of(&news))?;
        Ok(())
    })?;
    let rows = [
        ("requests", count(counts.requests)),
        ("commands done", count(counts.delivered)),
        ("answers", count(counts.answers)),
        ("registers given to others", count(counts.states_given)),
        ("views", count(counts.views)),
    ];
    let report = ServeReport {
        app: "registers-server",
        counts: &counts,
    };
    output.report(&report, &rows)?;
    Ok(true)
}

fn text_of(news: &News) -> String {
    match news {
        News::View {
            number,
            members,
            voters,
        } => format!("view {number}: {members} servers, {voters} with the registers"),
        News::Serving { registers } => format!("serving {registers} registers"),
        News::Stopped { why } => format!("stopped: {why}"),
        News::Rejoins => "joins again".to_owned(),
    }
}

impl ClientArgs {
    fn nodes(&self) -> Vec<Node> {
        let node = |name: &String| match name.as_str() {
            "local" => Node::Own,
            name => Node::Named(name.to_owned()),
        };
        self.nodes.iter().map(node).collect()
    }
}

fn one(args: &ClientArgs, op: Op) -> Result<bool> {
    check_sizes(&op)?;
    let device = args
        .group
        .socket
        .attach_to_lane(args.group.lane, "covalent-registers")?;
    let patience = Duration::from_millis(args.patience_ms);
    let deadline = Instant::now() + Duration::from_millis(args.timeout_ms);
    let mut requester = Requester::new(&device, &args.group.group, &args.nodes(), patience)?;
    let group = &args.group.group;
    ensure!(
        requester.open(deadline)?,
        "no server of group `{group}` answered within {} ms: nothing was done. Is one running on \
         this node or a neighbor?",
        args.timeout_ms
    );
    let answer = requester.execute(op, deadline)?;
    let (ok, value) = match answer {
        Some(Answer::Done) => (true, None),
        Some(Answer::Value(value)) => (true, value),
        Some(Answer::Differs(value)) => (false, value),
        Some(Answer::NoRoom) => bail!("there are as many registers as there can be"),
        Some(Answer::Forgotten) | None => bail!(
            "no server of group `{group}` answered within {} ms: it may be done, or not",
            args.timeout_ms
        ),
    };
    let value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
    let output = Output::new(args.output);
    let shown = value.clone().unwrap_or_else(|| "(never set)".to_owned());
    let rows: &[(&str, String)] = &[
        ("done", if ok { "yes" } else { "no" }.to_owned()),
        ("value", shown),
    ];
    let app = "registers-client";
    output.report(&AnswerReport { app, ok, value }, rows)?;
    Ok(ok)
}

fn check_sizes(op: &Op) -> Result<()> {
    let (key, values) = match op {
        Op::Open => return Ok(()),
        Op::Get { key } => (key, vec![]),
        Op::Put { key, value } => (key, vec![value]),
        Op::Cas { key, expected, new } => (key, expected.iter().chain([new]).collect()),
    };
    ensure!(
        (1..=KEY_BYTES_MAX).contains(&key.len()),
        "a key of {} bytes: expected 1 to {KEY_BYTES_MAX}",
        key.len()
    );
    for value in values {
        ensure!(
            value.len() <= VALUE_BYTES_MAX,
            "a value of {} bytes: expected at most {VALUE_BYTES_MAX}",
            value.len()
        );
    }
    Ok(())
}

fn torture(args: &TortureArgs) -> Result<bool> {
    let stop = Stop::on_signals()?;
    let client = &args.client;
    let sockets: Vec<PathBuf> = vec![client.group.socket.path()?; args.clients as usize];
    ensure!(
        client.group.lane.lane == 0,
        "`torture` runs its clients on lane 0 only: omit `--lane`"
    );
    let plan = Plan {
        group: client.group.group.clone(),
        sockets,
        nodes: client.nodes(),
        registers: args.registers,
        duration: Duration::from_secs(args.seconds),
        patience: Duration::from_millis(client.patience_ms),
        give_up: Duration::from_millis(client.timeout_ms),
        seed: args.seed,
    };
    let history = torture::torture(&plan, &stop).context("torture")?;
    let answered = history
        .iter()
        .filter(|one| one.reported().is_some())
        .count();
    ensure!(
        answered > 0,
        "no server of group `{}` answered: start some with `covalent-registers serve`",
        plan.group
    );
    report(&Output::new(client.output), &history, answered)
}

fn report(output: &Output, history: &[Operation], answered: usize) -> Result<bool> {
    let broken = check::broken(history).map(|key| String::from_utf8_lossy(&key).into_owned());
    let verdict = match &broken {
        None => "yes".to_owned(),
        Some(key) => format!("NO: register `{key}`"),
    };
    let rows = [
        ("operations", count(history.len() as u64)),
        ("answered", count(answered as u64)),
        (
            "without an answer",
            count((history.len() - answered) as u64),
        ),
        ("linearizable", verdict),
    ];
    let ok = broken.is_none();
    let report = TortureReport {
        app: "registers-torture",
        ok,
        operations: history.len(),
        answered,
        unanswered: history.len() - answered,
        broken,
    };
    output.report(&report, &rows)?;
    Ok(ok)
}
