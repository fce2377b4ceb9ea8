//! A request that was read once, without the bytes that it came in.

use super::{Rights, memory::WORD_BYTES, reserve::Hold};
use crate::verb::{
    Comparison, Condition, MultiCommit, Order, REQUEST_HEADER_BYTES, Request, Update, Verb,
    VerbKind,
};

/// What is to be done, where. Data, words to commit and names stay in the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub kind: VerbKind,
    pub rkey: u32,
    pub offset: u64,
    pub action: Action,
}

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// So many bytes are read.
    Read(usize),
    /// The operands are written.
    Write,
    /// A word is changed.
    Update(Update, Order),
    /// A word is changed if a condition is met.
    Conditional(Condition, Update),
    /// The operands are words to commit.
    MultiCommit,
    /// The operands are a name.
    Lookup,
}

impl Task {
    /// What `request` asks for.
    pub fn new(request: &Request<'_>) -> Self {
        let update = |update| Action::Update(update, Order::Unsigned);
        let action = match request.verb {
            Verb::Read { len } => Action::Read(len as usize),
            Verb::Write { .. } => Action::Write,
            Verb::Swap { new } => update(Update::Swap(new)),
            Verb::CompareAndSwap { expected, new } => {
                let condition = Condition {
                    comparison: Comparison::Equal,
                    comparand: expected,
                    order: Order::Unsigned,
                };
                Action::Conditional(condition, Update::Swap(new))
            }
            Verb::FetchAdd { delta } => update(Update::Add(delta)),
            Verb::FetchAnd { mask } => update(Update::And(mask)),
            Verb::FetchOr { mask } => update(Update::Or(mask)),
            Verb::FetchXor { mask } => update(Update::Xor(mask)),
            Verb::FetchMin { operand, order } => Action::Update(Update::Min(operand), order),
            Verb::FetchMax { operand, order } => Action::Update(Update::Max(operand), order),
            Verb::Conditional { condition, update } => Action::Conditional(condition, update),
            Verb::MultiCommit(_) => Action::MultiCommit,
            Verb::Lookup { .. } => Action::Lookup,
        };
        Self {
            kind: request.verb.kind(),
            rkey: request.rkey,
            offset: u64::from(request.offset),
            action,
        }
    }

    /// Whether `rights` allow it. A conditional write tells what the word held, so it needs the right of atomic verbs.
    pub const fn is_allowed(&self, rights: Rights) -> bool {
        match self.action {
            Action::Read(_) => rights.read,
            Action::Write => rights.write,
            Action::Lookup => true,
            Action::Update(..) | Action::Conditional(..) | Action::MultiCommit => rights.atomic,
        }
    }

    /// How it holds the words that it changes; `None` if it changes none.
    pub const fn hold(&self) -> Option<Hold> {
        match self.action {
            Action::Read(_) | Action::Lookup => None,
            Action::Update(update, order) => Some(Hold::of(update, order)),
            Action::Write | Action::Conditional(..) | Action::MultiCommit => Some(Hold::Exclusive),
        }
    }

    /// Bytes that it touches from its offset on; those of a multi-commit lie elsewhere.
    pub const fn touched_bytes(&self, request: &[u8]) -> u64 {
        match self.action {
            Action::Read(len) => len as u64,
            Action::Write => request.len().saturating_sub(REQUEST_HEADER_BYTES) as u64,
            Action::Update(..) | Action::Conditional(..) => WORD_BYTES,
            Action::MultiCommit | Action::Lookup => 0,
        }
    }

    /// Calls `visit` with the number of each word that it touches, in order, until that fails.
    pub fn try_for_each_word<E>(
        &self,
        request: &[u8],
        mut visit: impl FnMut(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = |offset: u64| (offset / WORD_BYTES) as u32;
        match self.action {
            Action::MultiCommit => words(request)
                .iter()
                .try_for_each(|word| visit(number(u64::from(word.offset)))),
            Action::Lookup => Ok(()),
            _ => {
                let end = self.offset + self.touched_bytes(request);
                (number(self.offset)..number(end.next_multiple_of(WORD_BYTES))).try_for_each(visit)
            }
        }
    }
}

/// What follows the header of a request that was decoded before.
pub(super) fn operands(request: &[u8]) -> &[u8] {
    request.get(REQUEST_HEADER_BYTES..).unwrap_or_default()
}

/// The words of a multi-commit that was decoded before.
pub(super) fn words(request: &[u8]) -> MultiCommit<'_> {
    MultiCommit::of_checked(operands(request))
}
