//! Compares printed output with the output on a page.
//!
//! `…` matches any text within a line, and any lines if it stands alone. The number of blanks
//! between words does not matter, because the width of a table depends on its contents.

/// Whether the lines `printed` are those `shown`.
#[must_use]
pub fn is_shown(shown: &[String], printed: &[String]) -> bool {
    let shown: Vec<String> = shown.iter().map(|line| tidy(line)).collect();
    let printed: Vec<String> = printed.iter().map(|line| tidy(line)).collect();
    lines_match(trim(&shown), trim(&printed))
}

/// Without empty lines at both ends.
fn trim(lines: &[String]) -> &[String] {
    let is_full = |line: &String| !line.is_empty();
    let first = lines.iter().position(is_full).unwrap_or(lines.len());
    let end = lines
        .iter()
        .rposition(is_full)
        .map_or(first, |last| last + 1);
    &lines[first..end]
}

fn tidy(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lines_match(shown: &[String], printed: &[String]) -> bool {
    // matches[at]: the lines of `shown` processed so far match the first `at` lines printed.
    let mut matches = vec![false; printed.len() + 1];
    matches[0] = true;
    for line in shown {
        let mut next = vec![false; printed.len() + 1];
        if line == "…" {
            if let Some(first) = matches.iter().position(|fits| *fits) {
                next[first..].fill(true);
            }
        } else {
            for (at, found) in printed.iter().enumerate() {
                next[at + 1] = matches[at] && line_matches(line, found);
            }
        }
        matches = next;
    }
    matches[printed.len()]
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…').map(str::trim);
    let (Some(first), Some(mut rest)) = (
        parts.next(),
        printed.strip_prefix(shown.split('…').next().unwrap_or_default().trim_end()),
    ) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty() && first == printed;
    };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(shown: &str, printed: &str) -> bool {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        is_shown(&lines(shown), &lines(printed))
    }

    #[test]
    fn dots_stand_for_anything_and_nothing_else_does() {
        for (shown, printed) in [
            ("a b", "a b"),
            ("a b", "a    b  "),
            ("a …", "a 17 bytes"),
            ("a … bytes", "a 17 bytes"),
            ("… bytes", "17 bytes"),
            ("a … c … e", "a b c d e"),
            ("…", "a\nb"),
            ("…", ""),
            ("a\n…\nd", "a\nb\nc\nd"),
            ("a\n…\nd", "a\nd"),
            ("a\n…", "a\nb\n"),
        ] {
            assert!(fits(shown, printed), "{shown:?} {printed:?}");
        }
        for (shown, printed) in [
            ("a b", "a c"),
            ("a", "a\nb"),
            ("a\nb", "a"),
            ("a …", "b 17"),
            ("a … bytes", "a 17 words"),
            ("a\n…\nd", "a\nb\nc"),
            ("…\nb\n…", "a\nc"),
        ] {
            assert!(!fits(shown, printed), "{shown:?} {printed:?}");
        }
    }
}
