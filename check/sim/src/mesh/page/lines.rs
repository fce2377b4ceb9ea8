//! The timeline: a line for each node, arrows for frames, marks for events.

use std::collections::BTreeSet;

use super::{escape, put, round_trips};
use crate::{
    mesh::{
        time::ROUND_TRIP_UNITS,
        trace::{MarkKind, Trace},
    },
    shape::Shape,
};

/// Pixels of a round trip.
const ROUND_TRIP_PX: f64 = 36.0;
/// Units of a stretch without anything that are drawn; longer ones are shortened to it.
const GAP_UNITS: u64 = 2 * ROUND_TRIP_UNITS;
/// Pixels between two lines, left of them for names, and above them.
const LINE_PX: f64 = 26.0;
const NAMES_PX: f64 = 70.0;
const ABOVE_PX: f64 = 40.0;
/// Nodes beyond which only those have a line that did something.
const LINES_MAX: usize = 64;

/// Where each moment is, from left to right. Stretches in which nothing happens are shortened.
pub(super) struct Axis {
    /// Moments at which something happens, and where they are.
    moments: Vec<(u64, f64)>,
}

impl Axis {
    pub fn of(trace: &Trace) -> Self {
        let marks = trace.marks.iter().map(|mark| mark.at_units);
        let arrows = trace
            .arrows
            .iter()
            .flat_map(|arrow| std::iter::once(arrow.sent_units).chain(arrow.arrives_units));
        let all: BTreeSet<u64> = marks.chain(arrows).collect();
        let mut moments = Vec::with_capacity(all.len());
        let (mut last, mut x) = (None, NAMES_PX);
        for at in all {
            let gap = last.map_or(0, |last| at - last).min(GAP_UNITS);
            x += gap as f64 * ROUND_TRIP_PX / ROUND_TRIP_UNITS as f64;
            moments.push((at, x));
            last = Some(at);
        }
        Self { moments }
    }

    /// Where a moment is: where the last one is at which something happens.
    pub fn x(&self, units: u64) -> f64 {
        let behind = self.moments.partition_point(|(at, _)| *at <= units);
        let last = behind.checked_sub(1).and_then(|at| self.moments.get(at));
        last.map_or(NAMES_PX, |(_, x)| *x)
    }

    /// Places with their moments, not nearer to each other than a text is wide.
    pub fn ticks(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut last = f64::MIN;
        let far = move |&&(_, x): &&(u64, f64)| {
            let far = x - last >= ROUND_TRIP_PX * 1.5;
            if far {
                last = x;
            }
            far
        };
        self.moments.iter().filter(far).map(|&(at, x)| (x, at))
    }

    fn end(&self) -> f64 {
        self.moments.last().map_or(NAMES_PX, |(_, x)| *x) + 40.0
    }
}

pub(super) fn draw(out: &mut String, shape: &Shape, trace: &Trace, axis: &Axis) {
    let lines = lines(shape, trace);
    let y = |node: u16| {
        let place = lines.iter().position(|line| *line == node).unwrap_or(0);
        ABOVE_PX + (place as f64 + 1.0) * LINE_PX
    };
    let (width, height) = (axis.end(), ABOVE_PX + (lines.len() as f64 + 1.0) * LINE_PX);
    choices(out);
    put(
        out,
        format_args!(
            "<div class=\"scroll\"><svg id=\"lines\" width=\"{width:.0}\" height=\"{height:.0}\">\n"
        ),
    );
    for &node in &lines {
        let (name, y) = (escape(&shape.node_name(usize::from(node))), y(node));
        put(
            out,
            format_args!(
                "<line class=\"lane\" x1=\"{NAMES_PX}\" y1=\"{y}\" x2=\"{width:.0}\" \
                 y2=\"{y}\"/><text x=\"4\" y=\"{:.1}\">{name}</text>\n",
                y + 4.0
            ),
        );
    }
    for (x, units) in axis.ticks() {
        put(
            out,
            format_args!(
                "<text class=\"tick\" x=\"{x:.1}\" y=\"14\">{:.1}</text>\n",
                round_trips(units)
            ),
        );
    }
    for arrow in &trace.arrows {
        let kind = arrow.kind.as_str();
        let [from, to] =
            [arrow.from, arrow.to].map(|node| escape(&shape.node_name(usize::from(node))));
        let x = axis.x(arrow.sent_units);
        let (end, gone) = match arrow.arrives_units {
            Some(units) => ((axis.x(units), y(arrow.to)), ""),
            // As far as half of the way.
            None => ((x + 6.0, (y(arrow.from) + y(arrow.to)) / 2.0), " gone"),
        };
        put(
            out,
            format_args!(
                "<line class=\"arrow {kind}{gone}\" x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" \
                 y2=\"{:.1}\"><title>{kind}{gone}: {from} to {to}, {:.2} round \
                 trips</title></line>\n",
                y(arrow.from),
                end.0,
                end.1,
                round_trips(arrow.sent_units)
            ),
        );
    }
    for mark in &trace.marks {
        let (kind, x) = (mark.kind.as_str(), axis.x(mark.at_units));
        let text = escape(&mark.text);
        let at = round_trips(mark.at_units);
        let everywhere = mark.node.is_none();
        if everywhere {
            put(
                out,
                format_args!(
                    "<line class=\"{kind}\" x1=\"{x:.1}\" y1=\"20\" x2=\"{x:.1}\" \
                     y2=\"{height:.0}\"><title>{at:.2}: {text}</title></line>\n"
                ),
            );
        }
        if mark.kind == MarkKind::Violation {
            put(
                out,
                format_args!(
                    "<text class=\"violation-text\" x=\"{:.1}\" y=\"30\">{text}</text>\n",
                    x + 4.0
                ),
            );
        }
        if let Some(node) = mark.node {
            put(
                out,
                format_args!(
                    "<circle class=\"mark {kind}\" cx=\"{x:.1}\" cy=\"{:.1}\" \
                     r=\"4\"><title>{at:.2}: {text}</title></circle>\n",
                    y(node)
                ),
            );
        }
    }
    *out += "</svg></div>\n";
}

/// Which nodes have a line.
fn lines(shape: &Shape, trace: &Trace) -> Vec<u16> {
    if shape.nodes <= LINES_MAX {
        return (0..shape.nodes as u16).collect();
    }
    let marked = trace.marks.iter().filter_map(|mark| mark.node);
    let arrow_ends = trace.arrows.iter().flat_map(|arrow| [arrow.from, arrow.to]);
    marked
        .chain(arrow_ends)
        .collect::<BTreeSet<u16>>()
        .into_iter()
        .collect()
}

/// Writes the controls that hide parts of the drawing.
fn choices(out: &mut String) {
    *out += "<p class=\"choices\">";
    for kind in [
        "handshake",
        "exchange",
        "question",
        "called",
        "advert",
        "denied",
        "search",
        "up",
        "down",
        "hangs",
        "lost",
        "path",
        "ended",
    ] {
        put(
            out,
            format_args!(
                "<label class=\"{kind}\"><input type=\"checkbox\" checked=\"checked\" \
                 value=\"{kind}\"/>{kind}</label> "
            ),
        );
    }
    *out += "</p>\n";
}
