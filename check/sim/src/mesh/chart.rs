//! How figures grow with the number of nodes, as one drawing.

use std::error::Error;

use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea},
    element::{Circle, Text},
    series::LineSeries,
    style::{Color, RGBColor},
};

use super::figures::MeshReport;

/// Width and height, in pixels at its natural size.
const PLOT_PX: (u32, u32) = (900, 960);
const FONT: &str = "sans-serif";
/// Colors that remain distinguishable with any color vision (Okabe and Ito).
const COLOR: RGBColor = RGBColor(0, 114, 178);

/// One of the figures.
struct Figure {
    title: &'static str,
    of: fn(&MeshReport) -> f64,
}

const FIGURES: [Figure; 6] = [
    Figure {
        title: "adverts that each node sends to settle",
        of: |report| report.settle_adverts_per_node,
    },
    Figure {
        title: "entries of each node in its tables of trees",
        of: |report| report.tree_entries_per_node,
    },
    Figure {
        title: "KiB that these take",
        of: |report| report.tree_bytes_per_node / 1024.0,
    },
    Figure {
        title: "frames that each node sends until all is at rest",
        of: |report| report.settle_frames_per_node,
    },
    Figure {
        title: "local repairs, 99 of 100 within, in round trips of a link",
        of: |report| report.repairs_local.within_rt(990),
    },
    Figure {
        title: "from nothing until all is settled, in round trips of a link",
        of: |report| report.settle_rt,
    },
];

/// Draws reports of meshes of several sizes, smallest first, as SVG.
///
/// # Errors
/// Returns the drawing error.
pub fn growth(reports: &[MeshReport]) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut svg = String::new();
    draw(reports, &mut svg).map_err(|problem| format!("drawing a plot: {problem}"))?;
    Ok(svg)
}

fn draw(reports: &[MeshReport], svg: &mut String) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, PLOT_PX).into_drawing_area();
    root.fill(&RGBColor(255, 255, 255))?;
    for (area, figure) in root.split_evenly((3, 2)).iter().zip(&FIGURES) {
        let points = reports
            .iter()
            .map(|report| (report.nodes as f64, (figure.of)(report)));
        draw_one(area, figure.title, &points.collect::<Vec<_>>())?;
    }
    root.present()?;
    Ok(())
}

fn draw_one(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    points: &[(f64, f64)],
) -> Result<(), Box<dyn Error>> {
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 14))
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(56)
        .build_cartesian_2d(
            0.0..most(|point| point.0) * 1.1,
            0.0..most(|point| point.1) * 1.2,
        )?;
    chart
        .configure_mesh()
        .x_desc("nodes")
        .x_labels(6)
        .y_labels(6)
        .light_line_style(RGBColor(255, 255, 255))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 12))
        .draw()?;
    chart.draw_series(LineSeries::new(points.to_vec(), COLOR.stroke_width(2)))?;
    chart.draw_series(
        points
            .iter()
            .map(|point| Circle::new(*point, 3, COLOR.filled())),
    )?;
    let style = (FONT, 11);
    chart.draw_series(
        points
            .iter()
            .map(|point| Text::new(short(point.1), *point, style)),
    )?;
    Ok(())
}

fn short(figure: f64) -> String {
    if figure >= 100.0 {
        format!("{figure:.0}")
    } else {
        format!("{figure:.1}")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_figure_of_every_size_is_drawn_with_its_number() {
        let of = |nodes: u64| MeshReport {
            nodes,
            settle_adverts_per_node: nodes as f64 * 4.0,
            tree_entries_per_node: nodes as f64 * 5.0,
            settle_rt: 3.5,
            ..MeshReport::default()
        };
        let svg = growth(&[of(10), of(100), of(1000)]).unwrap();
        for text in [
            "nodes",
            "adverts that each",
            "local repairs",
            "40.0",
            "400",
            "5000",
            "3.5",
        ] {
            assert!(svg.contains(text), "`{text}` is missing");
        }
        roxmltree::Document::parse(&svg).unwrap();
    }
}
