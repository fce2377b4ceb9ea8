//! The bank's own look at its region, by loads of the words where they lie.

use covalent::{Error, Region};
use serde::Serialize;

use crate::bank::layout;

/// The bank's state, all clients at rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Whether the lock is free, the guarded pair is equal, and the sum of the accounts is
    /// unchanged.
    pub ok: bool,
    /// The counter.
    pub counter: u64,
    /// The lock's word: 0, or the number of its holder.
    pub lock: u64,
    /// The guarded pair: both count the sections that ran under the lock.
    pub guarded: [u64; 2],
    /// All balances.
    pub accounts: Vec<u64>,
    /// Their sum, modulo 2⁶⁴.
    pub accounts_sum: u64,
    /// The sum that they began with.
    pub accounts_sum_expected: u64,
}

/// Lays a new bank out in a region that is zero.
///
/// # Errors
/// The region is too small for its accounts.
pub fn open(region: &Region, accounts: u32, balance: u64) -> Result<(), Error> {
    region.store(layout::FIRST_BALANCE, balance)?;
    for index in 0..accounts {
        region.store(layout::account(index), balance)?;
    }
    // Last: a client that finds it zero waits.
    region.store(layout::ACCOUNTS_COUNT, u64::from(accounts))
}

/// Looks at every word.
///
/// # Errors
/// The region is too small for its accounts.
pub fn audit(region: &Region, accounts: u32, balance: u64) -> Result<Audit, Error> {
    let counter = region.load(layout::COUNTER)?;
    let lock = region.load(layout::LOCK)?;
    let guarded = [
        region.load(layout::GUARDED)?,
        region.load(layout::GUARDED + 8)?,
    ];
    let accounts: Vec<u64> = (0..accounts)
        .map(|index| region.load(layout::account(index)))
        .collect::<Result<_, _>>()?;
    let accounts_sum = accounts
        .iter()
        .fold(0u64, |sum, balance| sum.wrapping_add(*balance));
    let accounts_sum_expected = balance.wrapping_mul(accounts.len() as u64);
    let ok = lock == 0 && guarded[0] == guarded[1] && accounts_sum == accounts_sum_expected;
    Ok(Audit {
        ok,
        counter,
        lock,
        guarded,
        accounts,
        accounts_sum,
        accounts_sum_expected,
    })
}
