//! `XADD` to a stream of Redis with two replicas, by its own benchmark.

use std::{
    net::{Ipv4Addr, SocketAddr},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use crate::{
    beside::join,
    servers::{Running, redis::Server},
    stage::Namespace,
};

/// Requests in flight per connection.
pub const PIPELINE: u32 = 64;

/// Connections.
pub const CONNECTIONS: u32 = 50;

/// Maximum number of entries in a stream, which bounds its memory.
const KEPT: u32 = 100_000;

const FIRST_PORT: u16 = 6379;

/// Requests of the first run, which determines how many requests fill a slice.
const FIRST_REQUESTS: u64 = 50_000;

/// How long a run may take longer than it should.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns entries of `bytes` per second, measured for about one slice, and the command lines.
/// Checks that both replicas receive all entries in the end.
pub fn slice(namespace: &Namespace, bytes: u32, slice: Duration) -> Result<(f64, Vec<String>)> {
    // On a thread of its own: the servers end with it.
    thread::scope(|scope| {
        join(scope.spawn(|| {
            let primary = server(namespace, FIRST_PORT, &[])?;
            let port = FIRST_PORT.to_string();
            let of = ["--replicaof", "127.0.0.1", port.as_str()];
            let replicas = [1, 2].map(|replica| server(namespace, FIRST_PORT + replica, &of));
            let [first, second] = replicas;
            let (first, second) = (first?, second?);
            replicated(namespace)?;
            let (rate, _) = run(namespace, bytes, FIRST_REQUESTS)?;
            let requests = ((rate * slice.as_secs_f64()) as u64).max(FIRST_REQUESTS);
            let (rate, command) = run(namespace, bytes, requests)?;
            replicated(namespace)?;
            let added = added(namespace)?;
            // `redis-benchmark` sends whole pipelines, so a few requests more than requested.
            let more = u64::from(CONNECTIONS * PIPELINE) * 2;
            let least = FIRST_REQUESTS + requests;
            ensure!(
                (least..=least + 2 * more).contains(&added),
                "the stream took {added} entries after {least} requests"
            );
            let servers = [&primary, &first, &second].map(Server::command);
            Ok((rate, servers.into_iter().chain([command]).collect()))
        }))
    })
}

fn server(namespace: &Namespace, port: u16, options: &[&str]) -> Result<Server> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Server::start_with(namespace, namespace, None, address, options)
}

fn run(namespace: &Namespace, bytes: u32, requests: u64) -> Result<(f64, String)> {
    let field = "x".repeat(bytes as usize);
    let words = format!(
        "-p {FIRST_PORT} -P {PIPELINE} -c {CONNECTIONS} -n {requests} --csv XADD s MAXLEN ~ {KEPT} \
         * f {field}"
    );
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let client = Running::client(namespace, None, "redis-benchmark", &words)?;
    let command = client.command.replace(&field, &format!("<{bytes} bytes>"));
    let text = client.wait(PATIENCE)?;
    let rate = entries_per_second(&text)
        .with_context(|| format!("`{command}` printed no rate: {text}"))?;
    Ok((rate, command))
}

/// Waits until both replicas have all writes.
fn replicated(namespace: &Namespace) -> Result<()> {
    let printed = cli(namespace, "WAIT 2 20000")?;
    ensure!(
        printed.trim() == "2",
        "of two replicas {} follow",
        printed.trim()
    );
    Ok(())
}

fn added(namespace: &Namespace) -> Result<u64> {
    let printed = cli(namespace, "XINFO STREAM s")?;
    entries_added(&printed)
        .with_context(|| format!("unexpected output about the stream: {printed:?}"))
}

fn cli(namespace: &Namespace, words: &str) -> Result<String> {
    let words = format!("-p {FIRST_PORT} {words}");
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    Running::client(namespace, None, "redis-cli", &words)?.wait(PATIENCE)
}

/// Of lines of CSV: the second field of the one about XADD.
fn entries_per_second(csv: &str) -> Option<f64> {
    let line = csv.lines().find(|line| line.starts_with("\"XADD"))?;
    let mut fields = line.split("\",\"");
    fields.nth(1)?.trim_matches('"').parse().ok()
}

/// The line behind the one that names it.
fn entries_added(printed: &str) -> Option<u64> {
    let mut lines = printed.lines();
    lines.find(|line| line.trim() == "entries-added")?;
    lines.next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_counts_are_read() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"XADD s MAXLEN ~ 100000 * f \
            xx\",\"234567.88\",\"0.5\"\n";
        assert_eq!(entries_per_second(csv), Some(234_567.88));
        assert_eq!(entries_per_second("\"GET\",\"1.0\""), None);
        let printed = "length\n100010\nentries-added\n300000\nrecorded\n1\n";
        assert_eq!(entries_added(printed), Some(300_000));
        assert_eq!(entries_added("length\n1\n"), None);
    }
}
