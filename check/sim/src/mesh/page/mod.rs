//! A trace as one HTML file with the graph, a tree and a timeline. It opens from disk and loads
//! nothing else.
//!
//! | file | contents |
//! |---|---|
//! | `graph` | place of each node, and the graph |
//! | `lines` | the timeline: a line for each node, arrows for frames |
//! | `style.css`, `script.js` | appearance; a slider, choices of kinds |

mod graph;
mod lines;

use std::fmt::Write as _;

use super::{figures::MeshReport, time::ROUND_TRIP_UNITS, trace::Trace};
use crate::{harness::Violation, shape::Shape};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Contents of a page besides the trace.
#[derive(Debug, Clone, Copy)]
pub struct Title<'a> {
    /// The command that makes the run again.
    pub command: &'a str,
    /// Report of the run, if every invariant held.
    pub report: Option<&'a MeshReport>,
    /// The broken invariant, if any.
    pub violation: Option<&'a Violation>,
}

/// The page, as a whole document that is HTML and XML.
#[must_use]
pub fn page(title: &Title<'_>, shape: &Shape, trace: &Trace) -> String {
    let axis = lines::Axis::of(trace);
    let mut out =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>");
    put(
        &mut out,
        format_args!(
            "<title>{}</title>\n<style>\n{STYLE}</style></head>\n<body>\n",
            escape(&shape.name)
        ),
    );
    head(&mut out, title, shape, trace);
    out += "<main>\n<section class=\"graph\">\n";
    graph::draw(&mut out, shape, trace);
    out += "</section>\n<section class=\"lines\">\n";
    lines::draw(&mut out, shape, trace, &axis);
    out += "</section>\n</main>\n";
    data(&mut out, trace, &axis);
    put(
        &mut out,
        format_args!("<script>//<![CDATA[\n{SCRIPT}//]]></script>\n</body>\n</html>\n"),
    );
    out
}

fn head(out: &mut String, title: &Title<'_>, shape: &Shape, trace: &Trace) {
    put(
        out,
        format_args!(
            "<h1>{}: {} nodes, {} cables</h1>\n<pre>{}</pre>\n",
            escape(&shape.name),
            shape.nodes,
            shape.cables.len(),
            escape(title.command)
        ),
    );
    if let Some(violation) = title.violation {
        put(
            out,
            format_args!(
                "<p class=\"broken\">Broken: {}: {}</p>\n",
                escape(violation.checker),
                escape(&violation.what)
            ),
        );
    }
    if let Some(report) = title.report {
        put(
            out,
            format_args!(
                "<p>Every invariant held. Fingerprint \
                 {:016x}.</p>\n<details><summary>Figures</summary><table>\n",
                report.fingerprint
            ),
        );
        for (what, how_much) in report.figures() {
            put(
                out,
                format_args!(
                    "<tr><td>{}</td><td>{}</td></tr>\n",
                    escape(what),
                    escape(&how_much)
                ),
            );
        }
        *out += "</table></details>\n";
    }
    if trace.left_out > 0 {
        put(
            out,
            format_args!(
                "<p class=\"left-out\">{} marks and frames are not shown. Choose a stretch of time \
                 with --from and --to, or one tree with --root.</p>\n",
                trace.left_out
            ),
        );
    }
}

/// Writes the data from which the script redraws the graph: states of links and parents, by time.
fn data(out: &mut String, trace: &Trace, axis: &lines::Axis) {
    let list = |items: Vec<String>| items.join(",");
    let cables = trace.cables.iter().map(|change| {
        let at = axis.x(change.at_units);
        format!("[{at:.1},{},{}]", change.cable, change.ends_up)
    });
    let parents = trace.parents.iter().map(|change| {
        let at = axis.x(change.at_units);
        let parent = change.parent.map_or(-1, i32::from);
        format!("[{at:.1},{},{parent}]", change.node)
    });
    let ticks = axis
        .ticks()
        .map(|(x, units)| format!("[{x:.1},{:.1}]", round_trips(units)));
    put(
        out,
        format_args!(
            "<script>const cables=[{}],parents=[{}],ticks=[{}];</script>\n",
            list(cables.collect()),
            list(parents.collect()),
            list(ticks.collect())
        ),
    );
}

fn round_trips(units: u64) -> f64 {
    units as f64 / ROUND_TRIP_UNITS as f64
}

/// Writes into a text, which cannot fail.
fn put(out: &mut String, what: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(what);
    debug_assert!(written.is_ok(), "a text takes whatever is written");
}

/// A text as it stands between tags and in attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // No document may have them.
            character if character.is_control() => escaped.push('\u{fffd}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        harness::Simulator,
        mesh::{self, FaultClass, MeshFaults, MeshMutant, MeshOptions},
    };

    fn well_formed(page: &str) {
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..roxmltree::ParsingOptions::default()
        };
        let document = roxmltree::Document::parse_with_options(page, options).unwrap();
        assert_eq!(document.root_element().tag_name().name(), "html");
    }

    fn drawn(seed: u64, shape: &Shape, options: &MeshOptions) -> String {
        let (result, trace) = mesh::run(seed, shape.clone(), options, Some(Trace::default()));
        let violation = result.as_ref().err().map(|failure| &failure.violation);
        let title = Title {
            command: &options.command(seed),
            report: result.as_ref().ok(),
            violation,
        };
        page(&title, shape, &trace.unwrap())
    }

    #[test]
    fn a_page_is_one_well_formed_file_that_loads_nothing() {
        let options = MeshOptions {
            churn: 6,
            ..MeshOptions::new()
        };
        let text = "a<b \"x&y\"\n\"x&y\" ' \n' a<b\n";
        let shape = Shape::read(text, "<rack>").unwrap();
        let page = drawn(3, &shape, &options);
        well_formed(&page);
        for part in [
            "&lt;rack&gt;",
            "a&lt;b",
            "&quot;x&amp;y&quot;",
            "Fingerprint",
            "is up, epoch 1",
        ] {
            assert!(page.contains(part), "`{part}` is missing");
        }
        for part in ["http", "src=", "<rack>", "@import", "url("] {
            assert!(!page.contains(part), "`{part}` is there");
        }
        assert_eq!(page, drawn(3, &shape, &options), "the same bytes again");
    }

    #[test]
    fn a_violation_is_on_the_page() {
        let options = MeshOptions {
            faults: MeshFaults::of(&[FaultClass::Cut]),
            mutant: Some(MeshMutant::RetriesBlindly),
            ..MeshOptions::new()
        };
        let shape = Shape::full(5);
        let page = drawn(1, &shape, &options);
        well_formed(&page);
        assert!(page.contains("Broken: once: "), "{}", page.len());
        assert!(page.contains("class=\"violation\""));
    }
}
