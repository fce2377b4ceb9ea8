//! The duration of a `/metrics` scrape of a node with many pipes, and whether it queries a lane.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent::Device;
use serde::{Deserialize, Serialize};

use super::{PATIENCE, Scrape, idle_pipes, toml};
use crate::{
    ends_with_this::ends_with_this,
    host::Host,
    kept::now_unix_ms,
    node::{Node, find_daemon},
    report::{Block, Goal, Limit, Report, Suite, Table},
    stage::Namespace,
    stop,
    summary::Summary,
    watch::Watch,
};

/// The goal for 99 of 100 scrapes, in milliseconds.
const MS_MAX: f64 = 20.0;

/// A whole run.
pub type Results = Report<Run>;

/// The setup and the figures of a run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Pipes of the node.
    pub pipes: u32,
    /// Bytes of the page.
    pub page_bytes: usize,
    /// Milliseconds of each scrape, from the request to the last byte.
    pub scrape_ms: Summary,
    /// Milliseconds within which 99 of 100 were.
    pub p99_ms: f64,
    /// Status requests that control sent to the daemon meanwhile. Each would query every lane.
    pub status_requests: f64,
}

/// Measures and prints the results. Returns whether the goal is met.
pub fn measure(arguments: &Scrape) -> Result<bool> {
    let began_unix_ms = now_unix_ms();
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let (host, watch) = (Host::observed(), Watch::begin()?);
    // The port is free now and is bound again soon.
    let address = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .context("finding a free port")?;
    let node = Node::start_from(&daemon, &Namespace::current()?, "a", |place| {
        let more = format!("[control]\nmetrics_listen = \"{address}\"\n");
        toml(place, "idle = \"adaptive\"\n", None, &more)
    })?;
    let _control = Control::start(&daemon.with_file_name("covalent-control"), &node.config())?;
    let device = Device::attach(node.socket(), "bench").context("attaching to covalentd")?;
    let _pipes = idle_pipes(&device, arguments.pipes as usize)?;
    let mut scraper = Scraper::connect(address)?;
    let before = loop_until_all(&mut scraper, arguments.pipes as usize)?;
    let mut took_ms = Vec::new();
    let mut last = before.clone();
    for _ in 0..arguments.scrapes {
        let start = Instant::now();
        last = scraper.scrape()?;
        took_ms.push(start.elapsed().as_secs_f64() * 1e3);
        ensure!(
            pipes_of(&last) >= arguments.pipes as usize,
            "a scrape shows {} pipes only",
            pipes_of(&last)
        );
        stop::check()?;
    }
    let p99_ms = percentile_99(&took_ms);
    let status_requests = request_count(&last)? - request_count(&before)?;
    let run = Run {
        pipes: arguments.pipes,
        page_bytes: last.len(),
        scrape_ms: Summary::of(took_ms).context("nothing was measured")?,
        p99_ms,
        status_requests,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&arguments.output)
}

/// Scrapes until all pipes are there, and returns that page.
fn loop_until_all(scraper: &mut Scraper, pipes: usize) -> Result<String> {
    let start = Instant::now();
    loop {
        let page = scraper.scrape()?;
        if pipes_of(&page) >= pipes {
            return Ok(page);
        }
        if start.elapsed() > PATIENCE {
            bail!("of {pipes} pipes /metrics shows {}", pipes_of(&page));
        }
        stop::sleep(Duration::from_millis(20))?;
    }
}

fn pipes_of(page: &str) -> usize {
    let lines = page.lines();
    lines
        .filter(|line| line.starts_with("covalent_pipe_tx_packets_total{"))
        .count()
}

fn request_count(page: &str) -> Result<f64> {
    page.lines()
        .find(|line| line.starts_with("covalent_control_status_requests_total{"))
        .and_then(|line| line.rsplit_once(' ')?.1.parse().ok())
        .context("/metrics has no count of status requests to the daemon")
}

fn percentile_99(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * 99).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// A running control process. It ends with this value, and with this process.
struct Control(Child);

impl Control {
    fn start(program: &Path, config: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .arg("--config")
            .arg(config)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        ends_with_this(&mut command);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self(child))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One connection that is kept, as Prometheus keeps it.
struct Scraper(BufReader<TcpStream>);

impl Scraper {
    fn connect(address: SocketAddr) -> Result<Self> {
        let start = Instant::now();
        loop {
            match TcpStream::connect(address) {
                Ok(stream) => {
                    stream.set_nodelay(true).context("a connection")?;
                    return Ok(Self(BufReader::new(stream)));
                }
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(error).context("connecting to covalent-control");
                }
                Err(_) => stop::sleep(Duration::from_millis(10))?,
            }
        }
    }

    fn scrape(&mut self) -> Result<String> {
        const HEADERS_MAX: usize = 64;
        self.0
            .get_mut()
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .context("asking for /metrics")?;
        let mut length = None;
        let mut line = String::new();
        for _ in 0..HEADERS_MAX {
            line.clear();
            self.0.read_line(&mut line).context("reading /metrics")?;
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<usize>().ok();
            }
        }
        let mut page = vec![0; length.context("/metrics has no content length")?];
        self.0.read_exact(&mut page).context("reading /metrics")?;
        String::from_utf8(page).context("reading /metrics")
    }
}

impl Suite for Run {
    const NAME: &'static str = "scrape";
    // It continues the section about counters.
    const TITLE: &'static str = "";
    const MISSING: &'static str =
        "Scrapes were not measured: `covalent-bench scrape --results bench/results` does.";

    fn judge(&self) -> Vec<Goal> {
        vec![
            Goal::of(
                "scrape",
                format!(
                    "99 of 100 scrapes of a node with {} pipes in less than {MS_MAX} ms",
                    self.pipes
                ),
                self.p99_ms,
                Limit::Below(MS_MAX),
            ),
            Goal::of(
                "scrape_requests",
                "no status request to a lane meanwhile",
                self.status_requests,
                Limit::AtMost(0.0),
            ),
        ]
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let (scrapes, host) = (&report.scrape_ms, &report.host);
        let mut table = Table::new(&[">scrapes", ">median ms", ">99 of 100", ">longest"]);
        table.row([
            scrapes.repeats.len().to_string(),
            format!("{:.2}", scrapes.median),
            format!("{:.2}", report.p99_ms),
            format!("{:.2}", scrapes.max),
        ]);
        vec![
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[(">measured", &|goal| format!("{:.2}", goal.measured))],
            ),
            Block::Text(format!(
                "The page has {} bytes, and the connection is kept. Measured on {}, by {}.",
                report.page_bytes,
                host.words(),
                host.measured()
            )),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_hundred_may_take_longer() {
        let mut figures: Vec<f64> = vec![1.0; 98];
        figures.extend([5.0, 90.0]);
        assert_eq!(percentile_99(&figures), 5.0);
        assert_eq!(percentile_99(&[3.0]), 3.0);
    }

    #[test]
    fn a_page_shows_its_pipes_and_the_number_of_status_requests() {
        let page = "# TYPE covalent_pipe_tx_packets_total \
            counter\ncovalent_pipe_tx_packets_total{node=\"a\",pipe=\"0\"} 0\n\
                    covalent_control_status_requests_total{node=\"a\"} 3\n";
        assert_eq!(pipes_of(page), 1);
        assert_eq!(request_count(page).expect("a number"), 3.0);
        assert!(request_count("").is_err());
    }

    #[test]
    fn a_slow_scrape_and_a_status_request_miss_a_goal_each() {
        let met = |p99_ms, status_requests| {
            let run = Run {
                pipes: 4,
                page_bytes: 100,
                scrape_ms: Summary::of(vec![1.0]).expect("figures"),
                p99_ms,
                status_requests,
            };
            [run.judge()[0].met, run.judge()[1].met]
        };
        assert_eq!(met(19.9, 0.0), [true, true]);
        assert_eq!(met(MS_MAX, 0.0), [false, true]);
        assert_eq!(met(1.0, 1.0), [true, false]);
    }
}
