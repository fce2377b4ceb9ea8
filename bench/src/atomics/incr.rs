//! `INCR` of one key, pipelined.

use std::{
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::process::Running;
use crate::{
    arguments::Wire, beside::join, cores::Cores, stage::Stage, stop, summary::Summary, udp_echo,
};

const PORT: u16 = 6379;

/// Requests of the first run, which tells how many fill a slice.
const FIRST_REQUESTS: u64 = 100_000;

/// The same where each waits for the answer to the one before it.
const FIRST_REQUESTS_ONE_BY_ONE: u64 = 5_000;

/// How long the server may take to answer, and a run longer than it should.
const PATIENCE: Duration = Duration::from_secs(20);

/// So many connections with so many requests each under way.
#[derive(Debug)]
pub struct Load {
    connections: u32,
    pipeline: u32,
    /// How many fill a slice; not known at first.
    requests: Option<u64>,
    mops: Vec<f64>,
    commands: Vec<String>,
}

impl Load {
    pub fn new(connections: u32, pipeline: u32) -> Self {
        Self {
            connections,
            pipeline,
            requests: None,
            mops: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Whether more than one request is under way on a connection.
    pub fn is_pipelined(&self) -> bool {
        self.pipeline > 1
    }

    fn first_requests(&self) -> u64 {
        if self.is_pipelined() {
            FIRST_REQUESTS
        } else {
            FIRST_REQUESTS_ONE_BY_ONE
        }
    }

    pub fn connections(&self) -> u32 {
        self.connections
    }

    /// The command lines of the last slice.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Millions of requests a second.
    pub fn rate(&self) -> Result<Summary> {
        Summary::of(self.mops.clone()).context("nothing was measured")
    }

    /// Measures for about one slice. The key must have grown by the number of requests.
    pub fn slice(&mut self, stage: &Stage, cores: Cores, arguments: &Wire) -> Result<()> {
        // On a thread of its own, as processes are pinned by pinning who starts them.
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let place = tempfile::tempdir().context("making a directory for Redis")?;
                let server = Running::server(
                    &stage.b,
                    cores.far,
                    &server_arguments(&place.path().display().to_string()),
                    &place.path().join("log"),
                )?;
                wait_until_it_answers(stage)?;
                let first = self.first_requests();
                let mut before = 0;
                if self.requests.is_none() {
                    let (rate, _) = self.run(stage, cores, first)?;
                    before = first;
                    let wanted = rate * 1e6 * arguments.slice().as_secs_f64();
                    self.requests = Some((wanted as u64).max(first));
                }
                let requests = self.requests.unwrap_or(first);
                let (rate, command) = self.run(stage, cores, requests)?;
                let found = value(stage, cores)?;
                // It sends a whole number of pipelines, so some more than asked for.
                let more = u64::from(self.connections * self.pipeline) * 2;
                ensure!(
                    (before + requests..=before + requests + more).contains(&found),
                    "the key is {found} after {} requests",
                    before + requests
                );
                self.mops.push(rate);
                self.commands = vec![
                    server
                        .command
                        .replace(&place.path().display().to_string(), "DIR"),
                    command,
                ];
                Ok(())
            }))
        })
    }

    /// Millions of requests a second of one run, and its command line.
    fn run(&self, stage: &Stage, cores: Cores, requests: u64) -> Result<(f64, String)> {
        let server = udp_echo::SERVER.ip();
        let arguments = format!(
            "-h {server} -p {PORT} -t incr -P {} -c {} -n {requests} --csv",
            self.pipeline, self.connections
        );
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        let client = Running::client(&stage.a, cores.near, "redis-benchmark", &arguments)?;
        let command = client.command.clone();
        let text = client.wait(PATIENCE)?;
        let rate = requests_per_second(&text)
            .with_context(|| format!("`{command}` does not tell its rate: {text}"))?;
        Ok((rate / 1e6, command))
    }
}

/// Everything in memory, nothing written, as fast as it goes.
fn server_arguments(place: &str) -> Vec<String> {
    let bind = udp_echo::SERVER.ip();
    format!(
        "--port {PORT} --bind {bind} --protected-mode no --appendonly no --daemonize no --dir {place} --save"
    )
    .split(' ')
    .map(str::to_owned)
    .chain([String::new()])
    .collect()
}

fn wait_until_it_answers(stage: &Stage) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let address = SocketAddr::new(udp_echo::SERVER.ip(), PORT);
    loop {
        let there = stage.a.within(|| {
            Ok(TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok())
        })?;
        if there {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "redis-server does not answer");
        stop::sleep(Duration::from_millis(5))?;
    }
}

/// What the key is that `redis-benchmark` counts in.
fn value(stage: &Stage, cores: Cores) -> Result<u64> {
    let server = udp_echo::SERVER.ip();
    let arguments = format!("-h {server} -p {PORT} GET counter:__rand_int__");
    let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
    let text = Running::client(&stage.a, cores.near, "redis-cli", &arguments)?.wait(PATIENCE)?;
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
