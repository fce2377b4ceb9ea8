//! Three members of etcd that keep everything in memory, and its own benchmark.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::Running;
use crate::{stage::Namespace, stop};

/// Members of the cluster.
pub const MEMBERS: usize = 3;

/// Bytes of one write of `etcdctl check perf`: a key of 256 after its prefix, and a value of 1,024.
pub const WRITE_BYTES: u32 = 256 + 1024;

/// Loads of `etcdctl check perf`, each with its upper limit in writes per second. Each takes a
/// minute.
const LOADS: [(&str, f64); 2] = [("l", 8_000.0), ("xl", 15_000.0)];

/// Above this fraction of its limit, a load measures its own limit and not the cluster's rate.
const CAPPED: f64 = 0.9;

/// How long a cluster may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a load may take.
const LOAD_PATIENCE: Duration = Duration::from_secs(180);

const FIRST_PORT: u16 = 2379;

/// Where the programs are.
#[derive(Debug)]
pub struct Programs {
    server: PathBuf,
    client: PathBuf,
    /// In its own words.
    pub version: String,
}

impl Programs {
    /// Finds the programs in the search path, or unpacked beside this program's folder by `make
    /// bench-peers`.
    ///
    /// # Errors
    /// The programs are missing, or the server does not print its version.
    pub fn find() -> Result<Self> {
        let unpacked = env::current_exe().ok().and_then(|program| {
            let target = program.parent()?.parent()?;
            Some(target.join("bench-tools/etcd/usr/bin"))
        });
        let path = env::var_os("PATH").unwrap_or_default();
        let (server, client) = env::split_paths(&path)
            .chain(unpacked)
            .map(|folder| (folder.join("etcd"), folder.join("etcdctl")))
            .find(|(server, client)| server.is_file() && client.is_file())
            .context(
                "there are no etcd and etcdctl\n  cure: `make bench-peers` unpacks Debian's below \
                 target/bench-tools",
            )?;
        let printed = Command::new(&server)
            .arg("--version")
            .output()
            .with_context(|| format!("starting {}", server.display()))?;
        let version = String::from_utf8_lossy(&printed.stdout);
        let version = version.lines().next().unwrap_or_default().to_owned();
        Ok(Self {
            server,
            client,
            version,
        })
    }
}

/// A running cluster. It ends with this value, and with the thread that started it.
#[derive(Debug)]
pub struct Cluster<'a> {
    programs: &'a Programs,
    namespace: &'a Namespace,
    members: Vec<Running>,
    _place: TempDir,
    place_text: String,
}

impl<'a> Cluster<'a> {
    /// Starts a cluster on the loopback interface of `namespace`, in memory, and waits until it
    /// accepts a write.
    ///
    /// # Errors
    /// It does not start, or does not respond.
    pub fn start(programs: &'a Programs, namespace: &'a Namespace) -> Result<Self> {
        // In memory, so that the disk does not affect the comparison.
        let place = tempfile::tempdir_in("/dev/shm").context("making a directory for etcd")?;
        let mut cluster = Self {
            programs,
            namespace,
            members: Vec::new(),
            place_text: place.path().display().to_string(),
            _place: place,
        };
        for member in 0..MEMBERS {
            let log = Path::new(&cluster.place_text).join(format!("log{member}"));
            let words = member_words(member, &cluster.place_text);
            let started =
                Running::server(namespace, None, (&programs.server, "etcd"), &words, &log)?;
            cluster
                .members
                .push(started.context("etcd was found, but cannot be started")?);
        }
        for member in 0..MEMBERS {
            cluster.wait_for_port(client_port(member))?;
        }
        cluster.wait_for_a_write()?;
        Ok(cluster)
    }

    /// Returns the writes per second, and the command line that printed them. Takes a minute, or
    /// two if the first load is too small.
    ///
    /// # Errors
    /// Writes failed, or the tool does not print a rate.
    pub fn writes_per_second(&self) -> Result<(f64, String)> {
        for (load, bound) in LOADS {
            let client = self.run_client(&["check", "perf", &format!("--load={load}")])?;
            let command = client.command.clone();
            // Ignore the exit status: it only rates the throughput.
            let (_, text) = client.wait_for_end(LOAD_PATIENCE)?;
            ensure!(!text.contains("too many errors"), "`{command}`: {text}");
            let rate = printed_rate(&text)
                .with_context(|| format!("`{command}` printed no rate: {text}"))?;
            if rate < bound * CAPPED {
                return Ok((rate, command));
            }
        }
        bail!("etcd takes more writes than its own benchmark offers")
    }

    /// Command lines of the members, with their own directory as DIR.
    pub fn commands(&self) -> Vec<String> {
        let printed = |member: &Running| member.command.replace(&self.place_text, "DIR");
        self.members.iter().map(printed).collect()
    }

    fn wait_for_port(&self, port: u16) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let there = self
                .namespace
                .within(|| Ok(TcpStream::connect(address).is_ok()))?;
            if there {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "etcd does not answer at {address}"
            );
            stop::sleep(Duration::from_millis(20))?;
        }
    }

    /// It answers before it has a leader.
    fn wait_for_a_write(&self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (status, text) = self
                .run_client(&["put", "ready", "1"])?
                .wait_for_end(PATIENCE)?;
            if status.success() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "etcd takes no write: {text}");
            stop::sleep(Duration::from_millis(50))?;
        }
    }

    fn run_client(&self, words: &[&str]) -> Result<Running> {
        let endpoints: Vec<String> = (0..MEMBERS)
            .map(|member| format!("127.0.0.1:{}", client_port(member)))
            .collect();
        let mut arguments = vec![format!("--endpoints={}", endpoints.join(","))];
        arguments.extend(words.iter().map(|&word| word.to_owned()));
        Running::client(self.namespace, None, &self.programs.client, &arguments)
    }
}

const fn client_port(member: usize) -> u16 {
    FIRST_PORT + 2 * member as u16
}

/// Three members, in memory, never asking a disk to keep anything.
fn member_words(member: usize, place: &str) -> Vec<String> {
    let peer = |member: usize| format!("http://127.0.0.1:{}", client_port(member) + 1);
    let client = format!("http://127.0.0.1:{}", client_port(member));
    let cluster: Vec<String> = (0..MEMBERS)
        .map(|member| format!("m{member}={}", peer(member)))
        .collect();
    format!(
        "--name m{member} --data-dir {place}/m{member} --listen-client-urls {client} \
         --advertise-client-urls {client} \
         --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster {} \
         --initial-cluster-state new \
         --unsafe-no-fsync --logger zap --log-level error",
        cluster.join(","),
        peer = peer(member),
    )
    .split_whitespace()
    .map(str::to_owned)
    .collect()
}

/// Parses the tool's output: `PASS: Throughput is N writes/s`, or `FAIL: Throughput too low: N
/// writes/s`.
fn printed_rate(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("writes/s"))?;
    let before = line.split("writes/s").next()?;
    before.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_with_any_verdict_of_the_tool() {
        assert_eq!(
            printed_rate("PASS: Throughput is 7994 writes/s\nPASS\n"),
            Some(7994.0)
        );
        assert_eq!(
            printed_rate(" 60 / 60 100%\nFAIL: Throughput too low: 2841 writes/s\nFAIL"),
            Some(2841.0)
        );
        assert_eq!(printed_rate("FAIL: too many errors"), None);
    }

    #[test]
    fn each_member_names_all_of_them_and_listens_alone() {
        let words = member_words(1, "/dev/shm/x").join(" ");
        for expected in [
            "--name m1",
            "m0=http://127.0.0.1:2380,m1=http://127.0.0.1:2382,m2=http://127.0.0.1:2384",
            "--listen-client-urls http://127.0.0.1:2381 ",
            "--unsafe-no-fsync",
        ] {
            assert!(words.contains(expected), "{expected} is not in {words}");
        }
    }
}
