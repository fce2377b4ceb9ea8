//! A group of processes, each with its own daemon. An in-memory cable joins every pair of daemons.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    member::now_ns,
    options::Multicast,
    task::{Begin, Mode, Reached, Report, Task},
};
use crate::{
    ends_with_this::ends_with_this,
    node::{Node, Plan},
    stage::Namespace,
    stop,
};

/// From the start of the group to the start of counting.
const WARM_UP: Duration = Duration::from_millis(300);

/// The result of one slice.
#[derive(Debug)]
pub struct Slice {
    /// Messages a second that each member delivered.
    pub messages_per_s: f64,
    /// Of all members together.
    pub deliveries_per_s: f64,
    /// Messages in a batch.
    pub messages_per_batch: f64,
    /// From a message to its delivery at its sender, if one was sent at a time.
    pub round_trips_ns: Vec<u64>,
    /// Command lines of the daemons.
    pub commands: Vec<String>,
}

/// Sends messages of `bytes` for one slice. All members must deliver the same messages in the same
/// order.
pub fn slice(options: &Multicast, daemon: &Path, way: Mode, bytes: u32) -> Result<Slice> {
    let place = tempfile::tempdir().context("making a directory for cables")?;
    let namespace = Namespace::current()?;
    let members = options.members;
    let nodes = (0..members)
        .map(|node| {
            let cables: Vec<_> = (0..members)
                .filter(|&other| other != node)
                .map(|other| {
                    let ends = format!("{}-{}.sock", node.min(other), node.max(other));
                    (format!("to-n{other}"), place.path().join(ends))
                })
                .collect();
            let plan = Plan {
                name: &format!("n{node}"),
                idle: &options.idle.to_string(),
                core: None,
                interfaces: &[],
                cables: &cables,
                link: true,
                ring_slots: 0,
                link_settings: &[],
                faulty: false,
            };
            Node::start(daemon, &namespace, &plan)
        })
        .collect::<Result<Vec<_>>>()?;
    for node in &nodes {
        node.wait_for_links()?;
    }
    let mut players = nodes
        .iter()
        .map(|node| Player::start(node.name()))
        .collect::<Result<Vec<_>>>()?;
    for (member, (player, node)) in players.iter_mut().zip(&nodes).enumerate() {
        player.send(&Task {
            socket: node.socket(),
            members,
            member: u8::try_from(member).unwrap_or(u8::MAX),
            way,
            bytes,
        })?;
    }
    let contacts = players
        .iter_mut()
        .map(Player::receive::<Reached>)
        .collect::<Result<Vec<_>>>()?;
    let begin_ns = now_ns()? + u64::try_from(WARM_UP.as_nanos()).unwrap_or(u64::MAX);
    let slice_ns = u64::try_from(options.slice().as_nanos()).unwrap_or(u64::MAX);
    let begin = Begin {
        contacts,
        window_ns: [begin_ns, begin_ns + slice_ns],
    };
    for player in &mut players {
        player.send(&begin)?;
    }
    stop::sleep(WARM_UP + options.slice())?;
    let reported = players
        .iter_mut()
        .map(Player::receive::<Report>)
        .collect::<Result<Vec<_>>>()?;
    for player in players {
        player.end()?;
    }
    let place_text = place.path().display().to_string();
    let commands = nodes
        .iter()
        .map(|node| node.command().join(" ").replace(&place_text, "CABLES"))
        .collect();
    judge(&reported, options.slice(), commands)
}

fn judge(reported: &[Report], slice: Duration, commands: Vec<String>) -> Result<Slice> {
    let first = reported.first().context("a group has members")?;
    let sent: u64 = reported.iter().map(|member| member.sent).sum();
    for (member, found) in reported.iter().enumerate() {
        ensure!(
            found.delivered == sent,
            "member {member} delivered {} of {sent} messages",
            found.delivered
        );
        ensure!(
            found.hash == first.hash,
            "members 0 and {member} delivered in another order"
        );
    }
    let counted: u64 = reported.iter().map(|member| member.counted).sum();
    ensure!(
        counted > 0,
        "no message was delivered while it was measured"
    );
    let batches: u64 = reported.iter().map(|member| member.batches).sum();
    let deliveries_per_s = counted as f64 / slice.as_secs_f64();
    Ok(Slice {
        messages_per_s: deliveries_per_s / reported.len() as f64,
        deliveries_per_s,
        messages_per_batch: sent as f64 / batches.max(1) as f64,
        round_trips_ns: reported
            .iter()
            .flat_map(|member| member.round_trips_ns.iter().copied())
            .collect(),
        commands,
    })
}

/// A member's process. It ends with this value, and with this process.
struct Player {
    name: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Player {
    fn start(name: &str) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command
            .arg("member")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        ends_with_this(&mut command);
        let mut child = command.spawn().context("starting a member")?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            bail!("a member's process has no pipes");
        };
        Ok(Self {
            name: name.to_owned(),
            child,
            input,
            output: BufReader::new(output),
        })
    }

    fn send(&mut self, what: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(what).context("writing JSON")?;
        writeln!(self.input, "{line}")
            .with_context(|| format!("sending a task to the member at {}", self.name))
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.with_context(|| format!("hearing the member at {}", self.name))?;
        ensure!(
            !line.is_empty(),
            "the member at {} exited: see its message above",
            self.name
        );
        serde_json::from_str(&line).with_context(|| {
            format!(
                "the member at {} printed an invalid line: {line}",
                self.name
            )
        })
    }

    /// Allows the member to exit, and waits until it has exited.
    fn end(mut self) -> Result<()> {
        writeln!(self.input).context("letting a member go")?;
        let status = self.child.wait().context("waiting for a member")?;
        ensure!(status.success(), "the member at {} failed", self.name);
        Ok(())
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(hash: u64, delivered: u64, sent: u64) -> Report {
        Report {
            counted: delivered / 2,
            delivered,
            hash,
            batches: 4,
            sent,
            round_trips_ns: vec![7],
        }
    }

    #[test]
    fn members_must_agree_before_figures_are_reported() {
        let judged = |reported: &[Report]| judge(reported, Duration::from_secs(2), Vec::new());
        let good = judged(&[reported(1, 100, 60), reported(1, 100, 40)]).expect("they agree");
        assert_eq!(
            (
                good.deliveries_per_s,
                good.messages_per_s,
                good.messages_per_batch
            ),
            (50.0, 25.0, 12.5)
        );
        for (bad, expected) in [
            (
                vec![reported(1, 100, 60), reported(2, 100, 40)],
                "another order",
            ),
            (vec![reported(1, 100, 60), reported(1, 99, 40)], "99 of 100"),
            (vec![reported(1, 0, 0)], "no message"),
            (vec![], "members"),
        ] {
            let problem = judged(&bad).expect_err("they do not agree").to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
