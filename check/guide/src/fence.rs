//! The fenced blocks of a page.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The line of the page on which its text begins, from 1.
    pub line: usize,
    /// Language: the first word behind the fence.
    pub language: String,
    /// The words behind that: `name`, `name=value` or `name="several words"`.
    pub attributes: Vec<(String, String)>,
    /// Text between the fence lines.
    pub text: String,
}

impl Fence {
    /// The value of an attribute, empty if it has none.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The fences of a page, in order.
#[must_use]
pub fn fences(markdown: &str) -> Vec<Fence> {
    let mut found = Vec::new();
    let mut open: Option<Fence> = None;
    for (event, range) in Parser::new_ext(markdown, crate::links::options()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let (language, attributes) = read_info(&info);
                let line = markdown[..range.start].matches('\n').count() + 2;
                open = Some(Fence {
                    line,
                    language,
                    attributes,
                    text: String::new(),
                });
            }
            Event::Text(text) => {
                if let Some(fence) = &mut open {
                    fence.text.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => found.extend(open.take()),
            _ => {}
        }
    }
    found
}

fn read_info(info: &str) -> (String, Vec<(String, String)>) {
    let (language, mut rest) = split_word(info.trim());
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let name_bytes = rest
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(rest.len());
        let (name, behind) = rest.split_at(name_bytes);
        let (value, behind) = match behind.strip_prefix('=') {
            None => ("", behind),
            Some(value) => match value.strip_prefix('"').and_then(|it| it.split_once('"')) {
                Some(quoted) => quoted,
                None => split_word(value),
            },
        };
        attributes.push((name.to_owned(), value.to_owned()));
        rest = behind.trim_start();
    }
    (language.to_owned(), attributes)
}

fn split_word(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_has_its_line_its_attributes_and_its_text() {
        let page = "# A\n\n- in a list:\n\n  ```console on=both skip=\"no such thing\"\n  $ \
            a\n  b\n  ```\n\n```text\nc\n```\n";
        let found = fences(page);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[1].line), (6, 11));
        assert_eq!(found[0].language, "console");
        assert_eq!(found[0].attribute("on"), Some("both"));
        assert_eq!(found[0].attribute("skip"), Some("no such thing"));
        assert_eq!(found[0].attribute("status"), None);
        assert_eq!(found[0].text, "$ a\nb\n");
        assert_eq!(found[1].text, "c\n");
    }
}
