//! A shape from the text of a file.

use std::collections::HashMap;

use super::{BadShape, NODES_MAX, Shape};

/// Most cables of a file. More are no mesh of nodes with 16 cables each.
const CABLES_MAX: usize = NODES_MAX * super::VALENCE_MAX / 2;

pub(super) fn read(text: &str, file: &str) -> Result<Shape, BadShape> {
    let mut numbers: HashMap<&str, u16> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut cables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let bad = |what: String| BadShape::Line {
            file: file.to_owned(),
            line: at + 1,
            what,
        };
        let words = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        let ends = match words[..] {
            [] => continue,
            [a, b] if a == b => return Err(bad(format!("a cable from `{a}` to itself"))),
            [a, b] => [a, b],
            _ => return Err(bad(format!("{} words instead of two", words.len()))),
        };
        let mut cable = [0; 2];
        for (number, name) in cable.iter_mut().zip(ends) {
            *number = match numbers.get(name) {
                Some(known) => *known,
                None if names.len() == NODES_MAX => {
                    return Err(bad(format!("`{name}` is one node more than {NODES_MAX}")));
                }
                None => {
                    let new = names.len() as u16;
                    numbers.insert(name, new);
                    names.push(name.to_owned());
                    new
                }
            };
        }
        if cables.len() == CABLES_MAX {
            return Err(bad(format!("one cable more than {CABLES_MAX}")));
        }
        cables.push(cable);
    }
    Ok(Shape {
        names: Some(names),
        ..Shape::new(file, numbers.len(), cables, None)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_names_a_cable_in_each_line() {
        let text = "# a triangle, one side twice\nleft right\n\n right\ttop  # the second\ntop \
            left\nleft top\n";
        let shape = Shape::read(text, "triangle").unwrap();
        assert_eq!(shape.nodes, 3);
        assert_eq!(shape.cables, [[0, 1], [1, 2], [2, 0], [0, 2]]);
        let names: Vec<_> = (0..3).map(|node| shape.node_name(node)).collect();
        assert_eq!(names, ["left", "right", "top"]);
        assert_eq!(Shape::line(3).node_name(2), "2");
    }

    #[test]
    fn a_line_that_is_no_cable_is_refused_with_its_number() {
        for (text, line, part) in [
            ("a b\nc\n", 2, "1 words"),
            ("a b c", 1, "3 words"),
            ("a b\n\n# x\nb b", 4, "`b` to itself"),
        ] {
            let error = Shape::read(text, "rack.txt").unwrap_err().to_string();
            assert!(
                error.contains(&format!("rack.txt, line {line}: ")) && error.contains(part),
                "{error}"
            );
        }
        let many: String = (0..NODES_MAX).map(|n| format!("{n} {}\n", n + 1)).collect();
        let error = Shape::read(&many, "long").unwrap_err().to_string();
        assert!(
            error.contains("line 1000: `1000` is one node more"),
            "{error}"
        );
        let many = "a b\n".repeat(CABLES_MAX + 1);
        assert!(Shape::read(&many, "wide").is_err());
    }
}
