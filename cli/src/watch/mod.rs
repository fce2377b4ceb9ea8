//! `covalent watch`: metrics and events of a running node as they are streamed over gRPC.

mod event;
mod json;
mod series;
mod server;
mod show;

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use covalent_grpc_schema::v1::{EventsRequest, Filter, Sample, WatchRequest};

#[cfg(test)]
pub use self::show::tests::widest;
use self::{event::show as show_event, series::Known, server::Server, show::Screen};
use crate::{
    args::{ConfigArgs, Format},
    interrupt::Interrupt,
    output::{self, Theme},
};

/// Prefix of the name of every metric.
const PREFIX: &str = "covalent_";

/// Longest time between the sample that only the first rates need and the first shown one.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// `covalent watch`
#[derive(Debug, Args)]
#[command(
    after_help = "FAMILY is the name of a metric (docs/metrics.md), or a common prefix of several, \
    with or without `covalent_`: `port`, `link_drops`. On a terminal the output is a table of the \
    newest values and their rates per second. Elsewhere it is a line for each series, and then one \
    for each that has changed. The first rates are those of at most a quarter of a second before \
    the first output. With --format json each sample is one line.\n\n\
    Any gRPC client can receive the same data: the schema is \
    covalent/telemetry/v1/telemetry.proto, and the server offers it by reflection. A client that \
    reads too slowly receives the newest sample, with the number of samples that were left out.\n\n\
    Examples:\n  \
    covalent watch port link\n  \
    covalent watch port_rx --label port=p0 --interval 0.2\n  \
    covalent watch --count 1 --format json | jq '.families[].name'\n  \
    covalent watch --events --format json\n  \
    covalent watch --at 127.0.0.1:9465 verb"
)]
pub struct WatchArgs {
    /// Metrics to show. Default: all.
    #[arg(value_name = "FAMILY", conflicts_with = "events")]
    families: Vec<String>,
    /// Only series that have this label with this value.
    #[arg(
        long = "label",
        value_name = "NAME=VALUE",
        value_parser = label,
        conflicts_with = "events",
    )]
    labels: Vec<(String, String)>,
    /// Seconds between two samples.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval_ms)]
    interval: u32,
    /// Stop after this many samples or events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Show only changes after the first sample.
    #[arg(long, conflicts_with = "events")]
    changes: bool,
    /// Show events: first the kept ones, then each as it happens.
    #[arg(long)]
    events: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Which node.
    #[command(flatten)]
    config: ConfigArgs,
    /// Control's socket for telemetry, instead of the one in the configuration.
    #[arg(
        long,
        env = "COVALENT_TELEMETRY_SOCKET",
        value_name = "PATH",
        conflicts_with = "at"
    )]
    socket: Option<PathBuf>,
    /// Address of the telemetry server, instead of a socket: `control.grpc_listen`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    at: Option<SocketAddr>,
}

/// Runs `covalent watch`.
///
/// # Errors
/// Fails if there is no telemetry server, if it refuses the request, or if it stops.
pub fn run(args: &WatchArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let server = Server::connect(&server::place(args)?)?;
    if args.events {
        events(args, &server, interrupt)?;
    } else {
        samples(args, &server, interrupt)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn samples(args: &WatchArgs, server: &Server, interrupt: &Interrupt) -> Result<()> {
    let is_live = args.format == Format::Table && io::stdout().is_terminal() && !args.changes;
    let is_lines = args.format == Format::Table && !is_live;
    let filter = Filter {
        families: args.families.iter().map(|name| full(name)).collect(),
        labels: args.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
    };
    let mut known = Known::default();
    if args.format == Format::Table {
        known.take(&baseline(args, server, filter.clone(), interrupt)?);
    }
    let mut stream = server.watch(WatchRequest {
        filter: Some(filter),
        interval_ms: args.interval,
        changes_only: args.changes || is_lines,
    })?;
    let mut screen = Screen::new(Theme::of_stdout());
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let sample: Sample = server.next(&mut stream, interrupt)?;
        match args.format {
            Format::Json => output::line(&json::sample(&sample).to_string())?,
            Format::Table => {
                known.take(&sample);
                if is_live {
                    screen.draw(&sample, &known)?;
                } else {
                    show::lines(&sample, &known)?;
                }
            }
        }
    }
    Ok(())
}

/// A sample that is not shown, taken so long before the first shown one that this has rates.
fn baseline(
    args: &WatchArgs,
    server: &Server,
    filter: Filter,
    interrupt: &Interrupt,
) -> Result<Sample> {
    let mut stream = server.watch(WatchRequest {
        filter: Some(filter),
        interval_ms: args.interval,
        changes_only: false,
    })?;
    let sample = server.next(&mut stream, interrupt)?;
    drop(stream);
    let interval = Duration::from_millis(args.interval.into());
    interrupt.sleep(interval.min(FIRST_INTERVAL))?;
    Ok(sample)
}

fn events(args: &WatchArgs, server: &Server, interrupt: &Interrupt) -> Result<()> {
    let theme = Theme::of_stdout();
    let mut stream = server.events(EventsRequest::default())?;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let event = server.next(&mut stream, interrupt)?;
        show_event(event, args.format, theme)?;
    }
    Ok(())
}

/// The name that the server knows.
fn full(name: &str) -> String {
    if name.starts_with(PREFIX) || name == PREFIX.trim_end_matches('_') {
        name.to_owned()
    } else {
        format!("{PREFIX}{}", name.trim_end_matches('_'))
    }
}

fn label(text: &str) -> Result<(String, String)> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .context("expected a label and its value, such as port=p0")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn interval_ms(text: &str) -> Result<u32, String> {
    let seconds: f64 = text.parse().unwrap_or(f64::NAN);
    let allowed = covalent_grpc_schema::INTERVAL_MS;
    Some((seconds * 1e3).round())
        .filter(|ms| (f64::from(*allowed.start())..=f64::from(*allowed.end())).contains(ms))
        .map(|ms| ms as u32)
        .ok_or_else(|| "expected seconds, 0.1 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_may_be_named_without_the_common_prefix() {
        assert_eq!(full("port"), "covalent_port");
        assert_eq!(full("port_"), "covalent_port");
        assert_eq!(full("covalent_link_up"), "covalent_link_up");
        assert_eq!(full("covalent"), "covalent");
    }

    #[test]
    fn intervals_and_labels_are_checked_before_any_request() {
        assert_eq!(interval_ms("0.25"), Ok(250));
        assert_eq!(interval_ms("3600"), Ok(3_600_000));
        for wrong in ["0.09", "3601", "-1", "often", "NaN"] {
            assert!(interval_ms(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            label("port=p0=x").ok(),
            Some(("port".into(), "p0=x".into()))
        );
        assert!(label("port").is_err() && label("=p0").is_err());
    }
}
