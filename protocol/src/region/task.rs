//! A decoded request, without the bytes that it came in.

use super::{Rights, memory::WORD_BYTES, reserve::Hold};
use crate::verb::{
    Comparison, Condition, DecodeError, MultiCommit, Order, REQUEST_HEADER_BYTES, Request, Update,
    Verb, VerbKind,
};

/// The operation and its location. Data, words to commit and names stay in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Task {
    pub kind: VerbKind,
    pub rkey: u32,
    pub offset: u64,
    pub action: Action,
}

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The operands are a message.
    Send,
}

impl Task {
    /// Decodes the bytes of a request.
    ///
    /// # Errors
    /// As [`Request::decode`].
    #[inline]
    pub fn read(request: &[u8]) -> Result<Self, DecodeError> {
        match Self::read_update(request) {
            Some(task) => Ok(task),
            None => Ok(Self::new(&Request::decode(request)?)),
        }
    }

    /// As [`Task::read`] for the requests of a busy link: one operand for one word, without a
    /// condition. `None` forevery other request and for bytes that do not decode.
    #[inline]
    pub fn read_update(request: &[u8]) -> Option<Self> {
        const BYTES: usize = REQUEST_HEADER_BYTES + WORD_BYTES as usize;
        let request: &[u8; BYTES] = request.try_into().ok()?;
        let [code, 0, 0, 0, rest @ ..] = request else {
            return None;
        };
        let (numbers, _) = rest.as_chunks::<4>();
        let [rkey, offset, low, high] = *numbers.first_chunk()?;
        let offset = u32::from_le_bytes(offset);
        if !offset.is_multiple_of(WORD_BYTES as u32) {
            return None;
        }
        let operand =
            u64::from(u32::from_le_bytes(low)) | u64::from(u32::from_le_bytes(high)) << 32;
        const ADD: u8 = VerbKind::FetchAdd as u8;
        const SWAP: u8 = VerbKind::Swap as u8;
        let (kind, update) = match *code {
            ADD => (VerbKind::FetchAdd, Update::Add(operand)),
            SWAP => (VerbKind::Swap, Update::Swap(operand)),
            _ => return None,
        };
        Some(Self {
            kind,
            rkey: u32::from_le_bytes(rkey),
            offset: u64::from(offset),
            action: Action::Update(update, Order::Unsigned),
        })
    }

    /// The task of a decoded `request`.
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
            Verb::Send { .. } => Action::Send,
        };
        Self {
            kind: request.verb.kind(),
            rkey: request.rkey,
            offset: u64::from(request.offset),
            action,
        }
    }

    /// Whether `rights` allow it. A conditional write reveals the old word, so it needs the right
    /// of atomic verbs.
    pub const fn is_allowed(&self, rights: Rights) -> bool {
        match self.action {
            Action::Read(_) => rights.read,
            Action::Write => rights.write,
            Action::Lookup => true,
            Action::Send => rights.send,
            Action::Update(..) | Action::Conditional(..) | Action::MultiCommit => rights.atomic,
        }
    }

    /// How it holds the words that it changes; `None` if it changes none that verbs name.
    pub const fn hold(&self) -> Option<Hold> {
        match self.action {
            Action::Read(_) | Action::Lookup | Action::Send => None,
            Action::Update(update, order) => Some(Hold::of(update, order)),
            Action::Write | Action::Conditional(..) | Action::MultiCommit => Some(Hold::Exclusive),
        }
    }

    /// Number of bytes that it touches from its offset. The bytes of a multi-commit lie elsewhere.
    pub const fn touched_bytes(&self, request: &[u8]) -> u64 {
        match self.action {
            Action::Read(len) => len as u64,
            Action::Write => request.len().saturating_sub(REQUEST_HEADER_BYTES) as u64,
            Action::Update(..) | Action::Conditional(..) => WORD_BYTES,
            Action::MultiCommit | Action::Lookup | Action::Send => 0,
        }
    }

    /// Calls `visit` with the number of each touched word, in order, until a call fails.
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
            Action::Lookup | Action::Send => Ok(()),
            Action::Update(..) | Action::Conditional(..) => visit(number(self.offset)),
            Action::Read(_) | Action::Write => {
                let end = self.offset + self.touched_bytes(request);
                (number(self.offset)..number(end.next_multiple_of(WORD_BYTES))).try_for_each(visit)
            }
        }
    }
}

/// The bytes behind the header of a request that was decoded before.
pub(super) fn operands(request: &[u8]) -> &[u8] {
    request.get(REQUEST_HEADER_BYTES..).unwrap_or_default()
}

/// The words of a multi-commit that was decoded before.
pub(super) fn words(request: &[u8]) -> MultiCommit<'_> {
    MultiCommit::of_checked(operands(request))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// Requests close to those of the fast path: of any verb, with each field valid or invalid.
    fn nearly_updates() -> impl Strategy<Value = Vec<u8>> {
        let code = prop_oneof![
            Just(VerbKind::FetchAdd as u8),
            Just(VerbKind::Swap as u8),
            0..15_u8
        ];
        let nearly_zero = || prop_oneof![Just(0), 0..3_u8];
        let header = (code, nearly_zero(), nearly_zero(), any::<u32>(), 0..64_u32);
        let operands = prop_oneof![vec(any::<u8>(), 8), vec(any::<u8>(), 0..=16)];
        (header, operands).prop_map(|((code, flags, count, rkey, offset), operands)| {
            let mut request = Vec::from([code, flags, count, 0]);
            request.extend(rkey.to_le_bytes());
            request.extend((offset * 4).to_le_bytes());
            request.extend(operands);
            request
        })
    }

    proptest! {
        #[test]
        fn the_short_path_reads_what_the_long_path_reads(request in nearly_updates()) {
            let decoded = Request::decode(&request).map(|request| Task::new(&request));
            if let Some(task) = Task::read_update(&request) {
                prop_assert_eq!(decoded, Ok(task));
            }
            prop_assert_eq!(Task::read(&request), decoded);
        }

        #[test]
        fn additions_and_swaps_take_the_short_path(
            is_swap in any::<bool>(),
            rkey in any::<u32>(),
            word in 0..1_u32 << 29,
            operand in any::<u64>(),
        ) {
            let verb = if is_swap { Verb::Swap { new: operand } } else {
                Verb::FetchAdd { delta: operand }
            };
            let request = Request { rkey, offset: word * 8, verb };
            let mut bytes = [0; 20];
            prop_assert_eq!(request.encode(&mut bytes), Ok(20));
            prop_assert_eq!(Task::read_update(&bytes), Some(Task::new(&request)));
        }
    }
}
