//! Conditions on the arguments of a call.

use seccompiler::{
    BackendError, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompRule,
};

/// A rule that holds if all these do.
pub(crate) fn all(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

/// The argument of that place, from 0, is `value`.
pub(crate) fn is(place: u8, value: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, Dword, SeccompCmpOp::Eq, value.into())
}

/// The argument has all of these bits.
pub(crate) fn has(place: u8, bits: u32) -> Result<SeccompCondition, BackendError> {
    let bits = u64::from(bits);
    SeccompCondition::new(place, Dword, SeccompCmpOp::MaskedEq(bits), bits)
}

/// The argument has none of these bits.
pub(crate) fn lacks(place: u8, bits: u32) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(place, Dword, SeccompCmpOp::MaskedEq(bits.into()), 0)
}
