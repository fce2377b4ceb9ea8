//! Where things lie in the bank's region. Every word is a `u64`.
//!
//! | offset | word |
//! |---|---|
//! | 0 | counter |
//! | 8 | lock: 0 or its holder's number |
//! | 16, 24 | the guarded pair: always equal outside the lock |
//! | 32 | how many accounts there are |
//! | 40 | each account's first balance |
//! | 64 + 8·n | balance of account n |

/// The counter.
pub const COUNTER: u64 = 0;
/// The lock.
pub const LOCK: u64 = 8;
/// First word of the guarded pair.
pub const GUARDED: u64 = 16;
/// Bytes of the guarded pair.
pub const GUARDED_BYTES: u32 = 16;
/// How many accounts there are.
pub const ACCOUNTS_COUNT: u64 = 32;
/// Each account's first balance.
pub const FIRST_BALANCE: u64 = 40;
/// Balance of the first account.
pub const FIRST_ACCOUNT: u64 = 64;

/// Fewest and most accounts.
pub const ACCOUNTS_MIN: u32 = 2;
/// See [`ACCOUNTS_MIN`].
pub const ACCOUNTS_MAX: u32 = 65_536;
/// Highest first balance. The sum of all accounts stays far below 2⁶⁴, so no balance can wrap.
pub const FIRST_BALANCE_MAX: u64 = 1 << 40;

/// Offset of an account's balance, in bytes.
#[must_use]
pub const fn account(index: u32) -> u64 {
    FIRST_ACCOUNT + 8 * index as u64
}

/// Size of a bank's region, in bytes.
#[must_use]
pub const fn region_bytes(accounts: u32) -> u64 {
    account(accounts)
}
