//! 64 bits as text: JSON's numbers end at 2⁵³.

use std::{fmt, num::ParseIntError};

use serde::{Deserialize, Serialize};

/// 64 bits that mean no quantity, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hex64(pub u64);

impl fmt::Display for Hex64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Hex64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hex64({self})")
    }
}

impl TryFrom<String> for Hex64 {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<Self, ParseIntError> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

impl From<Hex64> for String {
    fn from(bits: Hex64) -> Self {
        bits.to_string()
    }
}
