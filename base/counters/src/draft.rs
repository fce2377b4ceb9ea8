//! An object on its way into the file.

use std::ops::Range;

use super::{
    labels::{escape, quote},
    layout::{FieldKind, field},
};

/// Data to publish for one object: its labels, and its values with their meaning. Made once and
/// refilled, so it allocates only until it is large enough.
#[derive(Debug, Default)]
pub struct Draft {
    pub(super) text: String,
    lines: u64,
    by: String,
    pub(super) fields: Vec<DraftField>,
    pub(super) values: Vec<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct DraftField {
    pub family: u32,
    pub kind: FieldKind,
    by: Range<usize>,
}

impl Draft {
    /// Empties it for the next object.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines = 0;
        self.by.clear();
        self.fields.clear();
        self.values.clear();
    }

    /// Adds a label of the object. Labels come before everything else.
    pub fn label(&mut self, name: &str, value: &str) {
        escape(&mut self.text, name, value);
    }

    /// Adds a value of the metric with the number `family`, with a further label if there is one. A
    /// value whose label takes more than 112 bytes is omitted.
    pub fn value(&mut self, family: u32, kind: FieldKind, by: Option<(&str, &str)>, value: u64) {
        let begin = self.by.len();
        if let Some((name, value)) = by {
            quote(&mut self.by, name, value);
        }
        if self.by.len() - begin > field::LABELS_WORDS * 8 {
            self.by.truncate(begin);
            return;
        }
        self.fields.push(DraftField {
            family,
            kind,
            by: begin..self.by.len(),
        });
        self.values.push(value);
    }

    /// Adds a sample that is always 1 and carries its information in its labels.
    pub fn info<'a>(&mut self, family: u32, labels: impl Iterator<Item = (&'a str, &'a str)>) {
        self.text.push('\n');
        self.lines += 1;
        for (name, value) in labels {
            escape(&mut self.text, name, value);
        }
        self.value(family, FieldKind::Info, None, self.lines);
    }

    /// The further label of a field, as text.
    pub(super) fn by(&self, field: &DraftField) -> &str {
        &self.by[field.by.clone()]
    }
}
