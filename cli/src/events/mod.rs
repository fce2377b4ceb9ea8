//! `covalent events`: past and current events of a node.

mod describe;

#[cfg(test)]
pub use self::tests::widest;
use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::Args;
use covalent_api::event::{Event, EventKind};
use jiff::Timestamp;

use self::describe::describe;
use crate::{
    args::{Format, NodeArgs},
    client::Client,
    interrupt::Interrupt,
    output::{self, Cell, Table, Theme},
    status,
};

/// How often a command that waits for events looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `covalent events`
#[derive(Debug, Args)]
#[command(
    after_help = "covalentd keeps the last 512 events. Times are UTC. With --follow --format json \
    each event is one line. So is the number of events that are not shown: `{\"missed\": N}`.\n\n\
    Examples:\n  \
    covalent events\n  \
    covalent events --follow\n  \
    covalent events --format json | jq '.[] | select(.event == \"link_down\")'"
)]
pub struct EventsArgs {
    /// Which node.
    #[command(flatten)]
    node: NodeArgs,
    /// Show each event as it happens, until Ctrl-C or until the daemon exits.
    #[arg(long, short)]
    follow: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Runs `covalent events`.
///
/// # Errors
/// Fails if no daemon replies, or if it exits while the command follows its events.
pub fn run(args: &EventsArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let socket = status::socket(&args.node)?;
    let theme = Theme::of_stdout();
    if args.follow {
        follow(&socket, args.format, theme, interrupt)?;
        return Ok(ExitCode::SUCCESS);
    }
    let events = Client::connect(&socket)?.events()?;
    match args.format {
        Format::Json => output::json(&events)?,
        Format::Table if events.is_empty() => output::line("nothing has happened yet")?,
        Format::Table => output::line(&table(theme, &events).to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn follow(socket: &Path, format: Format, theme: Theme, interrupt: &Interrupt) -> Result<()> {
    // Subscribe before the query of past events, so that no event is lost in between.
    let mut stream = Client::connect(socket)?.subscribe()?;
    let mut seen = None;
    for event in Client::connect(socket)?.events()? {
        show(&event, format, theme)?;
        seen = Some(event.sequence);
    }
    loop {
        interrupt.sleep(Duration::ZERO)?;
        let Some(event) = stream.next(POLL_INTERVAL)? else {
            continue;
        };
        if seen.is_some_and(|seen| event.sequence <= seen) {
            continue;
        }
        let missed = seen.map_or(0, |seen| event.sequence - seen - 1);
        show_missed(missed, format)?;
        seen = Some(event.sequence);
        show(&event, format, theme)?;
        if event.kind == EventKind::Stopping {
            return Ok(());
        }
    }
}

/// Prints how many events were missed, if any.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn show_missed(missed: u64, format: Format) -> Result<()> {
    match (missed, format) {
        (0, _) => Ok(()),
        (_, Format::Json) => output::line(&serde_json::json!({ "missed": missed }).to_string()),
        (_, Format::Table) => output::line(&format!(
            "{missed} events arrived too fast to be \
            shown"
        )),
    }
}

/// Prints an event on one line.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn show(event: &Event, format: Format, theme: Theme) -> Result<()> {
    let description = describe(&event.kind);
    output::line(&match format {
        Format::Json => serde_json::to_string(event)?,
        Format::Table => format!(
            "{}  {}  {}",
            time(event),
            theme.text(&format!("{:<18}", description.name), description.color),
            description.text
        ),
    })
}

fn table(theme: Theme, events: &[Event]) -> Table {
    let mut table = theme.new_table(["number", "time", "event", "what"]);
    for event in events {
        let description = describe(&event.kind);
        let name = match description.color {
            Some(color) => theme.cell(description.name, color),
            None => Cell::new(description.name),
        };
        table.add_row([
            Cell::new(event.sequence),
            Cell::whole(time(event)),
            name,
            Cell::new(description.text),
        ]);
    }
    table
}

/// When the daemon saw it, to the millisecond.
fn time(event: &Event) -> String {
    Timestamp::from_nanosecond(event.realtime_ns.into()).map_or_else(
        |_| event.realtime_ns.to_string(),
        |time| format!("{time:.3}"),
    )
}

#[cfg(test)]
pub mod tests {
    use covalent_api::guid::Guid;

    use super::*;
    use crate::output::walk;

    /// The widest events.
    pub fn widest(theme: Theme) -> String {
        let kinds = [
            EventKind::LinkUp {
                port: walk::NAME.into(),
                peer: Guid::new(u64::MAX).expect("not zero"),
                peer_name: walk::NAME.into(),
                peer_port: u16::MAX,
                epoch: u32::MAX,
            },
            EventKind::LinkDown {
                port: walk::NAME.into(),
                reason: "peer_restarted".into(),
                open_transactions: 64,
            },
        ];
        let events = kinds.map(|kind| Event {
            sequence: u64::MAX,
            realtime_ns: 1_795_430_826_123_456_789,
            kind,
        });
        table(theme, &events).to_string()
    }

    #[test]
    fn an_event_is_printed_with_number_time_and_text() {
        let event = Event {
            sequence: 41,
            realtime_ns: 1_795_430_826_123_456_789,
            kind: EventKind::Carrier {
                port: "p0".into(),
                up: false,
            },
        };
        let text = table(Theme::PLAIN, &[event]).to_string();
        for wanted in [
            "41",
            "2026-11-23T",
            ".123Z",
            "carrier",
            "port p0 lost its carrier",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
        }
    }
}
