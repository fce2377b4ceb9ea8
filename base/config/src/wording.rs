//! Wording of messages about found values and suggestions.

use toml::{Spanned, de::DeValue};

/// The names of `choices`, in a sentence.
pub(super) fn names<T>(choices: &[(&str, T)]) -> String {
    let names: Vec<String> = choices
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    format!("one of {}", names.join(", "))
}

/// `; did you mean …?` if one of `names` is near, else nothing.
pub(super) fn meant<'n>(given: &str, names: impl Iterator<Item = &'n str>) -> String {
    nearest(given, names).map_or_else(String::new, hint)
}

/// `; did you mean …?`
pub(super) fn hint(name: &str) -> String {
    format!("; did you mean `{name}`?")
}

/// The one of `names` that is near.
pub(super) fn nearest<'n>(given: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Typing errors are never that long, and the comparison is quadratic.
    const LENGTH_MAX: usize = 64;
    if given.len() > LENGTH_MAX {
        return None;
    }
    let given = given.to_lowercase().replace(['-', ' '], "_");
    names
        .map(|name| (strsim::normalized_damerau_levenshtein(&given, name), name))
        .filter(|(likeness, name)| *likeness >= 0.6 || (given.len() >= 3 && name.contains(&given)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The found value, human-readable: its type and its text.
pub(super) fn found(text: &str, value: &Spanned<DeValue<'_>>) -> String {
    let text = shortened(text.get(value.span()).unwrap_or(""));
    let kind = match value.get_ref() {
        DeValue::String(_) => "the text",
        DeValue::Integer(_) => "the number",
        DeValue::Float(_) => "the fraction",
        DeValue::Boolean(_) => return format!("`{text}` without quotes"),
        DeValue::Datetime(_) => "the date",
        DeValue::Array(_) => return "a list".to_owned(),
        DeValue::Table(_) => return "a table".to_owned(),
    };
    format!("{kind} {text}")
}

/// At most 48 characters of the first line.
pub(super) fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 48;
    let line = text.lines().next().unwrap_or("");
    let mut short: String = line.chars().take(CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_recognized_and_an_unknown_name_is_not() {
        let known = || ["spin_us", "burst", "metrics_listen"].into_iter();
        assert_eq!(meant("spin-us", known()), "; did you mean `spin_us`?");
        assert_eq!(meant("Brust", known()), "; did you mean `burst`?");
        assert_eq!(meant("listen", known()), "; did you mean `metrics_listen`?");
        assert_eq!(meant("color", known()), "");
        assert_eq!(meant("", known()), "");
        assert_eq!(meant(&"b".repeat(100_000), known()), "");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened("first\nsecond"), "first…");
        assert_eq!(shortened(&"ß".repeat(49)), format!("{}…", "ß".repeat(48)));
    }
}
