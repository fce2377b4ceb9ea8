//! The command line of `covalent verb`.

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use covalent::{
    CommitWord, Comparison, Condition, Order, READ_BYTES_MAX, SEND_BYTES_MAX, Update, Verb,
    WRITE_BYTES_MAX,
};

use super::number::{commit_word, hex, word};
use crate::args::{Format, NodeArgs};

/// `covalent verb …`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "NODE is a node's configured name (NAME.1 for its lane 1), its address of sixteen \
    hexadecimal digits, or `local`. REGION is the name under which an application there registered \
    memory or a receive queue. Offsets are in bytes; those of words are multiples of 8. Numbers \
    are decimal, hexadecimal with the prefix 0x, or negative (two's complement).\n\n\
    Exit status: 0 if the verb was executed; 3 if a word did not hold the expected value, and \
    nothing was changed; 1 otherwise.\n\n\
    Examples:\n  \
    covalent verb lookup node-b bank\n  \
    covalent verb fetch-add node-b bank 0 1\n  \
    covalent verb compare-and-swap node-b bank 8 0 7 || echo held by another client\n  \
    covalent verb read node-b bank 0 64 --format json | jq .words"
)]
pub enum VerbCommand {
    /// Look up a region of a node: whether the name exists, its size, and the rights that it
    /// grants.
    #[command(after_help = "Examples:\n  covalent verb lookup node-b bank")]
    Lookup(Lookup),
    /// Read 1 to 512 bytes.
    #[command(after_help = "Examples:\n  \
        covalent verb read node-b bank 0        the word at 0\n  \
        covalent verb read node-b bank 64 32 --format json | jq .words")]
    Read(Read),
    /// Write 1 to 512 bytes.
    #[command(after_help = "Examples:\n  \
        covalent verb write node-b notes 0 hello\n  \
        covalent verb write node-b notes 16 --hex '00 ff 00 ff'")]
    Write(Write),
    /// Store a value in a word, and return the old value.
    #[command(after_help = "Examples:\n  covalent verb swap node-b bank 8 0")]
    Swap(OneOperand),
    /// Store a value in a word if it holds the expected one.
    #[command(
        visible_alias = "cas",
        after_help = "Examples:\n  \
        covalent verb compare-and-swap node-b bank 8 0 7\n  \
        covalent verb cas node-b bank 8 7 0"
    )]
    CompareAndSwap(CompareAndSwap),
    /// Add to a word, wrapping, and return the old value.
    #[command(after_help = "Examples:\n  \
        covalent verb fetch-add node-b bank 0 1\n  \
        covalent verb fetch-add node-b bank 0 -5")]
    FetchAdd(OneOperand),
    /// AND a word with a mask, and return the old value.
    #[command(after_help = "Examples:\n  covalent verb fetch-and node-b flags 0 0xff00")]
    FetchAnd(OneOperand),
    /// OR a word with a mask, and return the old value.
    #[command(after_help = "Examples:\n  covalent verb fetch-or node-b flags 0 0x1")]
    FetchOr(OneOperand),
    /// XOR a word with a mask, and return the old value.
    #[command(after_help = "Examples:\n  covalent verb fetch-xor node-b flags 0 0x1")]
    FetchXor(OneOperand),
    /// Store the smaller of a word and a value in the word, and return the old value.
    #[command(after_help = "Examples:\n  covalent verb fetch-min node-b marks 0 100")]
    FetchMin(Ordered),
    /// Store the greater of a word and a value in the word, and return the old value.
    #[command(after_help = "Examples:\n  \
        covalent verb fetch-max node-b marks 0 100\n  \
        covalent verb fetch-max --signed node-b marks 0 -1")]
    FetchMax(Ordered),
    /// Change a word if its comparison with a value holds.
    #[command(after_help = "Examples:\n  \
        covalent verb update-if node-b bank 64 at-least 10 add -10    take ten away, if there are \
        ten")]
    UpdateIf(UpdateIf),
    /// Set several words, at most as many as one verb supports, if all hold the expected values;
    /// else none.
    #[command(after_help = "Examples:\n  \
        covalent verb multi-commit node-b bank 64:1000:990 72:1000:1010    one transfer between \
        two accounts")]
    MultiCommit(MultiCommit),
    /// Send a message of 1 to 4084 bytes to a receive queue.
    #[command(after_help = "Examples:\n  covalent verb send node-b orders '12 crates of apples'")]
    Send(Send),
}

/// Where a verb goes.
#[derive(Debug, Args)]
pub struct Place {
    /// The node: its name, its address, or `local`.
    #[arg(value_name = "NODE")]
    pub node: String,
    /// The region, or receive queue, of that node.
    #[arg(value_name = "REGION")]
    pub region: String,
    #[command(flatten)]
    pub options: Options,
}

/// How it goes there.
#[derive(Debug, Args)]
pub struct Options {
    /// Which node it is posted at.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The lane that posts the verb: the one whose links lead to the other node.
    #[arg(long, value_name = "LANE", default_value_t = 0)]
    pub lane: u32,
    /// Seconds after which the command gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub timeout: f64,
    /// Use one round trip instead of two: the verb cannot be reversed before its execution.
    #[arg(long)]
    pub one_phase: bool,
    /// Output format of the outcome.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Lookup {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub struct Read {
    #[command(flatten)]
    place: Place,
    /// First byte.
    #[arg(value_name = "OFFSET", value_parser = word)]
    offset: u64,
    /// Number of bytes.
    #[arg(
        value_name = "BYTES",
        default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=READ_BYTES_MAX as i64),
    )]
    length: u32,
}

#[derive(Debug, Args)]
pub struct Write {
    #[command(flatten)]
    place: Place,
    /// First byte.
    #[arg(value_name = "OFFSET", value_parser = word)]
    offset: u64,
    #[command(flatten)]
    bytes: Bytes,
}

#[derive(Debug, Args)]
pub struct Send {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    bytes: Bytes,
}

/// Some bytes.
#[derive(Debug, Args)]
pub struct Bytes {
    /// The bytes.
    #[arg(value_name = "TEXT", required_unless_present = "hex")]
    text: Option<String>,
    /// The bytes as hexadecimal digits, in place of text.
    #[arg(long, value_name = "DIGITS", conflicts_with = "text")]
    hex: Option<String>,
}

impl Bytes {
    /// They, if they are no more than `most`.
    fn get(&self, most: usize) -> Result<Vec<u8>> {
        let bytes = match (&self.hex, &self.text) {
            (Some(digits), _) => hex(digits).map_err(|what| anyhow!("--hex: {what}"))?,
            (None, Some(text)) => text.clone().into_bytes(),
            (None, None) => Vec::new(),
        };
        match bytes.len() {
            len if (1..=most).contains(&len) => Ok(bytes),
            len => bail!("these are {len} bytes; one verb takes 1 to {most}"),
        }
    }
}

#[derive(Debug, Args)]
pub struct OneOperand {
    #[command(flatten)]
    place: Place,
    /// The word's first byte.
    #[arg(value_name = "OFFSET", value_parser = word)]
    offset: u64,
    /// The value.
    #[arg(value_name = "VALUE", value_parser = word, allow_negative_numbers = true)]
    operand: u64,
}

#[derive(Debug, Args)]
pub struct Ordered {
    #[command(flatten)]
    of: OneOperand,
    /// Compare as numbers in two's complement.
    #[arg(long)]
    signed: bool,
}

#[derive(Debug, Args)]
pub struct CompareAndSwap {
    #[command(flatten)]
    place: Place,
    /// The word's first byte.
    #[arg(value_name = "OFFSET", value_parser = word)]
    offset: u64,
    /// The expected value.
    #[arg(value_name = "EXPECTED", value_parser = word, allow_negative_numbers = true)]
    expected: u64,
    /// The new value.
    #[arg(value_name = "NEW", value_parser = word, allow_negative_numbers = true)]
    new: u64,
}

#[derive(Debug, Args)]
pub struct UpdateIf {
    #[command(flatten)]
    place: Place,
    /// The word's first byte.
    #[arg(value_name = "OFFSET", value_parser = word)]
    offset: u64,
    /// Required relation of the word to COMPARAND.
    #[arg(value_enum, value_name = "CONDITION")]
    condition: Must,
    /// The value to compare with.
    #[arg(value_name = "COMPARAND", value_parser = word, allow_negative_numbers = true)]
    comparand: u64,
    /// The operation on the word.
    #[arg(value_enum, value_name = "CHANGE")]
    change: Change,
    /// The operand of CHANGE.
    #[arg(value_name = "VALUE", value_parser = word, allow_negative_numbers = true)]
    operand: u64,
    /// Compare as numbers in two's complement.
    #[arg(long)]
    signed: bool,
}

#[derive(Debug, Args)]
pub struct MultiCommit {
    #[command(flatten)]
    place: Place,
    /// A word: its offset in bytes, its expected value, and its new value.
    #[arg(value_name = "OFFSET:EXPECTED:NEW", value_parser = commit_word, required = true)]
    words: Vec<[u64; 3]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Must {
    Equal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Change {
    Swap,
    Add,
    And,
    Or,
    Xor,
    Min,
    Max,
}

fn seconds(text: &str) -> Result<f64, String> {
    let range = 0.001..=3600.0;
    text.parse()
        .ok()
        .filter(|seconds| range.contains(seconds))
        .ok_or_else(|| "expected seconds, 0.001 to 3600".into())
}

/// A verb with the data that it points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// One that carries everything itself.
    Plain(Verb<'static>),
    /// A write.
    Write(u64, Vec<u8>),
    /// A multi-commit.
    MultiCommit(Vec<CommitWord>),
    /// A message.
    Send(Vec<u8>),
}

impl Request {
    /// As the library takes it.
    pub fn verb(&self) -> Verb<'_> {
        match self {
            Self::Plain(verb) => *verb,
            Self::Write(offset_bytes, data) => Verb::Write {
                offset_bytes: *offset_bytes,
                data,
            },
            Self::MultiCommit(words) => Verb::MultiCommit { words },
            Self::Send(data) => Verb::Send { data },
        }
    }
}

/// The verb to post, and its destination.
pub struct Post<'a> {
    /// Where.
    pub place: &'a Place,
    /// The verb; `None` to only look up the region.
    pub request: Option<Request>,
}

impl VerbCommand {
    /// Returns the verb to post.
    ///
    /// # Errors
    /// Fails if the bytes are malformed.
    pub fn post(&self) -> Result<Post<'_>> {
        let (place, request) = match self {
            Self::Lookup(Lookup { place }) => {
                return Ok(Post {
                    place,
                    request: None,
                });
            }
            Self::Read(it) => (
                &it.place,
                Request::Plain(Verb::Read {
                    offset_bytes: it.offset,
                    len_bytes: it.length,
                }),
            ),
            Self::Write(it) => (
                &it.place,
                Request::Write(it.offset, it.bytes.get(WRITE_BYTES_MAX)?),
            ),
            Self::Send(it) => (&it.place, Request::Send(it.bytes.get(SEND_BYTES_MAX)?)),
            Self::Swap(it) => it.with(|offset_bytes, new| Verb::Swap { offset_bytes, new }),
            Self::FetchAdd(it) => it.with(|offset_bytes, delta| Verb::FetchAdd {
                offset_bytes,
                delta,
            }),
            Self::FetchAnd(it) => {
                it.with(|offset_bytes, mask| Verb::FetchAnd { offset_bytes, mask })
            }
            Self::FetchOr(it) => it.with(|offset_bytes, mask| Verb::FetchOr { offset_bytes, mask }),
            Self::FetchXor(it) => {
                it.with(|offset_bytes, mask| Verb::FetchXor { offset_bytes, mask })
            }
            Self::FetchMin(it) => it.of.with(|offset_bytes, operand| Verb::FetchMin {
                offset_bytes,
                operand,
                order: order(it.signed),
            }),
            Self::FetchMax(it) => it.of.with(|offset_bytes, operand| Verb::FetchMax {
                offset_bytes,
                operand,
                order: order(it.signed),
            }),
            Self::CompareAndSwap(it) => (
                &it.place,
                Request::Plain(Verb::CompareAndSwap {
                    offset_bytes: it.offset,
                    expected: it.expected,
                    new: it.new,
                }),
            ),
            Self::UpdateIf(it) => (&it.place, Request::Plain(it.verb())),
            Self::MultiCommit(it) => {
                let words = it
                    .words
                    .iter()
                    .map(|&[offset_bytes, expected, new]| CommitWord {
                        offset_bytes,
                        expected,
                        new,
                    });
                (&it.place, Request::MultiCommit(words.collect()))
            }
        };
        Ok(Post {
            place,
            request: Some(request),
        })
    }
}

impl OneOperand {
    fn with(&self, verb: impl FnOnce(u64, u64) -> Verb<'static>) -> (&Place, Request) {
        (&self.place, Request::Plain(verb(self.offset, self.operand)))
    }
}

impl UpdateIf {
    fn verb(&self) -> Verb<'static> {
        let operand = self.operand;
        Verb::Conditional {
            offset_bytes: self.offset,
            condition: Condition {
                comparison: match self.condition {
                    Must::Equal => Comparison::Equal,
                    Must::Less => Comparison::Less,
                    Must::AtMost => Comparison::LessOrEqual,
                    Must::Greater => Comparison::Greater,
                    Must::AtLeast => Comparison::GreaterOrEqual,
                },
                comparand: self.comparand,
                order: order(self.signed),
            },
            update: match self.change {
                Change::Swap => Update::Swap(operand),
                Change::Add => Update::Add(operand),
                Change::And => Update::And(operand),
                Change::Or => Update::Or(operand),
                Change::Xor => Update::Xor(operand),
                Change::Min => Update::Min(operand),
                Change::Max => Update::Max(operand),
            },
        }
    }
}

const fn order(signed: bool) -> Order {
    if signed {
        Order::Signed
    } else {
        Order::Unsigned
    }
}
