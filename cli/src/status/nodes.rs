//! The nodes beyond the neighbors.

use std::fmt::Write;

use covalent_api::status::{FabricStatus, FarNodeStatus, NodeStatus, PathStatus};

use crate::output::{Cell, Color, Table, Theme};

/// `covalent status --nodes`.
pub(super) fn render(status: &NodeStatus, theme: Theme) -> String {
    let Some(fabric) = &status.fabric else {
        return format!(
            "node {} takes no part in the fabric: `enabled` in `[fabric]` is false",
            status.node
        );
    };
    let mut text = format!("{}\n", summary(fabric));
    if !status.nodes.is_empty() {
        let _ = writeln!(text, "{}", table(theme, &status.nodes));
    }
    if !status.paths.is_empty() {
        let _ = writeln!(text, "\npaths\n{}", paths(theme, &status.paths));
    }
    if status.omitted > 0 {
        text += "more are not shown: the answer would not fit one datagram\n";
    }
    text
}

/// One line about all of them.
pub(super) fn summary(fabric: &FabricStatus) -> String {
    let lost = match fabric.lost {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    let farthest = match fabric.hops_max {
        0 => String::new(),
        1 => ", the farthest over one cable".to_owned(),
        hops => format!(", the farthest over {hops} cables"),
    };
    match fabric.reached {
        1 => format!("one other node is reached{lost}{farthest}"),
        reached => format!("{reached} other nodes are reached{lost}{farthest}"),
    }
}

fn table(theme: Theme, nodes: &[FarNodeStatus]) -> Table {
    let mut table = theme.new_table(["node", "address", "standing", "hops", "over port"]);
    for node in nodes {
        let color = match node.standing.as_str() {
            "reached" => Color::Green,
            "seeking" => Color::Yellow,
            _ => Color::Red,
        };
        let or_dash = |text: Option<String>| Cell::new(text.unwrap_or_else(|| "–".to_owned()));
        table.add_row([
            or_dash(node.name.clone()),
            Cell::new(node.guid),
            theme.cell(&node.standing, color),
            or_dash(node.hops.map(|hops| hops.to_string())),
            or_dash(node.port.clone()),
        ]);
    }
    table
}

fn paths(theme: Theme, paths: &[PathStatus]) -> Table {
    let mut table = theme.new_table(["lane", "path to", "address", "state", "asked for", "open"]);
    for path in paths {
        let color = if path.state == "up" {
            Color::Green
        } else {
            Color::Yellow
        };
        table.add_row([
            Cell::new(path.lane),
            Cell::new(path.far_name.as_deref().unwrap_or("–")),
            Cell::new(path.far),
            theme.cell(&path.state, color),
            Cell::new(if path.opener { "here" } else { "there" }),
            Cell::new(path.open_transactions),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::render::tests::sample;

    #[test]
    fn each_node_is_shown_with_its_route_or_as_lost() {
        let text = render(&sample(), Theme::PLAIN);
        for wanted in [
            "2 other nodes are reached, 1 lost, the farthest over 3 cables",
            "corner",
            "reached",
            "p1",
            "lost",
            "–",
            "path to",
            "here",
        ] {
            assert!(text.contains(wanted), "`{wanted}` is missing in:\n{text}");
        }
        let off = NodeStatus {
            fabric: None,
            nodes: Vec::new(),
            ..sample()
        };
        assert!(render(&off, Theme::PLAIN).contains("[fabric]"));
    }

    #[test]
    fn a_lone_node_is_shown_in_one_line() {
        assert_eq!(
            summary(&FabricStatus::default()),
            "0 other nodes are reached"
        );
        let one = FabricStatus {
            reached: 1,
            hops_max: 1,
            ..FabricStatus::default()
        };
        assert_eq!(
            summary(&one),
            "one other node is reached, the farthest over one cable"
        );
    }
}
