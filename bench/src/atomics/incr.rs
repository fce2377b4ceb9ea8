//! `INCR` of one key, pipelined.

use std::{net::SocketAddr, thread, time::Duration};

use anyhow::{Context, Result, ensure};

use super::results::SideName;
use crate::{
    arguments::Wire,
    beside::join,
    cores::Cores,
    latency::server_at,
    servers::{Running, redis::Server},
    stage::Stage,
};

const PORT: u16 = 6379;

/// Requests of the first run, per request in flight. This run determines how many requests fill a
/// slice.
const FIRST_REQUESTS: u64 = 1500;

/// How long a run may take longer than it should.
const PATIENCE: Duration = Duration::from_secs(20);

/// A number of connections, each with a number of requests in flight.
#[derive(Debug)]
pub struct Load {
    connections: u32,
    pipeline: u32,
    /// How many fill a slice; not known at first.
    requests: Option<u64>,
    commands: Vec<String>,
}

impl Load {
    pub fn new(connections: u32, pipeline: u32) -> Self {
        Self {
            connections,
            pipeline,
            requests: None,
            commands: Vec::new(),
        }
    }

    /// Its name in the results.
    pub fn side(&self) -> SideName {
        if self.pipeline == 1 {
            SideName::RedisUnpipelined(self.connections)
        } else {
            SideName::Redis(self.connections)
        }
    }

    fn first_requests(&self) -> u64 {
        FIRST_REQUESTS * u64::from(self.pipeline)
    }

    /// The command lines of the last slice.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Runs for about one slice and returns millions of requests per second. Checks that the key
    /// grew by the number of requests.
    pub fn slice(&mut self, stage: &Stage, cores: Cores, arguments: &Wire) -> Result<f64> {
        // Use a separate thread: a child process inherits the affinity of the thread that starts
        // it.
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let server = Server::start(&stage.b, &stage.a, cores.far, address())?;
                let mut before = 0;
                if self.requests.is_none() {
                    before = self.first_requests();
                    let (rate, _) = self.run(stage, cores, before)?;
                    let wanted = rate * 1e6 * arguments.slice().as_secs_f64();
                    self.requests = Some((wanted as u64).max(before));
                }
                let requests = self.requests.unwrap_or(before);
                let (rate, command) = self.run(stage, cores, requests)?;
                let found = value(stage, cores)?;
                // `redis-benchmark` sends whole pipelines, so a few requests more than `requests`.
                let more = u64::from(self.connections * self.pipeline) * 2;
                ensure!(
                    (before + requests..=before + requests + more).contains(&found),
                    "the key is {found} after {} requests",
                    before + requests
                );
                self.commands = vec![server.command(), command];
                Ok(rate)
            }))
        })
    }

    /// Millions of requests a second of one run, and its command line.
    fn run(&self, stage: &Stage, cores: Cores, requests: u64) -> Result<(f64, String)> {
        let server = server_at();
        let arguments = format!(
            "-h {server} -p {PORT} -t incr -P {} -c {} -n {requests} --csv",
            self.pipeline, self.connections
        );
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let client = Running::client(&stage.a, Some(cores.near), "redis-benchmark", &arguments)?;
        let command = client.command.clone();
        let text = client.wait(PATIENCE)?;
        let rate = requests_per_second(&text)
            .with_context(|| format!("`{command}` printed no rate: {text}"))?;
        Ok((rate / 1e6, command))
    }
}

fn address() -> SocketAddr {
    SocketAddr::new(server_at(), PORT)
}

/// Returns the value of the key that `redis-benchmark` increments.
fn value(stage: &Stage, cores: Cores) -> Result<u64> {
    let server = server_at();
    let arguments = format!("-h {server} -p {PORT} GET counter:__rand_int__");
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let text =
        Running::client(&stage.a, Some(cores.near), "redis-cli", &arguments)?.wait(PATIENCE)?;
    text.trim()
        .parse()
        .with_context(|| format!("the key is {text:?}"))
}

/// Of lines of CSV: the second field of the one about INCR.
fn requests_per_second(csv: &str) -> Option<f64> {
    let line = csv.lines().find(|line| line.starts_with("\"INCR"))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_line_about_incr() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"INCR\",\"1234567.88\",\"0.5\"\n";
        assert_eq!(requests_per_second(csv), Some(1_234_567.88));
        assert_eq!(requests_per_second("\"GET\",\"1.0\""), None);
        assert_eq!(requests_per_second(""), None);
    }
}
