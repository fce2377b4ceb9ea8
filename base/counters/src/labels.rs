//! Labels as text, in the form of Prometheus: `name="value",name="value"`.

/// Appends `name="value"` to `text`, behind a comma where something stands there already.
pub fn escape(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push(',');
    }
    quote(text, name, value);
}

/// Appends `name="value"` to `text`, for any contents of the value.
pub(super) fn quote(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str("=\"");
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Parses the labels in `text`. Returns `None` if `text` is not in that form. Text from a file is
/// untrusted.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<(String, String)>> {
    let mut labels = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if !labels.is_empty() {
            rest = rest.strip_prefix(',')?;
        }
        let (name, behind) = rest.split_once("=\"")?;
        let mut letters = name.chars();
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !letters.next().is_some_and(begins) || !letters.all(|c| begins(c) || c.is_ascii_digit())
        {
            return None;
        }
        let mut value = String::new();
        let mut characters = behind.char_indices();
        rest = loop {
            match characters.next()? {
                (at, '"') => break &behind[at + 1..],
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    literal @ ('\\' | '"') => literal,
                    _ => return None,
                }),
                (_, character) if character.is_control() => return None,
                (_, character) => value.push(character),
            }
        };
        labels.push((name.to_owned(), value));
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn escaped_text_is_read_back() {
        let mut text = String::new();
        let labels = [
            ("a", "quote \" back\\slash\nline"),
            ("b_1", ""),
            ("c", "ß,="),
        ];
        for (name, value) in labels {
            escape(&mut text, name, value);
        }
        let read = parse(&text).unwrap();
        let read: Vec<(&str, &str)> = read.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(read, labels);
        assert_eq!(parse(""), Some(Vec::new()));
    }

    #[test]
    fn text_in_another_form_is_refused() {
        for text in [
            "a",
            "a=",
            "a=\"",
            "a=\"x",
            "=\"x\"",
            "1=\"x\"",
            "a=\"x\"b=\"y\"",
            "a=\"x\",",
            ",a=\"x\"",
            "a=\"\\x\"",
            "a=\"\\",
            "a=\"x\ny\"",
            "a b=\"x\"",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
