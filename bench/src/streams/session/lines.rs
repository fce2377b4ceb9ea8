//! Plots of sweeps: a number on the x axis, figures on the y axis, one marked line per compared
//! item.

use anyhow::{Result, anyhow};
use plotters::{
    backend::SVGBackend,
    chart::{ChartBuilder, ChartContext},
    coord::{
        cartesian::Cartesian2d,
        combinators::IntoLogRange,
        ranged1d::{Ranged, ValueFormatter},
        types::RangedCoordf64,
    },
    drawing::IntoDrawingArea,
    element::{PathElement, Text},
    series::LineSeries,
    style::{Color, IntoFont, RGBColor, TextStyle},
};

use crate::{
    streams::{
        mark::{FONT, MARKS},
        plot::{Drawn, NAMES_PX, PLOT_PX, steps_around, tick},
    },
    summary::Summary,
};

/// The content of a plot.
pub struct Plot<'a> {
    /// Above it.
    pub title: &'a str,
    /// Label of the x axis.
    pub along: &'a str,
    /// Formats a number on the x axis.
    pub along_tick: fn(f64) -> String,
    /// Numbers along that have a tick at most.
    pub along_ticks: usize,
    /// Label of the y axis.
    pub up: &'a str,
    /// Whether up is logarithmic.
    pub logarithmic: bool,
    /// Its lines.
    pub lines: Vec<Line<'a>>,
}

/// One line.
pub struct Line<'a> {
    /// Beside the plot.
    pub name: &'a str,
    /// X values, with the figures measured there.
    pub points: Vec<(f64, &'a Summary)>,
}

impl Plot<'_> {
    /// As SVG; nothing if it would have no line.
    pub fn svg(&self) -> Result<Option<String>> {
        if self.lines.iter().all(|line| line.points.len() < 2) {
            return Ok(None);
        }
        let mut svg = String::new();
        self.draw(&mut svg)
            .map_err(|problem| anyhow!("drawing a plot: {problem}"))?;
        Ok(Some(svg))
    }

    fn draw(&self, svg: &mut String) -> Drawn {
        let root = SVGBackend::with_string(svg, PLOT_PX).into_drawing_area();
        root.fill(&RGBColor(255, 255, 255))?;
        let (left, right) = root.split_horizontally(PLOT_PX.0 as i32 - NAMES_PX);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let least =
            |figure: fn(&(f64, &Summary)) -> f64| points().map(figure).fold(f64::MAX, f64::min);
        let most = |figure: fn(&(f64, &Summary)) -> f64| points().map(figure).fold(0.0, f64::max);
        let along = least(|point| point.0)..most(|point| point.0);
        let mut builder = ChartBuilder::on(&left);
        builder
            .caption(self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(64);
        // The range covers the medians: outliers of single repetitions would flatten all other
        // points.
        let (low, high) = (least(|point| point.1.median), most(|point| point.1.median));
        if self.logarithmic {
            let (low, high) = steps_around(low, high);
            self.draw_lines(builder.build_cartesian_2d(along, (low..high).log_scale())?)?;
        } else {
            self.draw_lines(builder.build_cartesian_2d(along, 0.0..high * 1.05)?)?;
        }
        for (row, line) in self.lines.iter().enumerate() {
            let y = 60 + 26 * row as i32;
            let mark = MARKS[row % MARKS.len()];
            let stroke = mark.color.stroke_width(2);
            right.draw(&PathElement::new(vec![(8, y), (36, y)], stroke))?;
            right.draw(&mark.at((22, y)))?;
            let style = TextStyle::from((FONT, 14).into_font());
            right.draw(&Text::new(line.name.to_owned(), (44, y - 7), style))?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_lines<'b, Y>(
        &self,
        mut chart: ChartContext<'b, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>,
    ) -> Drawn
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let scale = if self.logarithmic {
            " (logarithmic)"
        } else {
            ""
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(self.along_ticks)
            .x_label_formatter(&|at| (self.along_tick)(*at))
            .y_label_formatter(&|figure| tick(*figure))
            .x_desc(self.along)
            .y_desc(format!("{}{scale}", self.up))
            .light_line_style(RGBColor(255, 255, 255))
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 14))
            .draw()?;
        for (row, line) in self.lines.iter().enumerate() {
            let mark = MARKS[row % MARKS.len()];
            let points = || line.points.iter().map(|(at, figure)| (*at, figure.median));
            chart.draw_series(LineSeries::new(points(), mark.color.stroke_width(2)))?;
            for point in points() {
                chart.plotting_area().draw(&mark.at(point))?;
            }
        }
        Ok(())
    }
}
