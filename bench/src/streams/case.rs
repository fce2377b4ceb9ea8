//! The measured cases: a test at a size.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arguments::{Streams, TestName};

/// One thing that every contestant does that can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// A packet goes from the daemon's core to the application's core, which changes one byte of
    /// it, and back.
    Echo,
    /// A packet goes from the daemon's core to the application's, which reads a byte of it.
    OneWay,
    /// Length-prefixed messages, handed over in batches of up to 64 KiB.
    Stream,
    /// Length-prefixed messages, each handed over by itself.
    StreamUnbatched,
    /// One message at a time, there and back.
    RoundTrip,
}

impl Test {
    /// In which unit its figures are, and whether more is better.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Echo | Self::OneWay => "Mpps",
            Self::Stream | Self::StreamUnbatched => "GB/s",
            Self::RoundTrip => "µs",
        }
    }

    /// In words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Echo => "Echo: daemon's core, application's core and back",
            Self::OneWay => "One way: daemon's core to application's core",
            Self::Stream => "Stream of length-prefixed messages, in batches of up to 64 KiB",
            Self::StreamUnbatched => "Stream of length-prefixed messages, one at a time",
            Self::RoundTrip => "Round trip of one message, both sides polling",
        }
    }

    /// Whether the side that receives counts; else the one that began does.
    pub const fn counted_far(self) -> bool {
        matches!(self, Self::OneWay | Self::Stream | Self::StreamUnbatched)
    }
}

/// How large packets or messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// All of this many bytes. A message has its length in front of them.
    Bytes(u32),
    /// As the captures have them.
    Mix,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Mix => f.pad("mix"),
            Self::Bytes(bytes) if bytes >= 1 << 20 => f.pad(&format!("{} MiB", bytes >> 20)),
            Self::Bytes(bytes) if bytes >= 10 << 10 => f.pad(&format!("{} KiB", bytes >> 10)),
            Self::Bytes(bytes) => f.pad(&format!("{bytes} B")),
        }
    }
}

/// A test at a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// The test.
    pub test: Test,
    /// The size.
    pub size: Size,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let test = match self.test {
            Test::Echo => "echo",
            Test::OneWay => "one way",
            Test::Stream => "stream",
            Test::StreamUnbatched => "stream, unbatched",
            Test::RoundTrip => "round trip",
        };
        write!(f, "{test}, {}", self.size)
    }
}

/// Packet sizes of the published sweeps of this kind of system, in bytes.
const PACKETS: [u32; 6] = [64, 128, 256, 512, 1024, 1518];

/// Message sizes, in bytes.
const MESSAGES: [u32; 9] = [
    16,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

/// Largest message that is worth sending by itself and in batches: beyond, a batch holds few.
const UNBATCHED_MAX: u32 = 4 << 10;

/// Returns whether a test of 64-byte packets is selected.
pub fn is_requested(options: &Streams, test: TestName) -> bool {
    (options.tests.is_empty() || options.tests.contains(&test))
        && (options.sizes.is_empty()
            || options
                .sizes
                .iter()
                .any(|size| named(size, Size::Bytes(64))))
}

/// Returns all selected cases that are a test at a size, small sizes first.
pub fn cases(options: &Streams) -> Vec<Case> {
    let packets = || PACKETS.map(Size::Bytes).into_iter().chain([Size::Mix]);
    let messages = || MESSAGES.map(Size::Bytes).into_iter();
    let short = |size: &Size| matches!(size, Size::Bytes(bytes) if *bytes <= UNBATCHED_MAX);
    let all = [
        (Test::Echo, packets().collect::<Vec<_>>()),
        (Test::OneWay, packets().collect()),
        (Test::Stream, messages().collect()),
        (Test::StreamUnbatched, messages().filter(short).collect()),
        (Test::RoundTrip, vec![Size::Bytes(64)]),
    ];
    all.into_iter()
        .flat_map(|(test, sizes)| sizes.into_iter().map(move |size| Case { test, size }))
        .filter(|case| options.tests.is_empty() || options.tests.contains(&requested(case.test)))
        .filter(|case| {
            options.sizes.is_empty() || options.sizes.iter().any(|size| named(size, case.size))
        })
        .collect()
}

const fn requested(test: Test) -> TestName {
    match test {
        Test::Echo => TestName::Echo,
        Test::OneWay => TestName::OneWay,
        Test::Stream | Test::StreamUnbatched => TestName::Stream,
        Test::RoundTrip => TestName::RoundTrip,
    }
}

fn named(name: &str, size: Size) -> bool {
    match size {
        Size::Mix => name == "mix",
        Size::Bytes(bytes) => name.parse() == Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        streams: Streams,
    }

    fn cases_of(options: &[&str]) -> Vec<String> {
        let line = ["streams"].iter().chain(options);
        let arguments = Arguments::try_parse_from(line).expect("a good command line");
        cases(&arguments.streams)
            .iter()
            .map(Case::to_string)
            .collect()
    }

    #[test]
    fn options_select_the_cases() {
        assert_eq!(cases_of(&[]).len(), 7 + 7 + 9 + 5 + 1);
        assert_eq!(
            cases_of(&["--tests", "echo,round-trip", "--sizes", "64,mix"]),
            ["echo, 64 B", "echo, mix", "round trip, 64 B"]
        );
        assert_eq!(
            cases_of(&["--tests", "stream", "--sizes", "4096,1048576"]),
            [
                "stream, 4096 B",
                "stream, 1 MiB",
                "stream, unbatched, 4096 B"
            ]
        );
    }
}
