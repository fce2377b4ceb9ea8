//! Position of a key in a text.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::line_and_column;

/// Line and column, both 1-based, of the value of `key`, a path such as `port[1].queues`. If the
/// text lacks the value, the position is that of the nearest enclosing item. `None` if the text is
/// not TOML or has no part of the path.
#[must_use]
pub fn place(text: &str, key: &str) -> Option<(usize, usize)> {
    let document = DeTable::parse(text).ok()?;
    let mut steps = key.split('.').flat_map(|part| {
        let mut names = part.split('[');
        let name = names.next().map(Step::Key);
        let places = names.filter_map(|place| place.trim_end_matches(']').parse().ok());
        name.into_iter().chain(places.map(Step::Place))
    });
    let Some(Step::Key(first)) = steps.next() else {
        return None;
    };
    let mut found = document.get_ref().get(first)?;
    for step in steps {
        match step.of(found) {
            Some(inner) => found = inner,
            None => break,
        }
    }
    Some(line_and_column(text, found.span().start))
}

enum Step<'k> {
    Key(&'k str),
    Place(usize),
}

impl Step<'_> {
    fn of<'d, 't>(&self, value: &'d Spanned<DeValue<'t>>) -> Option<&'d Spanned<DeValue<'t>>> {
        match self {
            Self::Key(name) => value.get_ref().as_table()?.get(*name),
            Self::Place(at) => value.get_ref().as_array()?.get(*at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_where_it_stands() {
        let text =
            "[link]\nslots = 8\n\n[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\n  queues = 3\n";
        assert_eq!(place(text, "link.slots"), Some((2, 9)));
        assert_eq!(place(text, "port[1].queues"), Some((8, 12)));
        // A missing key: the position of its table.
        assert_eq!(place(text, "port[1].xdp"), Some((6, 1)));
        assert_eq!(place(text, "link.event_ratio"), Some((1, 1)));
        assert_eq!(place(text, "node.name"), None);
        assert_eq!(place(text, ""), None);
        assert_eq!(place("[", "link.slots"), None);
        assert_eq!(place(text, "port[9].queues"), Some((4, 1)));
    }
}
