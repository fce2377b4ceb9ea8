//! One table of the file while it is read: every key is requested by name, and keys that were not
//! requested are refused.
//!
//! The sections are read by hand. Derived deserializers lose the position of a value inside
//! flattened and tagged types, and cannot refuse unknown keys there. An invalid value is recorded
//! and replaced by its default, so one run of the check reports all problems.

use std::{
    fmt::Display,
    ops::{Range, RangeInclusive},
    path::PathBuf,
    str::FromStr,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    error::{MISSING, Problems},
    wording::{found, hint, meant, names, nearest, shortened},
};

/// The values that a key may have, where they are few.
pub(super) trait Choice: Copy + 'static {
    /// Each value with its name in the file.
    const CHOICES: &'static [(&'static str, Self)];
}

/// A table that is being read.
pub(super) struct Table<'a, 't> {
    problems: &'a mut Problems<'t>,
    /// `port[1]`; empty for the whole file.
    path: String,
    /// The header, to report missing keys.
    span: Range<usize>,
    entries: &'a DeTable<'a>,
    known: Vec<&'static str>,
    accept_unknown: bool,
}

impl<'a, 't> Table<'a, 't> {
    /// The whole file.
    pub(super) fn root(problems: &'a mut Problems<'t>, entries: &'a DeTable<'a>) -> Self {
        Self {
            problems,
            path: String::new(),
            span: 0..0,
            entries,
            known: Vec::new(),
            accept_unknown: false,
        }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.push(key);
        self.entries.get(key)
    }

    fn wrong(&mut self, key: &str, value: &Spanned<DeValue<'_>>, expected: impl Display) {
        let found = found(self.problems.text(), value);
        self.problems.add(
            &self.path_of(key),
            value.span(),
            format!("found {found}; expected {expected}"),
        );
    }

    /// Notes that the value of `key` (which was read already) is wrong.
    pub(super) fn refuse(&mut self, key: &str, message: impl Into<String>) {
        let span = self
            .entries
            .get(key)
            .map_or_else(|| self.span.clone(), Spanned::span);
        self.problems.add(&self.path_of(key), span, message);
    }

    /// Notes that `key` is missing.
    pub(super) fn missing(&mut self, key: &str, expected: impl Display) {
        let span = self.span.clone();
        self.problems.add(
            &self.path_of(key),
            span,
            format!("{MISSING}expected {expected}"),
        );
    }

    /// Suppresses the report of keys that were not requested, because the kind of the table is
    /// unknown.
    pub(super) fn accept_unknown(&mut self) {
        self.accept_unknown = true;
    }

    /// Whether a table at one of `paths` had a key that was not requested.
    pub(super) fn has_unknown_in(&self, paths: &[&str]) -> bool {
        self.problems.has_unknown_in(paths)
    }

    /// Whether the table has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// A whole number.
    pub(super) fn integer<T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        unit: &str,
    ) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        let value = self.get(key)?;
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|digits| i128::from_str_radix(digits.as_str(), digits.radix()).ok())
            .and_then(|number| T::try_from(number).ok())
            .filter(|number| range.contains(number));
        if number.is_none() {
            let (least, most) = (range.start(), range.end());
            self.wrong(
                key,
                value,
                format_args!("a whole number from {least} to {most}{unit}"),
            );
        }
        number
    }

    /// `true` or `false`.
    pub(super) fn bool(&mut self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let bool = value.get_ref().as_bool();
        if bool.is_none() {
            self.wrong(key, value, "`true` or `false`, without quotes");
        }
        bool
    }

    /// A quoted string. `expected` describes it in messages.
    pub(super) fn text(&mut self, key: &'static str, expected: &str) -> Option<&'a str> {
        let value = self.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong(key, value, format_args!("{expected}, in quotes"));
        }
        text
    }

    /// A list of quoted strings. `expected` describes each item in messages.
    pub(super) fn texts(&mut self, key: &'static str, expected: &str) -> Option<Vec<String>> {
        let value = self.get(key)?;
        let texts: Option<Vec<String>> = value.get_ref().as_array().and_then(|list| {
            list.iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned))
                .collect()
        });
        if texts.is_none() {
            self.wrong(
                key,
                value,
                format_args!("a list, each item {expected}, in quotes: [\"...\", \"...\"]"),
            );
        }
        texts
    }

    /// Text that must be there.
    pub(super) fn required_text(&mut self, key: &'static str, expected: &str) -> Option<&'a str> {
        if !self.has(key) {
            self.known.push(key);
            self.missing(key, expected);
            return None;
        }
        self.text(key, expected)
    }

    /// Text that another type reads.
    pub(super) fn parsed<T: FromStr>(&mut self, key: &'static str, expected: &str) -> Option<T> {
        let text = self.text(key, expected)?;
        let parsed = text.parse().ok();
        if parsed.is_none()
            && let Some(value) = self.entries.get(key)
        {
            self.wrong(key, value, expected);
        }
        parsed
    }

    /// A path that starts with `/`.
    pub(super) fn path(&mut self, key: &'static str) -> Option<PathBuf> {
        let text = self.text(key, ABSOLUTE_PATH)?;
        if text.starts_with('/') && !text.contains('\0') {
            return Some(PathBuf::from(text));
        }
        if let Some(value) = self.entries.get(key) {
            self.wrong(key, value, ABSOLUTE_PATH);
        }
        None
    }

    /// One of a few names.
    pub(super) fn choice<T: Choice>(&mut self, key: &'static str) -> Option<T> {
        let text = self.text(key, &names(T::CHOICES))?;
        let choice = T::CHOICES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, choice)| *choice);
        if choice.is_none()
            && let Some(value) = self.entries.get(key)
        {
            let hint = meant(text, T::CHOICES.iter().map(|(name, _)| *name));
            self.wrong(key, value, names(T::CHOICES) + &hint);
        }
        choice
    }

    /// Whether `key` is given a list.
    pub(super) fn is_list(&self, key: &str) -> bool {
        let value = self.entries.get(key);
        value.is_some_and(|value| value.get_ref().as_array().is_some())
    }

    /// One of a few names, or a whole number (`Err`).
    pub(super) fn choice_or_integer<C: Choice, T>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<T>,
        unit: &str,
    ) -> Option<Result<C, T>>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        let is_number = |value: &Spanned<DeValue<'_>>| value.get_ref().as_integer().is_some();
        if self.entries.get(key).is_some_and(is_number) {
            return self.integer(key, range, unit).map(Err);
        }
        let value = self.get(key)?;
        let (text, (least, most)) = (value.get_ref().as_str(), range.into_inner());
        let named = |text| C::CHOICES.iter().find(|(name, _)| *name == text);
        if let Some((_, choice)) = text.and_then(named) {
            return Some(Ok(*choice));
        }
        let hint = text.map_or_else(String::new, |text| {
            meant(text, C::CHOICES.iter().map(|(name, _)| *name))
        });
        let names = names(C::CHOICES);
        self.wrong(
            key,
            value,
            format_args!("{names}, or a whole number from {least} to {most}{unit}{hint}"),
        );
        None
    }

    /// One of a few names that must be there.
    pub(super) fn required_choice<T: Choice>(&mut self, key: &'static str) -> Option<T> {
        if !self.has(key) {
            self.known.push(key);
            self.missing(key, names(T::CHOICES));
            return None;
        }
        self.choice(key)
    }

    /// Reads the table `key` with `read`; an absent one reads as an empty one.
    pub(super) fn table<R>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Table<'_, 't>) -> R,
    ) -> Option<R> {
        let empty = DeTable::new();
        let (span, entries) = match self.get(key) {
            None => (self.span.clone(), &empty),
            Some(value) => match value.get_ref().as_table() {
                Some(table) => (value.span(), table),
                None => {
                    self.wrong(key, value, format_args!("a table; write `[{key}]`"));
                    return None;
                }
            },
        };
        let path = self.path_of(key);
        Some(read_whole(self.problems, path, span, entries, read))
    }

    /// Reads each `[[key]]` with `read`. `count` is the permitted number of tables. `None` if the
    /// key is absent.
    pub(super) fn tables<R>(
        &mut self,
        key: &'static str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&mut Table<'_, 't>) -> R,
    ) -> Option<Vec<R>> {
        let value = self.get(key)?;
        let Some(array) = value.get_ref().as_array() else {
            self.wrong(
                key,
                value,
                format_args!("a list of tables; write `[[{key}]]` with two brackets"),
            );
            return Some(Vec::new());
        };
        let most = *count.end();
        if !count.contains(&array.len()) {
            let (found, least) = (array.len(), count.start());
            self.refuse(
                key,
                format!("found {found} of them; expected {least} to {most} `[[{key}]]`"),
            );
        }
        let mut all = Vec::new();
        for (index, item) in array.iter().take(most).enumerate() {
            let place = format!("{key}[{index}]");
            match item.get_ref().as_table() {
                Some(entries) => {
                    let path = self.path_of(&place);
                    all.push(read_whole(
                        self.problems,
                        path,
                        item.span(),
                        entries,
                        &mut read,
                    ));
                }
                None => self.wrong(&place, item, format_args!("a table; write `[[{key}]]`")),
            }
        }
        Some(all)
    }

    /// Refuses every key that was not requested.
    pub(super) fn refuse_unknown(&mut self) {
        for key in self.entries.keys() {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let absent = |key: &&str| !self.entries.contains_key(*key);
            let near = match self.accept_unknown {
                // The key may belong to an unknown kind, but it may also be a misspelled missing
                // key.
                true => nearest(name, self.known.iter().copied().filter(absent)),
                false => nearest(name, self.known.iter().copied()),
            };
            if !self.accept_unknown || near.is_some() {
                let hint = near.map_or_else(String::new, hint);
                let known = self.known.join("`, `");
                let path = self.path_of(&shortened(name));
                let meant = near.map(|near| self.path_of(near));
                self.problems.note_unknown(&self.path, meant.as_deref());
                self.problems.add(
                    &path,
                    key.span(),
                    format!("no such key{hint}; here are possible: `{known}`"),
                );
            }
        }
    }
}

const ABSOLUTE_PATH: &str = "an absolute path (it starts with `/`)";

fn read_whole<'t, R>(
    problems: &mut Problems<'t>,
    path: String,
    span: Range<usize>,
    entries: &DeTable<'_>,
    read: impl FnOnce(&mut Table<'_, 't>) -> R,
) -> R {
    let mut table = Table {
        problems,
        path,
        span,
        entries,
        known: Vec::new(),
        accept_unknown: false,
    };
    let result = read(&mut table);
    table.refuse_unknown();
    result
}
