//! A run as a bar chart: one group per frame size, one bar per contestant, with its spread as a
//! line.

use anyhow::{Result, anyhow};
use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    drawing::IntoDrawingArea,
    element::{PathElement, Rectangle, Text},
    style::{Color, IntoFont, RGBColor, TextStyle},
};

use super::{
    contestant::{ALL, OURS},
    results::Results,
};
use crate::cell::short;

/// Width and height, in pixels at its natural size.
const PLOT_PX: (u32, u32) = (880, 420);

/// Of those, for names at the right.
const NAMES_PX: i32 = 200;

/// Between two groups, in widths of a bar.
const GAP: usize = 1;

const FONT: &str = "sans-serif";

/// Colors that are distinguishable with any color vision (Okabe and Ito).
const COLORS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(110, 110, 110),
];

// No two contestants look alike.
const _: () = assert!(ALL.len() <= COLORS.len());

/// Draws it.
pub fn bars(results: &Results, title: &str) -> Result<String> {
    let mut svg = String::new();
    draw(results, title, &mut svg).map_err(|problem| anyhow!("drawing a plot: {problem}"))?;
    Ok(svg)
}

fn draw(
    results: &Results,
    title: &str,
    svg: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, PLOT_PX).into_drawing_area();
    root.fill(&RGBColor(255, 255, 255))?;
    let (left, right) = root.split_horizontally(PLOT_PX.0 as i32 - NAMES_PX);
    let (sizes, names) = (results.sizes(), names(results));
    let group = names.len() + GAP;
    let high = results
        .figures
        .iter()
        .map(|figure| figure.mpps.max)
        .fold(0.1, f64::max);
    let mut chart = ChartBuilder::on(&left)
        .caption(title, (FONT, 18))
        .margin(12)
        .x_label_area_size(12)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..(group * sizes.len()) as f64, 0.0..high * 1.25)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_label_formatter(&|figure| format!("{figure:.1}"))
        .y_desc("million frames per second that arrived")
        .light_line_style(RGBColor(255, 255, 255))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    for (at_size, &size) in sizes.iter().enumerate() {
        let place = ((at_size * group) as f64 + GAP as f64 / 2.0, high * 1.2);
        let style = TextStyle::from((FONT, 15).into_font());
        chart.draw_series([Text::new(format!("{size} frames"), place, style)])?;
        for (at, name) in names.iter().enumerate() {
            let Some(figure) = results.figure(name, size) else {
                continue;
            };
            let start = (at_size * group + at) as f64 + GAP as f64 / 2.0;
            let (middle, mpps) = (start + 0.5, &figure.mpps);
            let bar = [(start + 0.08, 0.0), (start + 0.92, mpps.median)];
            chart.draw_series([Rectangle::new(bar, color(at).filled())])?;
            let spread = [(middle, mpps.min), (middle, mpps.max)];
            let gray = RGBColor(120, 120, 120).stroke_width(2);
            chart.draw_series([PathElement::new(spread, gray)])?;
            let style = TextStyle::from((FONT, 11).into_font());
            let place = (start + 0.1, mpps.max + high * 0.05);
            chart.draw_series([Text::new(short(mpps.median), place, style)])?;
        }
    }
    for (at, name) in names.iter().enumerate() {
        let y = 60 + 24 * at as i32;
        right.draw(&Rectangle::new(
            [(8, y - 6), (22, y + 6)],
            color(at).filled(),
        ))?;
        let words = if *name == OURS {
            format!("{name} (into a pipe)")
        } else {
            (*name).to_owned()
        };
        let style = TextStyle::from((FONT, 13).into_font());
        right.draw(&Text::new(words, (30, y - 7), style))?;
    }
    root.present()?;
    Ok(())
}

fn color(at: usize) -> RGBColor {
    COLORS[at % COLORS.len()]
}

/// Returns the contestants that were measured at some size, in their order.
fn names(results: &Results) -> Vec<&str> {
    results
        .contestants
        .iter()
        .map(|entry| entry.name.as_str())
        .filter(|name| {
            results
                .figures
                .iter()
                .any(|figure| figure.contestant == *name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::results::example;

    #[test]
    fn every_figure_has_a_bar_with_its_number() {
        let svg = bars(&example(), "A title").expect("drawn");
        for words in [
            "A title",
            "64 B frames",
            "mix frames",
            "million frames per second",
            "covalent-port (into a pipe)",
            "dpdk-af_xdp-busy",
            "0.990",
            "0.500",
        ] {
            assert!(svg.contains(words), "{words:?} is not in the plot");
        }
        assert!(!svg.contains("dpdk-af_packet"), "it was not measured");
        let filled = |color: &str| svg.matches(&format!("fill=\"{color}\"")).count();
        // A bar at each size and one in the legend.
        assert_eq!((filled("#D55E00"), filled("#009E73")), (3, 2));
    }
}
