//! The kinds of pipe.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Direction and content of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeKind {
    /// Frames to the application.
    Rx,
    /// Frames from the application.
    Tx,
    /// Frames to the application, which sends them back from where they lie.
    RxTx,
    /// Payloads of the UDP datagrams in frames, to the application, without gaps between them.
    RxBytes,
    /// Verb requests from the application (a TX pipe without a port). They are taken in order: a
    /// verb that waits for an unreachable node blocks those behind it, in this pipe only.
    VerbSubmit,
    /// Verb completions to the application (an RX pipe that no port sees).
    VerbComplete,
}

/// The name that the documentation uses.
impl fmt::Display for PipeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rx => "RX",
            Self::Tx => "TX",
            Self::RxTx => "RX/TX",
            Self::RxBytes => "byte",
            Self::VerbSubmit => "verb submission",
            Self::VerbComplete => "verb completion",
        })
    }
}
