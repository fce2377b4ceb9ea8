//! How points of plots look.

use plotters::{
    backend::SVGBackend,
    element::{
        Circle, Cross, DynElement, EmptyElement, IntoDynElement, PathElement, Polygon, Rectangle,
        TriangleMarker,
    },
    style::{Color, RGBColor, ShapeStyle},
};

/// The font of plots.
pub const FONT: &str = "sans-serif";

/// Colors that are distinguishable with any color vision (Okabe and Ito, and two darker ones), each
/// with its own shape.
pub const MARKS: [Mark; 10] = [
    Mark::new(RGBColor(0, 0, 0), Shape::Square),
    Mark::new(RGBColor(213, 94, 0), Shape::Circle),
    Mark::new(RGBColor(0, 114, 178), Shape::Triangle),
    Mark::new(RGBColor(0, 158, 115), Shape::Diamond),
    Mark::new(RGBColor(204, 121, 167), Shape::Cross),
    Mark::new(RGBColor(86, 180, 233), Shape::OpenCircle),
    Mark::new(RGBColor(230, 159, 0), Shape::OpenSquare),
    Mark::new(RGBColor(110, 110, 110), Shape::OpenTriangle),
    Mark::new(RGBColor(128, 64, 0), Shape::OpenDiamond),
    Mark::new(RGBColor(170, 160, 0), Shape::Bar),
];

/// A color and a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The color, of lines too.
    pub color: RGBColor,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Square,
    Circle,
    Triangle,
    Diamond,
    Cross,
    OpenCircle,
    OpenSquare,
    OpenTriangle,
    OpenDiamond,
    Bar,
}

impl Mark {
    const fn new(color: RGBColor, shape: Shape) -> Self {
        Self { color, shape }
    }

    /// One at `place`.
    pub fn at<'a, C: Clone + 'a>(self, place: C) -> DynElement<'a, SVGBackend<'a>, C> {
        let (filled, open) = (self.color.filled(), self.color.stroke_width(2));
        let center = EmptyElement::at(place);
        match self.shape {
            Shape::Square => (center + square(filled)).into_dyn(),
            Shape::OpenSquare => (center + square(open)).into_dyn(),
            Shape::Circle => (center + Circle::new((0, 0), 4, filled)).into_dyn(),
            Shape::OpenCircle => (center + Circle::new((0, 0), 4, open)).into_dyn(),
            Shape::Triangle | Shape::OpenTriangle => {
                (center + TriangleMarker::new((0, 0), 5, filled)).into_dyn()
            }
            Shape::Diamond => (center + diamond(filled)).into_dyn(),
            Shape::OpenDiamond => (center + PathElement::new(diamond_ends(), open)).into_dyn(),
            Shape::Bar => (center + Rectangle::new([(-5, -2), (5, 2)], filled)).into_dyn(),
            Shape::Cross => (center + Cross::new((0, 0), 4, open)).into_dyn(),
        }
    }
}

fn square(style: ShapeStyle) -> Rectangle<(i32, i32)> {
    Rectangle::new([(-4, -4), (4, 4)], style)
}

fn diamond(style: ShapeStyle) -> Polygon<(i32, i32)> {
    Polygon::new(diamond_ends(), style)
}

/// Its corners, the first at the end again.
fn diamond_ends() -> Vec<(i32, i32)> {
    vec![(0, -5), (5, 0), (0, 5), (-5, 0), (0, -5)]
}
