//! The picture.

use covalent_api::status::{LaneStatus, LinkStatus, PipeStatus, PortStatus};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    symbols::bar::NINE_LEVELS,
    text::{Line, Span},
    widgets::{Block, Paragraph, Row, Table},
};

use super::{
    keys::{Part, Shown},
    rates::Rates,
};
use crate::{
    output::{Theme, duration, grouped},
    status,
};

/// Columns of the bars beside a rate.
const BARS: usize = 30;

/// Rows of a table besides its data: its frame and its header.
const FRAME_ROWS: u16 = 3;

/// Everything that a picture is made of.
pub struct View<'a> {
    /// The figures.
    pub rates: &'a Rates,
    /// Which of them.
    pub shown: &'a Shown,
    /// Whether there are colors.
    pub theme: Theme,
    /// Why nothing new comes, if so.
    pub gone: Option<&'a str>,
}

/// A table before it has its place.
struct Content {
    title: &'static str,
    header: Vec<&'static str>,
    widths: Vec<Constraint>,
    rows: Vec<(Vec<String>, Option<Color>)>,
}

impl View<'_> {
    /// Draws the picture. Returns how many rows can be scrolled past.
    pub fn draw(&self, frame: &mut Frame<'_>) -> usize {
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        frame.render_widget(Paragraph::new(self.foot()), foot);
        if let Some(part) = self.shown.alone {
            let content = self.content(part);
            let room = usize::from(body.height.saturating_sub(FRAME_ROWS));
            let past = content.rows.len().saturating_sub(room);
            self.table(frame, body, content, self.shown.first_row.min(past), part);
            return past;
        }
        let contents = Part::ALL.map(|part| self.content(part));
        let empty = empty(&contents);
        let line_height = u16::from(!empty.is_empty());
        let rows = [Constraint::Min(0), Constraint::Length(line_height)];
        let [body, line] = Layout::vertical(rows).areas(body);
        frame.render_widget(Paragraph::new(empty), line);
        let wanted = contents.each_ref().map(|content| {
            if content.rows.is_empty() {
                return 0;
            }
            FRAME_ROWS
                + u16::try_from(content.rows.len())
                    .unwrap_or(u16::MAX)
                    .min(1_000)
        });
        let heights = shared(wanted, body.height).map(Constraint::Length);
        let places: [Rect; 5] = Layout::vertical(heights).areas(body);
        for ((content, place), part) in contents.into_iter().zip(places).zip(Part::ALL) {
            if !content.rows.is_empty() {
                self.table(frame, place, content, 0, part);
            }
        }
        0
    }

    fn head(&self) -> Line<'static> {
        if let Some(why) = self.gone {
            return Line::styled(
                format!("{why}: showing the last values; waiting for it"),
                self.color(Some(Color::Red)).add_modifier(Modifier::BOLD),
            );
        }
        let Some(status) = self.rates.status() else {
            return Line::raw("");
        };
        let mut text = format!(
            "node {} ({}), process {}, up {}, {} attached, configuration revision {}",
            status.node,
            status.guid,
            status.pid,
            duration(status.uptime_ns),
            status.sessions,
            status.config.held.epoch,
        );
        if status.omitted > 0 {
            text += &format!(", {} omitted", status.omitted);
        }
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    fn foot(&self) -> Line<'static> {
        let keys = [
            ("q", "leave"),
            ("1-5", "one part"),
            ("0", "all"),
            ("↑↓", "scroll"),
            (
                "space",
                if self.shown.held {
                    "go on (held)"
                } else {
                    "hold"
                },
            ),
        ];
        let spans = keys.iter().flat_map(|(key, what)| {
            let key = Span::styled(
                format!(" {key} "),
                Style::new().add_modifier(Modifier::REVERSED),
            );
            [key, Span::raw(format!(" {what}  "))]
        });
        Line::from_iter(spans)
    }

    fn color(&self, color: Option<Color>) -> Style {
        match color.filter(|_| self.theme.is_colored()) {
            Some(color) => Style::new().fg(color),
            None => Style::new(),
        }
    }

    fn table(
        &self,
        frame: &mut Frame<'_>,
        place: Rect,
        content: Content,
        first: usize,
        part: Part,
    ) {
        let room = usize::from(place.height.saturating_sub(FRAME_ROWS));
        let total = content.rows.len();
        let title = if total > room {
            let key = Part::ALL.iter().position(|it| *it == part).unwrap_or(0) + 1;
            let last = (first + room).min(total);
            format!(
                " {}: {} to {last} of {total}, key {key} ",
                content.title,
                first + 1
            )
        } else {
            format!(" {} ", content.title)
        };
        let rows = content
            .rows
            .into_iter()
            .skip(first)
            .map(|(cells, color)| Row::new(cells).style(self.color(color)));
        let header = Row::new(content.header).style(Style::new().add_modifier(Modifier::DIM));
        let table = Table::new(rows, content.widths)
            .header(header)
            .column_spacing(2)
            .block(Block::bordered().title(title));
        frame.render_widget(table, place);
    }

    fn content(&self, part: Part) -> Content {
        let status = self.rates.status();
        match part {
            Part::Lanes => Content {
                title: "lanes",
                header: vec![
                    "lane",
                    "core",
                    "idle",
                    "busy",
                    "CPU",
                    "longest round",
                    "CPU, last minute of samples",
                ],
                widths: widths(&[6, 7, 10, 8, 8, 14, BARS as u16]),
                rows: each(status.map(|status| &status.lanes), |lane| self.lane(lane)),
            },
            Part::Ports => Content {
                title: "ports",
                header: vec![
                    "port",
                    "carrier",
                    "rx packets/s",
                    "rx bits/s",
                    "tx packets/s",
                    "tx bits/s",
                    "dropped",
                    "packets",
                    "mode in effect",
                ],
                widths: widths(&[10, 8, 12, 10, 12, 10, 9, BARS as u16, 40]),
                rows: each(status.map(|status| &status.ports), |port| self.port(port)),
            },
            Part::Links => Content {
                title: "links",
                header: vec![
                    "port",
                    "state",
                    "peer",
                    "epoch",
                    "open",
                    "committed/s",
                    "executed/s",
                    "failures",
                    "exchanges",
                ],
                widths: widths(&[10, 14, 14, 7, 6, 12, 12, 9, BARS as u16]),
                rows: each(status.map(|status| &status.links), |link| self.link(link)),
            },
            Part::Pipes => Content {
                title: "pipes",
                header: vec![
                    "session",
                    "pipe",
                    "kind",
                    "to app/s",
                    "bits/s",
                    "from app/s",
                    "bits/s",
                    "dropped",
                    "packets",
                ],
                widths: widths(&[8, 6, 11, 10, 10, 10, 10, 9, BARS as u16]),
                rows: each(status.map(|status| &status.pipes), |pipe| self.pipe(pipe)),
            },
            Part::Drops => Content {
                title: "drops, refusals and failures, by cause",
                header: vec!["total", "per second", "where, what, why", "rate"],
                widths: widths(&[14, 12, 50, BARS as u16]),
                rows: self.losses(),
            },
        }
    }

    fn lane(&self, lane: &LaneStatus) -> (Vec<String>, Option<Color>) {
        let name = format!("lane {}", lane.lane);
        let rate = |what: &str| self.rates.rate(&format!("{name} {what}"));
        let busy = rate("busy")
            .zip(rate("loops"))
            .map(|(busy, all)| match all > 0.0 {
                true => busy / all,
                false => 0.0,
            });
        let cells = vec![
            lane.lane.to_string(),
            lane.core
                .map_or_else(|| "floats".into(), |core| core.to_string()),
            lane.idle.clone(),
            share(busy),
            share(rate("cpu").map(|ns| ns / 1e9)),
            duration(lane.longest_round_ns),
            self.bars(&format!("{name} cpu")),
        ];
        (cells, None)
    }

    fn port(&self, port: &PortStatus) -> (Vec<String>, Option<Color>) {
        let name = format!("port {}", port.name);
        let rate = |what: &str| self.rates.rate(&format!("{name} {what}"));
        let (carrier, color) = match (&port.absent, port.carrier) {
            (Some(_), _) => ("gone", Some(Color::Red)),
            (None, true) => ("yes", None),
            (None, false) => ("no", Some(Color::Red)),
        };
        let cells = vec![
            port.name.clone(),
            carrier.into(),
            figure(rate("rx")),
            figure(rate("rx bytes").map(bits)),
            figure(rate("tx")),
            figure(rate("tx bytes").map(bits)),
            grouped(port.drops.values().sum()),
            self.bars(&format!("{name} both")),
            status::mode(&port.kind, &port.mode),
        ];
        (cells, color)
    }

    fn link(&self, link: &LinkStatus) -> (Vec<String>, Option<Color>) {
        let name = format!("link {}", link.port);
        let rate = |what: &str| self.rates.rate(&format!("{name} {what}"));
        let state = match &link.refusal {
            Some(refusal) => format!("{}: {}", link.state, refusal.cause),
            None => link.state.clone(),
        };
        let cells = vec![
            link.port.clone(),
            state,
            link.peer_name.clone().unwrap_or_else(|| "–".into()),
            link.epoch.to_string(),
            link.open_transactions.to_string(),
            figure(rate("committed")),
            figure(rate("executed")),
            grouped(link.failures.values().sum()),
            self.bars(&format!("{name} both")),
        ];
        let color = if link.state == "up" {
            Color::Green
        } else {
            Color::Red
        };
        (cells, Some(color))
    }

    fn pipe(&self, pipe: &PipeStatus) -> (Vec<String>, Option<Color>) {
        let name = format!("pipe {} {}", pipe.session, pipe.pipe);
        let rate = |what: &str| self.rates.rate(&format!("{name} {what}"));
        let cells = vec![
            pipe.session.to_string(),
            pipe.pipe.to_string(),
            status::pipe_kind(pipe.kind).into(),
            figure(rate("rx")),
            figure(rate("rx bytes").map(bits)),
            figure(rate("tx")),
            figure(rate("tx bytes").map(bits)),
            grouped(pipe.drops.values().sum()),
            self.bars(&format!("{name} both")),
        ];
        (cells, None)
    }

    fn losses(&self) -> Vec<(Vec<String>, Option<Color>)> {
        let row = |(name, total, rate): (String, u64, f64)| {
            let color = (rate > 0.0).then_some(Color::Red);
            let bars = self.bars(&name);
            (vec![grouped(total), figure(Some(rate)), name, bars], color)
        };
        self.rates.losses().into_iter().map(row).collect()
    }

    fn bars(&self, name: &str) -> String {
        bars(&self.rates.history(name))
    }
}

/// The line that names the parts with nothing to show, and their keys.
fn empty(contents: &[Content]) -> String {
    let parts = contents.iter().zip(1..);
    let named: Vec<_> = parts
        .filter(|(content, _)| content.rows.is_empty())
        .map(|(content, key)| format!("{} (key {key})", content.title))
        .collect();
    match named.as_slice() {
        [] => String::new(),
        named => format!(" Nothing to show: {}", named.join("; ")),
    }
}

fn each<T>(
    all: Option<&Vec<T>>,
    row: impl Fn(&T) -> (Vec<String>, Option<Color>),
) -> Vec<(Vec<String>, Option<Color>)> {
    all.into_iter().flatten().map(row).collect()
}

fn widths(columns: &[u16]) -> Vec<Constraint> {
    columns
        .iter()
        .map(|&columns| Constraint::Length(columns))
        .collect()
}

/// Distributes `height` rows: each part gets the rows that it wants, or fewer. The largest parts
/// are reduced first.
fn shared(mut wanted: [u16; 5], height: u16) -> [u16; 5] {
    while wanted.iter().sum::<u16>() > height {
        let Some(largest) = wanted.iter_mut().max().filter(|rows| **rows > 0) else {
            break;
        };
        *largest -= 1;
    }
    wanted
}

/// The last rates as bars; the highest of them is a whole one.
fn bars(history: &[f64]) -> String {
    let shown = &history[history.len().saturating_sub(BARS)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let bar = |&rate: &f64| match rate > 0.0 {
        // A nonzero rate is always visible.
        true => level(((rate / most) * 8.0).ceil() as usize),
        false => NINE_LEVELS.empty,
    };
    shown.iter().map(bar).collect()
}

const fn level(eighths: usize) -> &'static str {
    match eighths {
        0 => NINE_LEVELS.empty,
        1 => NINE_LEVELS.one_eighth,
        2 => NINE_LEVELS.one_quarter,
        3 => NINE_LEVELS.three_eighths,
        4 => NINE_LEVELS.half,
        5 => NINE_LEVELS.five_eighths,
        6 => NINE_LEVELS.three_quarters,
        7 => NINE_LEVELS.seven_eighths,
        _ => NINE_LEVELS.full,
    }
}

fn bits(bytes: f64) -> f64 {
    bytes * 8.0
}

/// A rate with the unit's thousands as a letter: `1.50 M`.
fn figure(rate: Option<f64>) -> String {
    let Some(rate) = rate else {
        return "–".into();
    };
    match rate {
        0.0 => "0".into(),
        ..1e3 => format!("{rate:.1}"),
        ..1e6 => format!("{:.2} k", rate / 1e3),
        ..1e9 => format!("{:.2} M", rate / 1e6),
        _ => format!("{:.2} G", rate / 1e9),
    }
}

fn share(of_one: Option<f64>) -> String {
    of_one.map_or_else(|| "–".into(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::status::sample_node;

    /// A node that was looked at twice, a second apart.
    fn rates() -> Rates {
        let mut rates = Rates::default();
        let mut status = sample_node();
        rates.take(status.clone());
        status.uptime_ns += 1_000_000_000;
        status.ports[0].rx_packets += 1_500_000;
        status.lanes[0].cpu_ns += 250_000_000;
        rates.take(status);
        rates
    }

    fn picture(shown: &Shown, gone: Option<&str>, rows: u16) -> (String, usize) {
        let rates = rates();
        let view = View {
            rates: &rates,
            shown,
            theme: Theme::PLAIN,
            gone,
        };
        let mut terminal = Terminal::new(TestBackend::new(170, rows)).expect("in memory");
        let mut past = 0;
        terminal
            .draw(|frame| past = view.draw(frame))
            .expect("drawn");
        (terminal.backend().to_string(), past)
    }

    #[test]
    fn all_parts_are_in_the_picture_with_their_rates() {
        let (text, _) = picture(&Shown::default(), None, 50);
        for wanted in [
            "node a (0000000000000abc)",
            " lanes ",
            "25.0 %",
            " ports ",
            "1.50 M",
            "native XDP",
            " links ",
            "up",
            " pipes ",
            "port p0: dropped, no_pipe",
            "17",
            " q  leave",
            "█",
        ] {
            assert!(text.contains(wanted), "`{wanted}` is missing in\n{text}");
        }
    }

    #[test]
    fn parts_with_nothing_to_show_are_one_line() {
        let mut rates = Rates::default();
        let mut status = sample_node();
        status.pipes.clear();
        status.links.clear();
        rates.take(status);
        let draw = |shown: &Shown| {
            let view = View {
                rates: &rates,
                shown,
                theme: Theme::PLAIN,
                gone: None,
            };
            let mut terminal = Terminal::new(TestBackend::new(100, 40)).expect("in memory");
            terminal
                .draw(|frame| {
                    view.draw(frame);
                })
                .expect("drawn");
            terminal.backend().to_string()
        };
        let text = draw(&Shown::default());
        let line = " Nothing to show: links (key 3); pipes (key 4) ";
        assert!(text.contains(line), "{text}");
        assert!(
            !text.contains("to app/s") && !text.contains("committed/s"),
            "{text}"
        );
        assert!(
            text.contains(" lanes ") && text.contains(" ports "),
            "{text}"
        );
        // Its key shows it all the same.
        let alone = Shown {
            alone: Some(Part::Pipes),
            ..Shown::default()
        };
        let text = draw(&alone);
        assert!(text.contains("to app/s"), "{text}");
        assert!(!text.contains("Nothing to show"), "{text}");
    }

    #[test]
    fn rows_that_do_not_fit_are_announced_and_can_be_scrolled() {
        let (text, past) = picture(&Shown::default(), None, 20);
        assert!(text.contains("key 5"), "{text}");
        assert_eq!(past, 0);
        let alone = Shown {
            alone: Some(Part::Drops),
            first_row: 99,
            held: true,
        };
        let (text, past) = picture(&alone, None, 8);
        assert!(
            past > 0 && text.contains(&format!("{} to", past + 1)),
            "{text}"
        );
        assert!(
            !text.contains(" lanes ") && text.contains("(held)"),
            "{text}"
        );
    }

    #[test]
    fn loss_of_the_daemon_is_shown() {
        let (text, _) = picture(&Shown::default(), Some("the daemon is gone"), 50);
        assert!(
            text.contains("the daemon is gone: showing the last values"),
            "{text}"
        );
    }

    #[test]
    fn bars_and_figures() {
        assert_eq!(bars(&[0.0, 1.0, 4.0, 8.0]), " ▁▄█");
        assert_eq!(bars(&[0.0]), " ");
        assert_eq!(bars(&vec![1.0; 100]).chars().count(), BARS);
        assert_eq!(figure(Some(1_234.0)), "1.23 k");
        assert_eq!(figure(Some(0.5)), "0.5");
        assert_eq!(figure(None), "–");
        assert_eq!(shared([10, 4, 4, 4, 8], 20), [4, 4, 4, 4, 4]);
        assert_eq!(shared([1; 5], 2).iter().sum::<u16>(), 2);
    }
}
