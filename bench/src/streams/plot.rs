//! Sweeps as SVG plots: sizes on the x axis, figures on a logarithmic y axis. Each contestant has
//! one color and one shape. A line through each point shows the spread of the repetitions.

use anyhow::{Result, anyhow};
use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    coord::{
        combinators::IntoLogRange,
        ranged1d::{IntoSegmentedCoord, SegmentValue},
    },
    drawing::{DrawingArea, IntoDrawingArea},
    element::{PathElement, Text},
    series::LineSeries,
    style::{Color, IntoFont, RGBColor, TextStyle},
};

use crate::streams::{
    case::{Case, Size, Test},
    goals::{LIMIT, OURS, OURS_ALONE},
    mark::{FONT, MARKS, Mark},
    results::{Figure, Results},
};

/// Width and height of a plot, in pixels at its natural size.
pub const PLOT_PX: (u32, u32) = (880, 480);

/// Of those, for names at the right.
pub const NAMES_PX: i32 = 170;

/// Draws a sweep; nothing if it has fewer than two sizes.
pub fn sweep(results: &Results, test: Test) -> Result<Option<String>> {
    let sizes = results.sizes(test);
    if sizes.len() < 2 {
        return Ok(None);
    }
    let mut svg = String::new();
    draw(results, test, &sizes, &mut svg)
        .map_err(|problem| anyhow!("drawing a plot: {problem}"))?;
    Ok(Some(svg))
}

/// Whether it could be drawn.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(results: &Results, test: Test, sizes: &[Size], svg: &mut String) -> Drawn {
    let root = SVGBackend::with_string(svg, PLOT_PX).into_drawing_area();
    root.fill(&RGBColor(255, 255, 255))?;
    let (left, right) = root.split_horizontally(PLOT_PX.0 as i32 - NAMES_PX);
    let names: Vec<&str> = results
        .in_test(test)
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    let (low, high) = bounds(results, test);
    let mut chart = ChartBuilder::on(&left)
        .caption(test.title(), (FONT, 18))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (0..sizes.len() - 1).into_segmented(),
            (low..high).log_scale(),
        )?;
    let size_of = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(at) => sizes.get(*at).map(Size::to_string).unwrap_or_default(),
        _ => String::new(),
    };
    let along = match test {
        Test::Echo | Test::OneWay => "packet size",
        _ => "message size",
    };
    let up = match test {
        Test::Echo | Test::OneWay => "million packets per second",
        Test::Stream | Test::StreamUnbatched => "GB per second, without prefixes",
        Test::RoundTrip => "microseconds",
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(sizes.len())
        .x_label_formatter(&size_of)
        .y_label_formatter(&|figure| tick(*figure))
        .x_desc(along)
        .y_desc(format!("{up} (logarithmic)"))
        // On a logarithmic scale they would be a gray field.
        .light_line_style(RGBColor(255, 255, 255))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .draw()?;
    for (at, name) in names.iter().enumerate() {
        let mark = mark_of(name, at);
        let color = mark.color;
        let points: Vec<(usize, &Figure)> = sizes
            .iter()
            .enumerate()
            .filter_map(|(at, &size)| Some((at, results.figure(name, Case { test, size })?)))
            .collect();
        let width = if *name == OURS { 3 } else { 1 };
        // The mix is no size, so no line leads to it.
        let line = points
            .iter()
            .filter(|(_, figure)| figure.case.size != Size::Mix)
            .map(|(at, figure)| (SegmentValue::CenterOf(*at), figure.figure.median));
        chart.draw_series(LineSeries::new(line, color.stroke_width(width)))?;
        for (at, figure) in points {
            let along = SegmentValue::CenterOf(at);
            let spread = [
                (along.clone(), figure.figure.min),
                (along.clone(), figure.figure.max),
            ];
            chart.draw_series([PathElement::new(spread, color.stroke_width(1))])?;
            chart
                .plotting_area()
                .draw(&mark.at((along, figure.figure.median)))?;
        }
    }
    legend(&right, results, test, &names)?;
    root.present()?;
    Ok(())
}

/// Names, the best at the first size on top.
fn legend(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    results: &Results,
    test: Test,
    names: &[&str],
) -> Drawn {
    let mut order: Vec<(usize, &str, f64)> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let first = results
                .figures
                .iter()
                .filter(|figure| figure.contestant == *name && figure.case.test == test)
                .min_by_key(|figure| figure.case.size);
            (at, *name, first.map_or(0.0, |figure| figure.figure.median))
        })
        .collect();
    order.sort_by(|one, other| other.2.total_cmp(&one.2));
    for (row, (at, name, _)) in order.into_iter().enumerate() {
        let y = 60 + 26 * row as i32;
        let mark = mark_of(name, at);
        area.draw(&PathElement::new(
            vec![(8, y), (36, y)],
            mark.color.stroke_width(if name == OURS { 3 } else { 1 }),
        ))?;
        area.draw(&mark.at((22, y)))?;
        let words = match name {
            LIMIT => "ring (the limit)",
            name => name,
        };
        let style = TextStyle::from((FONT, 14).into_font());
        area.draw(&Text::new(words.to_owned(), (44, y - 7), style))?;
    }
    Ok(())
}

/// The same contestant looks the same in every plot.
fn mark_of(name: &str, otherwise: usize) -> Mark {
    const ORDER: [&str; 10] = [
        LIMIT,
        OURS,
        "dpdk-memif",
        "dpdk-memif-zero-copy",
        "dpdk-vhost",
        "iceoryx2",
        "aeron",
        OURS_ALONE,
        "ucx",
        "libfabric",
    ];
    let at = match name {
        // Never in the same plot as DPDK.
        "unix" => 2,
        "tcp" => 3,
        name => ORDER
            .iter()
            .position(|known| *known == name)
            .unwrap_or(otherwise),
    };
    MARKS[at % MARKS.len()]
}

/// Whole steps of 1, 2 and 5 around everything that is drawn.
fn bounds(results: &Results, test: Test) -> (f64, f64) {
    let figures = || {
        results
            .figures
            .iter()
            .filter(|figure| figure.case.test == test)
    };
    let low = figures()
        .map(|figure| figure.figure.min)
        .fold(f64::MAX, f64::min);
    let high = figures()
        .map(|figure| figure.figure.max)
        .fold(0.0, f64::max);
    steps_around(low, high)
}

/// Whole steps of 1, 2 and 5 around figures from `low` to `high`.
pub fn steps_around(low: f64, high: f64) -> (f64, f64) {
    let (low, high) = (low.max(1e-6), high.max(1e-5));
    let step = |figure: f64, up: bool| {
        let decade = 10_f64.powf(figure.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
        if up {
            steps.into_iter().find(|step| *step >= figure)
        } else {
            steps.into_iter().rev().find(|step| *step <= figure)
        }
        .unwrap_or(figure)
    };
    (step(low, false), step(high, true))
}

/// A figure beside an axis.
pub fn tick(figure: f64) -> String {
    let decimals = if figure >= 1.0 || figure <= 0.0 {
        0
    } else {
        (-figure.log10().floor()) as usize
    };
    format!("{figure:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::results::example;

    #[test]
    fn a_sweep_names_its_axes_and_contestants() {
        let svg = sweep(&example(), Test::Echo)
            .expect("drawn")
            .expect("three sizes");
        for words in [
            "<svg",
            "packet size",
            "million packets per second (logarithmic)",
            "64 B",
            "1518 B",
            "mix",
            "ring (the limit)",
            "covalent-pipe",
            "dpdk-memif",
            "Echo: ",
        ] {
            assert!(svg.contains(words), "{words:?} is not in the plot");
        }
        assert!(!svg.contains("aeron"), "it took no part");
    }

    #[test]
    fn one_size_is_no_sweep() {
        assert_eq!(
            sweep(&example(), Test::RoundTrip).expect("no problem"),
            None
        );
    }

    #[test]
    fn bounds_are_whole_steps_and_ticks_short() {
        // From 4 to 80.
        assert_eq!(bounds(&example(), Test::Echo), (2.0, 100.0));
        assert_eq!(
            [0.0, 0.05, 0.2, 1.0, 50.0].map(tick),
            ["0", "0.05", "0.2", "1", "50"]
        );
    }

    #[test]
    fn contestants_of_one_plot_have_different_styles() {
        let packets = [
            LIMIT,
            OURS,
            "dpdk-memif",
            "dpdk-memif-zero-copy",
            "dpdk-vhost",
            "iceoryx2",
            "aeron",
            OURS_ALONE,
            "ucx",
            "libfabric",
        ];
        let streams = [OURS, OURS_ALONE, "unix", "tcp", "ucx", "libfabric"];
        for plot in [&packets[..], &streams] {
            for (at, one) in plot.iter().enumerate() {
                for other in &plot[at + 1..] {
                    assert_ne!(mark_of(one, 0), mark_of(other, 0), "{one} and {other}");
                }
            }
        }
    }
}
