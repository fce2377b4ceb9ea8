//! The outcome of a verb, as text or JSON.

use std::{fmt, time::Duration};

use anyhow::{Result, bail};
use covalent::{Completion, Guid, Outcome, RemoteRegion, Rights, Verb};
use serde::{Serialize, Serializer};

use super::args::{Place, Request};
use crate::output::duration;

/// The outcome of a command.
#[derive(Debug, Serialize)]
pub struct Done {
    verb: &'static str,
    node: String,
    region: String,
    #[serde(flatten)]
    end: End,
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<StampText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ns: Option<u64>,
}

/// How it ended.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum End {
    /// The region is there.
    Found {
        /// Of its lane.
        address: Guid,
        key: u32,
        size_bytes: u64,
        rights: Rights,
    },
    /// Executed; there is no result.
    Done,
    /// Executed; the word held this.
    Old { old: u64 },
    /// Executed; these bytes were read.
    Read {
        offset_bytes: u64,
        #[serde(serialize_with = "as_hex")]
        bytes: Box<[u8]>,
        /// If they are whole words.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        words: Vec<u64>,
    },
    /// Nothing was changed: this word held something else.
    Mismatch {
        /// Its place among the words given, from 0.
        index: u16,
        found: u64,
    },
}

/// The position of the completion in the order of all nodes.
#[derive(Debug, Serialize)]
struct StampText {
    executor: Option<Guid>,
    executor_count: u64,
    lamport: u64,
}

impl Done {
    /// Returns the outcome of a lookup. `own` is the node that was queried first.
    pub fn looked_up(place: &Place, region: &RemoteRegion, own: Guid) -> Self {
        Self {
            verb: "lookup",
            node: place.node.clone(),
            region: place.region.clone(),
            end: End::Found {
                address: region.node().unwrap_or(own),
                key: region.rkey(),
                size_bytes: region.size_bytes(),
                rights: region.rights(),
            },
            stamp: None,
            took_ns: None,
        }
    }

    /// A verb was executed.
    ///
    /// # Errors
    /// If its outcome is no executed verb's.
    pub fn executed(
        place: &Place,
        request: Request,
        completion: &Completion,
        data: &[u8],
        took: Duration,
    ) -> Result<Self> {
        let end = match (completion.outcome, &request) {
            (Outcome::Done, _) => End::Done,
            (Outcome::Old(old), _) => End::Old { old },
            (Outcome::Mismatch { index, found }, _) => End::Mismatch { index, found },
            (Outcome::Data { .. }, Request::Plain(Verb::Read { offset_bytes, .. })) => End::Read {
                offset_bytes: *offset_bytes,
                words: words(data),
                bytes: data.into(),
            },
            (other, _) => bail!("the verb ended with an outcome of another verb: {other:?}"),
        };
        Ok(Self {
            verb: name(&request.verb()),
            node: place.node.clone(),
            region: place.region.clone(),
            end,
            stamp: Some(StampText {
                executor: completion.stamp.executor,
                executor_count: completion.stamp.executor_count,
                lamport: completion.stamp.lamport,
            }),
            took_ns: Some(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
        })
    }

    /// Whether nothing was changed because a word held something else.
    pub const fn is_mismatch(&self) -> bool {
        matches!(self.end, End::Mismatch { .. })
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Found {
                address,
                key,
                size_bytes,
                rights,
            } => write!(
                f,
                "region {} of node {} ({address}): key {key:#010x}, {size_bytes} bytes, grants \
                 {rights}",
                self.region, self.node
            )?,
            End::Done => write!(f, "done")?,
            End::Old { old } => write!(f, "done; the word held {}", figure(*old))?,
            End::Read {
                offset_bytes,
                bytes,
                ..
            } => dump(f, *offset_bytes, bytes)?,
            End::Mismatch { index, found } => write!(
                f,
                "nothing was changed: word {index} of those given (from 0) holds {}",
                figure(*found)
            )?,
        }
        if let (Some(stamp), Some(took_ns)) = (&self.stamp, self.took_ns) {
            write!(
                f,
                "\n{} at node {} after {}; clock {}, execution {} there",
                self.verb,
                self.node,
                duration(took_ns),
                stamp.lamport,
                stamp.executor_count
            )?;
        }
        Ok(())
    }
}

/// Returns the name of a verb.
pub const fn name(verb: &Verb<'_>) -> &'static str {
    match verb {
        Verb::Read { .. } => "read",
        Verb::Write { .. } => "write",
        Verb::Swap { .. } => "swap",
        Verb::CompareAndSwap { .. } => "compare_and_swap",
        Verb::FetchAdd { .. } => "fetch_add",
        Verb::FetchAnd { .. } => "fetch_and",
        Verb::FetchOr { .. } => "fetch_or",
        Verb::FetchXor { .. } => "fetch_xor",
        Verb::FetchMin { .. } => "fetch_min",
        Verb::FetchMax { .. } => "fetch_max",
        Verb::Conditional { .. } => "update_if",
        Verb::MultiCommit { .. } => "multi_commit",
        Verb::Send { .. } => "send",
    }
}

/// A word as the number that it is, and as others may mean it.
fn figure(word: u64) -> String {
    match word.cast_signed() {
        signed if signed < 0 => format!("{word} ({word:#x}, or {signed})"),
        _ => format!("{word} ({word:#x})"),
    }
}

/// The words that lie little-endian in `bytes`, if these are whole ones.
fn words(bytes: &[u8]) -> Vec<u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    match rest {
        [] => words.iter().map(|&word| u64::from_le_bytes(word)).collect(),
        _ => Vec::new(),
    }
}

/// Eight bytes a line: where they lie, their digits, their letters, and the word that they are.
fn dump(f: &mut fmt::Formatter<'_>, offset_bytes: u64, bytes: &[u8]) -> fmt::Result {
    for (index, line) in bytes.chunks(8).enumerate() {
        let at = offset_bytes + 8 * index as u64;
        let digits: Vec<_> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letter = |&byte: &u8| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '.',
        };
        let letters: String = line.iter().map(letter).collect();
        if index > 0 {
            writeln!(f)?;
        }
        write!(f, "{at:#010x}  {:<23}  {letters:<8}", digits.join(" "))?;
        if let [word] = words(line).as_slice() {
            write!(f, "  {word}")?;
        }
    }
    Ok(())
}

fn as_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    serializer.serialize_str(&digits.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_digits_letters_and_words() {
        struct Shown<'a>(u64, &'a [u8]);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dump(f, self.0, self.1)
            }
        }
        assert_eq!(
            Shown(64, b"hello\0\0\0\x01").to_string(),
            "0x00000040  68 65 6c 6c 6f 00 00 00  hello...  478560413032\n\
             0x00000048  01                       .       "
        );
        assert_eq!(words(&[1, 0, 0, 0, 0, 0, 0, 0]), [1]);
        assert!(words(&[1]).is_empty());
        assert_eq!(
            figure(u64::MAX),
            "18446744073709551615 (0xffffffffffffffff, or -1)"
        );
    }
}
