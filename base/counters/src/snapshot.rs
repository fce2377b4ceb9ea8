//! Data that a reader copied from the file of counters.

use super::{FamilyType, FieldKind, Liveness};

/// Everything, each writer's as one set.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// State of the process that made the file.
    pub liveness: Liveness,
    /// That process.
    pub pid: u64,
    /// When it started, in clock ticks since boot. It distinguishes the process from another one
    /// with the same id.
    pub start_ticks: u64,
    /// When it started, in nanoseconds of CLOCK_REALTIME.
    pub started_realtime_ns: u64,
    /// How often writers write, at most.
    pub interval_ns: u64,
    /// The node's name.
    pub node: String,
    /// The metrics, in the order of a scrape.
    pub families: Vec<Family>,
    /// The set of each writer.
    pub writers: Vec<WriterSet>,
}

/// One metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Its type.
    pub kind: FamilyType,
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// One sentence.
    pub help: String,
}

/// The data of one writer.
#[derive(Debug, Clone)]
pub struct WriterSet {
    /// Its name.
    pub name: String,
    /// It died while it wrote: not all of this is of one moment.
    pub is_torn: bool,
    /// When it wrote last, in nanoseconds of CLOCK_MONOTONIC; 0 for never.
    pub written_monotonic_ns: u64,
    /// The same of CLOCK_REALTIME.
    pub written_realtime_ns: u64,
    /// Number of objects for which there was no space.
    pub omitted: u64,
    /// Meaning of the values.
    pub fields: Vec<Field>,
    /// Its objects.
    pub tables: Vec<Table>,
}

/// Meaning of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its metric, by number.
    pub family: usize,
    /// How it is to be read.
    pub kind: FieldKind,
    /// A further label, as text; may be empty.
    pub labels: String,
}

/// Objects of one kind.
#[derive(Debug, Clone)]
pub struct Table {
    /// Kind of its objects.
    pub name: String,
    /// Those that are there.
    pub objects: Vec<Object>,
}

/// One object.
#[derive(Debug, Clone)]
pub struct Object {
    /// Where it stands.
    pub slot: usize,
    /// Generation of the slot: which of its successive objects this is.
    pub generation: u64,
    /// Its labels, and the labels of the samples that carry their information in their labels.
    pub lines: Vec<String>,
    /// The field of its first value.
    pub first: usize,
    /// Its values.
    pub values: Vec<u64>,
}

/// One number of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Suffix of the metric's name: `_bucket`, `_sum` or `_count` for a histogram, otherwise empty.
    pub suffix: &'static str,
    /// Its labels, as text.
    pub labels: String,
    /// The number.
    pub number: Number,
}

/// A number as it is to be shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A whole one.
    Whole(u64),
    /// Nanoseconds, to be shown in seconds.
    Nanoseconds(u64),
    /// Any.
    Real(f64),
}

impl Number {
    /// In the metric's unit.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Whole(count) => count as f64,
            Self::Nanoseconds(ns) => ns as f64 / 1e9,
            Self::Real(value) => value,
        }
    }

    /// Two parts of one.
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole(one), Self::Whole(two)) => Self::Whole(one.saturating_add(two)),
            (Self::Nanoseconds(one), Self::Nanoseconds(two)) => {
                Self::Nanoseconds(one.saturating_add(two))
            }
            (one, two) => Self::Real(one.value() + two.value()),
        }
    }
}

impl Snapshot {
    /// Returns the samples of each metric, indexed by the metric's number. Objects without labels,
    /// such as the verbs, are parts of one object: their values from several writers are added.
    #[must_use]
    pub fn samples(&self) -> Vec<Vec<Sample>> {
        let mut all = vec![Vec::new(); self.families.len()];
        for writer in &self.writers {
            for object in writer.tables.iter().flat_map(|table| &table.objects) {
                let fields = writer.fields[object.first..].iter();
                for (field, &value) in fields.zip(&object.values) {
                    let Some(sample) = sample(object, field, value) else {
                        continue;
                    };
                    let samples: &mut Vec<Sample> = &mut all[field.family];
                    let is_part = object.lines[0].is_empty();
                    let whole = is_part.then(|| {
                        samples.iter_mut().find(|other| {
                            other.suffix == sample.suffix && other.labels == sample.labels
                        })
                    });
                    match whole.flatten() {
                        Some(whole) => whole.number = whole.number.plus(sample.number),
                        None => samples.push(sample),
                    }
                }
            }
        }
        all
    }
}

fn sample(object: &Object, field: &Field, value: u64) -> Option<Sample> {
    let mut labels = object.lines[0].clone();
    let further = match field.kind {
        FieldKind::Info => object.lines.get(usize::try_from(value).ok()?)?,
        _ => &field.labels,
    };
    if !labels.is_empty() && !further.is_empty() {
        labels.push(',');
    }
    labels.push_str(further);
    let (suffix, number) = match field.kind {
        FieldKind::Count => ("", Number::Whole(value)),
        FieldKind::Nanoseconds => ("", Number::Nanoseconds(value)),
        FieldKind::Gauge => {
            let value = f64::from_bits(value);
            if value.is_nan() {
                return None;
            }
            ("", Number::Real(value))
        }
        FieldKind::Info => ("", Number::Whole(1)),
        FieldKind::Bucket => ("_bucket", Number::Whole(value)),
        FieldKind::Sum => ("_sum", Number::Nanoseconds(value)),
        FieldKind::Total => ("_count", Number::Whole(value)),
    };
    Some(Sample {
        suffix,
        labels,
        number,
    })
}
