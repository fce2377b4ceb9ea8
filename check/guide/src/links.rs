//! Where the links of a page lead.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

/// Markdown extensions that the pages use: those that mdBook reads.
#[must_use]
pub fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH
}

/// A link or an image: the position of its target in the text, and the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The bytes of the target.
    pub at: Range<usize>,
    /// The target.
    pub target: String,
}

/// Returns the links of a page to files, in order. Omits links to other sites and to the page
/// itself.
#[must_use]
pub fn links(markdown: &str) -> Vec<Link> {
    let parser = Parser::new_ext(markdown, options());
    // `[name]: target` stands once for all that name it.
    let mut found: Vec<Link> = parser
        .reference_definitions()
        .iter()
        .filter_map(|(_, definition)| place(markdown, &definition.span, &definition.dest))
        .collect();
    for (event, range) in parser.into_offset_iter() {
        let (kind, target) = match event {
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => (link_type, dest_url),
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                ..
            }) => (link_type, dest_url),
            _ => continue,
        };
        if kind == LinkType::Inline {
            found.extend(place(markdown, &range, &target));
        }
    }
    found.sort_by_key(|link| link.at.start);
    found
}

fn place(markdown: &str, within: &Range<usize>, target: &str) -> Option<Link> {
    if target.is_empty() || target.starts_with('#') || is_elsewhere(target) {
        return None;
    }
    // Take the last match: the link text may equal the target.
    let start = within.start + markdown[within.clone()].rfind(target)?;
    Some(Link {
        at: start..start + target.len(),
        target: target.to_owned(),
    })
}

/// Whether a target is no file of ours.
#[must_use]
pub fn is_elsewhere(target: &str) -> bool {
    ["http:", "https:", "mailto:", "data:", "javascript:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// A target's file and the place in it, with its `#`.
#[must_use]
pub fn split_fragment(target: &str) -> (&str, &str) {
    target.split_at(target.find('#').unwrap_or(target.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_are_found_and_others_are_not() {
        let page = "See [a.md](a.md#x), ![b](b.svg), [c], `[d](d.md)` and <https://e> or \
            [here](#f).\n\n[c]: ../c.md\n\n```text\n[g](g.md)\n```\n";
        let found = links(page);
        let targets: Vec<_> = found.iter().map(|link| link.target.as_str()).collect();
        assert_eq!(targets, ["a.md#x", "b.svg", "../c.md"]);
        for link in &found {
            assert_eq!(&page[link.at.clone()], link.target);
        }
        assert_eq!(split_fragment("a.md#x"), ("a.md", "#x"));
        assert_eq!(split_fragment("a.md"), ("a.md", ""));
    }
}
