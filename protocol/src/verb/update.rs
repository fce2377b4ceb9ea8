//! Changes of a word, and conditions on its old value.

use super::VerbKind;

/// How words are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// As numbers from 0 to 2⁶⁴ - 1.
    Unsigned,
    /// As numbers in two's complement.
    Signed,
}

/// How a word must compare to the comparand. The numbers are those on the wire, where 0 means no
/// condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Comparison {
    /// The word is the comparand.
    Equal = 1,
    /// The word is less.
    Less = 2,
    /// The word is less or the same.
    LessOrEqual = 3,
    /// The word is greater.
    Greater = 4,
    /// The word is greater or the same.
    GreaterOrEqual = 5,
}

/// The condition under which a word is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Condition {
    /// How it must stand to the comparand.
    pub comparison: Comparison,
    /// The value to compare with.
    pub comparand: u64,
    /// How they are compared, and the operand of a minimum or maximum too.
    pub order: Order,
}

/// A change of one word, with its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Update {
    /// The operand takes its place. As [`Update::Swap`], but counted as a write.
    Write(u64),
    /// The operand takes its place.
    Swap(u64),
    /// The operand is added, wrapping.
    Add(u64),
    /// Bitwise and.
    And(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise exclusive or.
    Xor(u64),
    /// The smaller of the two.
    Min(u64),
    /// The greater of the two.
    Max(u64),
}

impl Order {
    /// Whether `left` is less than `right`.
    #[must_use]
    pub const fn is_less(self, left: u64, right: u64) -> bool {
        match self {
            Self::Unsigned => left < right,
            Self::Signed => left.cast_signed() < right.cast_signed(),
        }
    }
}

impl Comparison {
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Equal,
            2 => Self::Less,
            3 => Self::LessOrEqual,
            4 => Self::Greater,
            5 => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

impl Condition {
    /// Whether `word` meets it.
    #[must_use]
    pub const fn is_met(self, word: u64) -> bool {
        let (order, comparand) = (self.order, self.comparand);
        match self.comparison {
            Comparison::Equal => word == comparand,
            Comparison::Less => order.is_less(word, comparand),
            Comparison::LessOrEqual => !order.is_less(comparand, word),
            Comparison::Greater => order.is_less(comparand, word),
            Comparison::GreaterOrEqual => !order.is_less(word, comparand),
        }
    }
}

impl Update {
    /// The result of the update for the old value `word`.
    #[must_use]
    pub const fn of(self, word: u64, order: Order) -> u64 {
        match self {
            Self::Write(operand) | Self::Swap(operand) => operand,
            Self::Add(operand) => word.wrapping_add(operand),
            Self::And(operand) => word & operand,
            Self::Or(operand) => word | operand,
            Self::Xor(operand) => word ^ operand,
            Self::Min(operand) if order.is_less(operand, word) => operand,
            Self::Max(operand) if order.is_less(word, operand) => operand,
            Self::Min(_) | Self::Max(_) => word,
        }
    }

    pub(super) const fn operand(self) -> u64 {
        match self {
            Self::Write(operand)
            | Self::Swap(operand)
            | Self::Add(operand)
            | Self::And(operand)
            | Self::Or(operand)
            | Self::Xor(operand)
            | Self::Min(operand)
            | Self::Max(operand) => operand,
        }
    }

    pub(super) const fn kind(self) -> VerbKind {
        match self {
            Self::Write(_) => VerbKind::Write,
            Self::Swap(_) => VerbKind::Swap,
            Self::Add(_) => VerbKind::FetchAdd,
            Self::And(_) => VerbKind::FetchAnd,
            Self::Or(_) => VerbKind::FetchOr,
            Self::Xor(_) => VerbKind::FetchXor,
            Self::Min(_) => VerbKind::FetchMin,
            Self::Max(_) => VerbKind::FetchMax,
        }
    }

    /// The change that verb `kind` makes of an operand, if there is a conditional form of it.
    pub(super) const fn of_kind(kind: VerbKind) -> Option<fn(u64) -> Self> {
        Some(match kind {
            VerbKind::Write => Self::Write,
            VerbKind::Swap => Self::Swap,
            VerbKind::FetchAdd => Self::Add,
            VerbKind::FetchAnd => Self::And,
            VerbKind::FetchOr => Self::Or,
            VerbKind::FetchXor => Self::Xor,
            VerbKind::FetchMin => Self::Min,
            VerbKind::FetchMax => Self::Max,
            VerbKind::Read
            | VerbKind::CompareAndSwap
            | VerbKind::MultiCommit
            | VerbKind::Lookup
            | VerbKind::Send => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_in_their_order() {
        const MINUS_ONE: u64 = u64::MAX;
        // Whether each comparison is met by a word that is less, the same, greater.
        let met = [
            (Comparison::Equal, [false, true, false]),
            (Comparison::Less, [true, false, false]),
            (Comparison::LessOrEqual, [true, true, false]),
            (Comparison::Greater, [false, false, true]),
            (Comparison::GreaterOrEqual, [false, true, true]),
        ];
        for (comparison, expected) in met {
            for (order, words, comparand) in [
                (Order::Unsigned, [4, 5, MINUS_ONE], 5),
                (Order::Signed, [MINUS_ONE, 5, 6], 5),
            ] {
                let condition = Condition {
                    comparison,
                    comparand,
                    order,
                };
                assert_eq!(
                    words.map(|word| condition.is_met(word)),
                    expected,
                    "{condition:?}"
                );
            }
        }
    }

    #[test]
    fn a_minimum_and_a_maximum_use_their_order() {
        let minus_one = u64::MAX;
        assert_eq!(Update::Min(3).of(minus_one, Order::Unsigned), 3);
        assert_eq!(Update::Min(3).of(minus_one, Order::Signed), minus_one);
        assert_eq!(Update::Max(3).of(minus_one, Order::Unsigned), minus_one);
        assert_eq!(Update::Max(3).of(minus_one, Order::Signed), 3);
    }
}
