//! Quantiles as curves. The x axis is the fraction of all requests, as nines; the y axis is the
//! time. Both are logarithmic. A tail is a curve that turns upwards.

use anyhow::{Result, anyhow};
use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    coord::combinators::IntoLogRange,
    drawing::IntoDrawingArea,
    element::{PathElement, Text},
    series::LineSeries,
    style::{Color, IntoFont, RGBColor, TextStyle},
};

use super::results::{Figures, Results};
use crate::streams::{Drawn, FONT, MARKS, steps_around, tick};

/// Width and height of a plot, in pixels at its natural size.
const PLOT_PX: (u32, u32) = (880, 480);

/// Of those, for names at the right.
const NAMES_PX: i32 = 200;

/// Draws the requests of one size.
pub fn curves(results: &Results, bytes: usize) -> Result<String> {
    let figures: Vec<&Figures> = results.of_size(bytes).collect();
    let title = format!("Latency of {bytes} bytes there and back");
    let mut svg = String::new();
    draw(&figures, &title, &mut svg).map_err(|problem| anyhow!("drawing a plot: {problem}"))?;
    Ok(svg)
}

/// Returns the number of nines of a quantile: 0.99 has two, 0.5 has 0.3. The quantile 1 would have
/// infinitely many.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// A number of nines, as a part of all requests.
fn percent(nines: f64) -> String {
    match nines.round() as u32 {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

fn draw(figures: &[&Figures], title: &str, svg: &mut String) -> Drawn {
    let root = SVGBackend::with_string(svg, PLOT_PX).into_drawing_area();
    root.fill(&RGBColor(255, 255, 255))?;
    let (left, right) = root.split_horizontally(PLOT_PX.0 as i32 - NAMES_PX);
    let points = |figures: &Figures| -> Vec<(f64, f64)> {
        let below_all = figures.curve.iter().filter(|(quantile, _)| *quantile < 1.0);
        below_all
            .map(|&(quantile, us)| (nines(quantile), us))
            .collect()
    };
    let all: Vec<(f64, f64)> = figures.iter().flat_map(|one| points(one)).collect();
    let (low, high) = steps_around(
        all.iter().map(|point| point.1).fold(f64::MAX, f64::min),
        all.iter().map(|point| point.1).fold(0.0, f64::max),
    );
    let deepest = all.iter().map(|point| point.0).fold(1.0, f64::max).ceil();
    let mut chart = ChartBuilder::on(&left)
        .caption(title, (FONT, 18))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..deepest, (low..high).log_scale())?;
    chart
        .configure_mesh()
        .x_labels(deepest as usize + 1)
        .x_label_formatter(&|nines| percent(*nines))
        .y_label_formatter(&|us| tick(*us))
        .x_desc("part of all requests that took no longer")
        .y_desc("microseconds (logarithmic)")
        // On a logarithmic scale they would be a gray field.
        .light_line_style(RGBColor(255, 255, 255))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    for (row, one) in figures.iter().enumerate() {
        let mark = MARKS[row % MARKS.len()];
        let width = if one.side.starts_with("covalent") {
            3
        } else {
            1
        };
        let points = points(one);
        let line = points.iter().copied();
        chart.draw_series(LineSeries::new(line, mark.color.stroke_width(width)))?;
        for point in points {
            chart.plotting_area().draw(&mark.at(point))?;
        }
        let y = 60 + 26 * row as i32;
        let style = TextStyle::from((FONT, 14).into_font());
        right.draw(&PathElement::new(
            vec![(8, y), (36, y)],
            mark.color.stroke_width(width),
        ))?;
        right.draw(&mark.at((22, y)))?;
        right.draw(&Text::new(one.side.clone(), (44, y - 7), style))?;
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn a_plot_names_its_axes_and_sides() {
        let svg = curves(&example::results(), 64).expect("drawn");
        for words in [
            "<svg",
            "Latency of 64 bytes there and back",
            "covalent-message",
            "udp",
            "99.9 %",
            "microseconds (logarithmic)",
        ] {
            assert!(svg.contains(words), "{words:?} is not in the plot");
        }
    }

    #[test]
    fn nines_are_counted_from_quantiles() {
        assert!((nines(0.999) - 3.0).abs() < 1e-9);
        assert_eq!(
            [0.0, 1.0, 2.0, 4.0].map(percent),
            ["0 %", "90 %", "99 %", "99.99 %"]
        );
    }
}
