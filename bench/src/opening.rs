//! The opening of the page about performance: six comparisons that readers look for first, as one
//! chart and one table. Made from the results of several suites.

use std::{fmt::Write as _, path::Path};

use anyhow::{Result, anyhow};
use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    coord::combinators::IntoLogRange,
    drawing::IntoDrawingArea,
    element::{PathElement, Rectangle, Text},
    style::{Color, IntoFont, RGBColor},
};

use crate::{
    failover,
    kept::Kept as _,
    latency, loss,
    streams::{
        self,
        case::{Case, Size, Test},
        goals::OURS,
        mark::FONT,
    },
};

/// Width and height of the chart, in pixels at its natural size.
const CHART_PX: (u32, u32) = (880, 360);

/// The side whose round trips are those of an application's compare-and-swap.
const SWAP: &str = "covalent-cas";

/// A figure of Covalent and the same of another system, from one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The work, in the words of a user.
    work: String,
    /// The other system, with its mode.
    peer: &'static str,
    /// The unit of both figures.
    unit: &'static str,
    /// Whether the smaller figure is the better one.
    less_is_better: bool,
    /// The figure of Covalent and that of the other system; `None` if either was not measured.
    figures: Option<(f64, f64)>,
    /// Copy or zero-copy, poll or adaptive, page size.
    conditions: String,
}

impl Comparison {
    /// How many times better Covalent is; below 1 the other system is better.
    fn ratio(&self) -> Option<f64> {
        let (ours, theirs) = self.figures?;
        let (better, worse) = if self.less_is_better {
            (theirs, ours)
        } else {
            (ours, theirs)
        };
        (worse > 0.0).then(|| better / worse)
    }
}

/// Returns the six comparisons: from `streams`, and from the last results beside `results`.
///
/// # Errors
/// If a result cannot be read.
pub fn comparisons(streams: &streams::Results, results: &Path) -> Result<Vec<Comparison>> {
    let latency = latency::Results::read_from(results)?;
    let failover = failover::Results::read_from(results)?;
    Ok(compare(streams, latency.as_ref(), failover.as_ref()))
}

fn compare(
    streams: &streams::Results,
    latency: Option<&latency::Results>,
    failover: Option<&failover::Results>,
) -> Vec<Comparison> {
    let pages = format!(
        "one copy each way, both sides poll, pages of {} KiB",
        streams.setup.page_bytes >> 10
    );
    let pipe = |work: &str, peer, test, size, unit, conditions: &str| {
        let figure = |name| {
            let case = Case { test, size };
            Some(streams.figure(name, case)?.figure.median)
        };
        Comparison {
            work: work.to_owned(),
            peer,
            unit,
            less_is_better: false,
            figures: figure(OURS).zip(figure(peer)),
            conditions: format!("{pages}{conditions}"),
        }
    };
    let trip = |peer, mode: &str| {
        let p50_us = |side: &str| {
            let mut all = latency?.figures.iter();
            Some(
                all.find(|figures| figures.side == side && figures.bytes == 8)?
                    .p50_us
                    .median,
            )
        };
        Comparison {
            work: "compare-and-swap at another node, round trip, p50".to_owned(),
            peer,
            unit: "µs",
            less_is_better: true,
            figures: p50_us(SWAP).zip(p50_us(peer)),
            conditions: format!(
                "one phase, AF_XDP on veth, copy, lanes poll, pages of 4 KiB; {mode}"
            ),
        }
    };
    let packets = "64 B packets to another process and back";
    let lent = "; testpmd's buffers in pages of 2 MiB";
    vec![
        pipe(
            packets,
            "dpdk-memif",
            Test::Echo,
            Size::Bytes(64),
            "Mpps",
            lent,
        ),
        pipe(
            packets,
            "dpdk-vhost",
            Test::Echo,
            Size::Bytes(64),
            "Mpps",
            lent,
        ),
        pipe(
            "messages of 4 KiB to another process, one at a time",
            "unix",
            Test::StreamUnbatched,
            Size::Bytes(4096),
            "GB/s",
            "; the socket's calls sleep when they must",
        ),
        trip(
            "rxe-cas",
            "soft-RoCE on the same veth, its completion queue polled",
        ),
        trip("tcp-spin", "a TCP request and reply of 8 B, both ends poll"),
        cut(failover),
    ]
}

/// The time from the repair of the only cable to the next reply, beside the fastest TCP.
fn cut(failover: Option<&failover::Results>) -> Comparison {
    let severed = failover.and_then(|results| results.severed.as_ref());
    let recovered_ms = |is_it: &dyn Fn(&str) -> bool| {
        let silent = severed?
            .cuts
            .iter()
            .filter(|cuts| cuts.way == loss::Method::Silent && is_it(&cuts.figures.side));
        silent
            .map(|cuts| cuts.recovered_ms.median)
            .min_by(f64::total_cmp)
    };
    let ours = recovered_ms(&|side| side == "covalent-message");
    let theirs = recovered_ms(&|side| side.starts_with("tcp"));
    Comparison {
        work: format!(
            "the only cable is silent for {} ms: from its repair to the next reply",
            severed.map_or(100, |severed| severed.cut_ms)
        ),
        peer: "tcp",
        unit: "ms",
        less_is_better: true,
        figures: ours.zip(theirs),
        conditions: "AF_XDP on veth, copy, pages of 4 KiB; the fastest of TCP's tunings".to_owned(),
    }
}

/// The text: the chart's reference and the table.
#[must_use]
pub fn text(comparisons: &[Comparison], chart: &str) -> String {
    let mut out = format!(
        "![How many times better than another system]({chart})\n\n\
         | work | Covalent | other system | | ratio | conditions |\n\
         |---|---:|---|---:|---:|---|\n"
    );
    for comparison in comparisons {
        let Comparison {
            work,
            peer,
            unit,
            conditions,
            ..
        } = comparison;
        // Writing to a string cannot fail.
        let _ = match (comparison.figures, comparison.ratio()) {
            (Some((ours, theirs)), Some(ratio)) => writeln!(
                out,
                "| {work} | {} {unit} | {peer} | {} {unit} | {ratio:.2} | {conditions} |",
                crate::cell::short(ours),
                crate::cell::short(theirs)
            ),
            _ => writeln!(
                out,
                "| {work} | | {peer} | [not in these runs](#contestants) | | {conditions} |"
            ),
        };
    }
    out
}

/// Draws the ratios as bars on a logarithmic scale; `None` if nothing was measured.
///
/// # Errors
/// If the backend fails.
pub fn chart(comparisons: &[Comparison]) -> Result<Option<String>> {
    let bars: Vec<(String, f64)> = comparisons
        .iter()
        .filter_map(|comparison| {
            let name = format!("{}: {}", comparison.peer, comparison.work);
            Some((name, comparison.ratio()?))
        })
        .collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    draw(&bars, &mut svg).map_err(|problem| anyhow!("drawing a chart: {problem}"))?;
    Ok(Some(svg))
}

fn draw(bars: &[(String, f64)], svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let least = bars
        .iter()
        .fold(1.0_f64, |least, (_, ratio)| least.min(*ratio));
    let most = bars
        .iter()
        .fold(1.0_f64, |most, (_, ratio)| most.max(*ratio));
    let root = SVGBackend::with_string(svg, CHART_PX).into_drawing_area();
    root.fill(&RGBColor(255, 255, 255))?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(44)
        .build_cartesian_2d(
            (least / 1.2..most * 1.6).log_scale(),
            0.0..bars.len() as f64,
        )?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(RGBColor(255, 255, 255))
        .x_label_formatter(&|ratio| format!("{ratio}"))
        .x_desc("times better than the other system (logarithmic); left of 1 it is better")
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    let area = chart.plotting_area();
    for (at, (name, ratio)) in bars.iter().enumerate() {
        let top = (bars.len() - at) as f64;
        let color = if *ratio < 1.0 {
            RGBColor(213, 94, 0)
        } else {
            RGBColor(0, 114, 178)
        };
        area.draw(&Rectangle::new(
            [(1.0, top - 0.9), (*ratio, top - 0.5)],
            color.filled(),
        ))?;
        let font = (FONT, 14).into_font();
        area.draw(&Text::new(
            format!("{ratio:.2}"),
            (ratio.max(1.0) * 1.02, top - 0.6),
            font,
        ))?;
        area.draw(&Text::new(
            name.clone(),
            (1.01, top - 0.1),
            (FONT, 13).into_font(),
        ))?;
    }
    let height = bars.len() as f64;
    area.draw(&PathElement::new(
        [(1.0, 0.0), (1.0, height)],
        RGBColor(0, 0, 0),
    ))?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comparison_states_its_ratio_or_that_it_was_not_measured() {
        let of_streams = compare(&streams::results::example(), None, None);
        assert_eq!(of_streams.len(), 6);
        let page = text(&of_streams, "performance/opening.svg");
        for words in [
            "![How many times better than another system](performance/opening.svg)",
            "| 64 B packets to another process and back | 55.0 Mpps | dpdk-memif | 11.0 Mpps | 5.00",
            "| rxe-cas | [not in these runs](#contestants) | |",
            "| tcp | [not in these runs](#contestants) | |",
        ] {
            assert!(page.contains(words), "{words:?} is not in\n{page}");
        }
        let svg = chart(&of_streams).expect("drawn").expect("one is measured");
        assert!(svg.contains("5.00") && svg.contains("dpdk-memif"));
    }

    #[test]
    fn the_fastest_tcp_is_the_peer_of_a_cut() {
        let results = failover::results::example::results();
        let comparison = cut(Some(&results));
        let severed = results.run.severed.expect("the example has a single cable");
        let (ours, theirs) = comparison.figures.expect("both are in the example");
        let all = || {
            severed
                .cuts
                .iter()
                .filter(|cuts| cuts.way == loss::Method::Silent)
        };
        assert!(all().any(|cuts| cuts.recovered_ms.median == ours));
        let tcps = all().filter(|cuts| cuts.figures.side.starts_with("tcp"));
        assert!(
            tcps.map(|cuts| cuts.recovered_ms.median)
                .all(|median| median >= theirs)
        );
        assert_eq!(comparison.ratio(), Some(theirs / ours));
    }

    #[test]
    fn without_results_there_is_no_chart() {
        let nothing = Comparison {
            figures: None,
            ..cut(None)
        };
        assert_eq!(chart(&[nothing]).expect("no error"), None);
    }
}
