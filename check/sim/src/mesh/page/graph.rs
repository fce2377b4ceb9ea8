//! The graph: nodes in their places, cables, and the tree that is drawn.

use fastrand::Rng;

use super::{escape, put};
use crate::{mesh::trace::Trace, shape::Shape};

/// Pixels of a side.
const SIDE_PX: f32 = 460.0;
const MARGIN_PX: f32 = 26.0;
/// Steps in which nodes of a shape without places find theirs, and where those begin to be drawn.
const SPRING_STEPS: u32 = 200;
const SPRING_SEED: u64 = 1;
/// Nodes beyond which they have no names in the drawing.
const NAMED_MAX: usize = 150;

pub(super) fn draw(out: &mut String, shape: &Shape, trace: &Trace) {
    let places = fit(&shape.places.clone().unwrap_or_else(|| spring(shape)));
    let root = usize::from(trace.root.unwrap_or(0));
    put(
        out,
        format_args!(
            "<p>The tree of {} at <output id=\"when\">the end</output></p>\n<input id=\"slider\" \
             type=\"range\" min=\"0\" max=\"1000\" value=\"1000\"/>\n\
             <svg viewBox=\"0 0 {SIDE_PX} {SIDE_PX}\" width=\"{SIDE_PX}\" height=\"{SIDE_PX}\">\n",
            escape(&shape.node_name(root))
        ),
    );
    for (cable, ends) in shape.cables.iter().enumerate() {
        let [a, b] = ends.map(|node| places[usize::from(node)]);
        let [from, to] = ends.map(|node| escape(&shape.node_name(usize::from(node))));
        put(
            out,
            format_args!(
                "<line class=\"cable\" id=\"c{cable}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" \
                 y2=\"{:.1}\"><title>{from} – {to}</title></line>\n",
                a[0], a[1], b[0], b[1]
            ),
        );
    }
    for (node, [x, y]) in places.iter().enumerate() {
        put(
            out,
            format_args!(
                "<line class=\"parent\" id=\"p{node}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" \
                 y2=\"{y:.1}\"/>\n"
            ),
        );
    }
    for (node, [x, y]) in places.iter().enumerate() {
        let name = escape(&shape.node_name(node));
        let kind = if node == root { "node root" } else { "node" };
        let radius = if shape.nodes > NAMED_MAX { 2.5 } else { 7.0 };
        put(
            out,
            format_args!(
                "<circle class=\"{kind}\" id=\"n{node}\" cx=\"{x:.1}\" cy=\"{y:.1}\" \
                 r=\"{radius}\"><title>{name}</title></circle>\n"
            ),
        );
        if shape.nodes <= NAMED_MAX {
            put(
                out,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
                    x + 8.0,
                    y - 7.0
                ),
            );
        }
    }
    *out += "</svg>\n<p class=\"legend\">A thin line: a cable whose link is up; dashed: up at one \
        end; faint: down. A thick line leads to the parent. \
             Red: a node without one.</p>\n";
}

/// Places scaled to the drawing.
fn fit(places: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let bound = |at: usize| {
        let along = places.iter().map(move |place| place[at]);
        let low = along.clone().fold(f32::MAX, f32::min);
        let high = along.fold(f32::MIN, f32::max);
        (low, (high - low).max(1e-3))
    };
    let bounds = [bound(0), bound(1)];
    let widest = bounds[0].1.max(bounds[1].1);
    let scale = (SIDE_PX - 2.0 * MARGIN_PX) / widest;
    let place = |place: &[f32; 2]| {
        [0, 1].map(|at| {
            let (low, width) = bounds[at];
            MARGIN_PX + (place[at] - low + (widest - width) / 2.0) * scale
        })
    };
    places.iter().map(place).collect()
}

/// Places the nodes of a shape without places: cables pull and nodes repel each other, in a fixed
/// number of steps.
fn spring(shape: &Shape) -> Vec<[f32; 2]> {
    let mut rng = Rng::with_seed(SPRING_SEED);
    let mut places: Vec<[f32; 2]> = (0..shape.nodes)
        .map(|_| [rng.f32() - 0.5, rng.f32() - 0.5])
        .collect();
    let rest = 1.0 / (shape.nodes as f32).sqrt();
    for step in 0..SPRING_STEPS {
        let heat = 0.1 * (1.0 - step as f32 / SPRING_STEPS as f32);
        let mut moves = vec![[0.0_f32; 2]; shape.nodes];
        for a in 0..shape.nodes {
            for b in 0..a {
                let apart = [0, 1].map(|at| places[a][at] - places[b][at]);
                let square = (apart[0] * apart[0] + apart[1] * apart[1]).max(1e-4);
                for at in [0, 1] {
                    let push = apart[at] * rest * rest / square;
                    moves[a][at] += push;
                    moves[b][at] -= push;
                }
            }
        }
        for ends in &shape.cables {
            let [a, b] = ends.map(usize::from);
            let apart = [0, 1].map(|at| places[a][at] - places[b][at]);
            let length = apart[0].hypot(apart[1]);
            for at in [0, 1] {
                let pull = apart[at] * length / rest;
                moves[a][at] -= pull;
                moves[b][at] += pull;
            }
        }
        for (place, [x, y]) in places.iter_mut().zip(moves) {
            let length = x.hypot(y).max(1e-6);
            let step = length.min(heat) / length;
            place[0] += x * step;
            place[1] += y * step;
        }
    }
    places
}
