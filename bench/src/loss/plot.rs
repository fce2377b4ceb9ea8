//! Tails over losses: the 99.9 % quantile and the median of all requests, over the loss rate of the
//! cable.

use anyhow::{Result, anyhow};
use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    coord::{
        combinators::IntoLogRange,
        ranged1d::{IntoSegmentedCoord, SegmentValue},
    },
    drawing::IntoDrawingArea,
    element::{PathElement, Text},
    series::{DashedLineSeries, LineSeries},
    style::{Color, IntoFont, RGBColor, TextStyle},
};

use super::results::{Results, percent};
use crate::streams::{Drawn, FONT, MARKS, steps_around, tick};

/// Width and height of a plot, in pixels at its natural size.
const PLOT_PX: (u32, u32) = (880, 480);

/// Of those, for names at the right.
const NAMES_PX: i32 = 200;

/// Draws the run; nothing if it has fewer than two losses.
pub fn tails(results: &Results) -> Result<Option<String>> {
    if results.parts().len() < 2 {
        return Ok(None);
    }
    let mut svg = String::new();
    draw(results, &mut svg).map_err(|problem| anyhow!("drawing a plot: {problem}"))?;
    Ok(Some(svg))
}

fn draw(results: &Results, svg: &mut String) -> Drawn {
    let parts = results.parts();
    let root = SVGBackend::with_string(svg, PLOT_PX).into_drawing_area();
    root.fill(&RGBColor(255, 255, 255))?;
    let (left, right) = root.split_horizontally(PLOT_PX.0 as i32 - NAMES_PX);
    let times = || results.losses.iter().map(|one| &one.figures.times_us);
    let (low, high) = steps_around(
        times().map(|one| one.typical).fold(f64::MAX, f64::min),
        times().map(|one| one.p999).fold(0.0, f64::max),
    );
    let mut chart = ChartBuilder::on(&left)
        .caption("Round trips on a cable that loses frames", (FONT, 18))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(
            (0..parts.len() - 1).into_segmented(),
            (low..high).log_scale(),
        )?;
    let loss_of = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => parts.get(*at).copied().map(percent).unwrap_or_default(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(parts.len())
        .x_label_formatter(&loss_of)
        .y_label_formatter(&|us| tick(*us))
        .x_desc("frames lost each way")
        .y_desc("microseconds (logarithmic)")
        // On a logarithmic scale they would be a gray field.
        .light_line_style(RGBColor(255, 255, 255))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    for (row, side) in results.sides().into_iter().enumerate() {
        let mark = MARKS[row % MARKS.len()];
        let of = |figure: fn(&crate::latency::Times) -> f64| -> Vec<(SegmentValue<usize>, f64)> {
            let found = parts.iter().enumerate().filter_map(|(at, &parts)| {
                let one = results.lossy(side, parts)?;
                Some((SegmentValue::CenterOf(at), figure(&one.figures.times_us)))
            });
            found.collect()
        };
        let (tail, middle) = (of(|times| times.p999), of(|times| times.typical));
        chart.draw_series(LineSeries::new(tail.clone(), mark.color.stroke_width(3)))?;
        chart.draw_series(DashedLineSeries::new(
            middle,
            4,
            4,
            mark.color.stroke_width(1),
        ))?;
        for point in tail {
            chart.plotting_area().draw(&mark.at(point))?;
        }
        let y = 60 + 26 * row as i32;
        let style = TextStyle::from((FONT, 14).into_font());
        right.draw(&PathElement::new(
            vec![(8, y), (36, y)],
            mark.color.stroke_width(3),
        ))?;
        right.draw(&mark.at((22, y)))?;
        right.draw(&Text::new(side.to_owned(), (44, y - 7), style))?;
    }
    let style = TextStyle::from((FONT, 13).into_font());
    let y = 76 + 26 * results.sides().len() as i32;
    right.draw(&Text::new("solid: 99.9 %", (8, y), style.clone()))?;
    right.draw(&Text::new("dashed: median", (8, y + 20), style))?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::results::example, *};

    #[test]
    fn a_plot_names_losses_and_sides() {
        let svg = tails(&example::results())
            .expect("drawn")
            .expect("two losses");
        for words in [
            "<svg",
            "0 %",
            "1 %",
            "covalent-message",
            "tcp",
            "frames lost each way",
            "solid: 99.9 %",
        ] {
            assert!(svg.contains(words), "{words:?} is not in the plot");
        }
    }

    #[test]
    fn one_loss_is_no_plot() {
        let mut results = example::results();
        results.run.losses.truncate(2);
        assert_eq!(tails(&results).expect("no problem"), None);
    }
}
