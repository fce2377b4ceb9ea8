//! Memory that a node's applications share: the production verb engine, on memory that counts
//! writes to it.
//!
//! | words | what |
//! |---|---|
//! | 0 | a counter, only ever added to |
//! | 1 to 64 | accounts, changed by transfers alone, most often the first eight |
//! | 65 to 72 | words for every verb |
//! | 73 to 136 | bytes to read and write |

use covalent_protocol::{
    region::{Engine, Memory, Registration, Rights, Words},
    verb::MULTI_COMMIT_WORDS_MAX,
};

/// Key of the region that everything happens in.
pub const RKEY: u32 = 7;
/// Its name.
pub const NAME: &str = "bank";
/// Key of a region that grants nothing but reading.
pub const READ_ONLY_RKEY: u32 = 8;
/// The word that counts.
pub const COUNTER: usize = 0;
/// The first account.
pub const FIRST_ACCOUNT: usize = 1;
/// Accounts of each node.
pub const ACCOUNTS: usize = MULTI_COMMIT_WORDS_MAX;
/// Accounts that most transfers are between, the first ones.
pub const BUSY_ACCOUNTS: usize = 8;
/// Initial balance of each account.
pub const OPENING_BALANCE: u64 = 1000;
/// The first word for every verb.
pub const FIRST_SCRATCH: usize = FIRST_ACCOUNT + ACCOUNTS;
/// Words for every verb.
pub const SCRATCH: usize = 8;
/// The first byte to read and write.
pub const DATA_OFFSET: usize = (FIRST_SCRATCH + SCRATCH) * WORD_BYTES;
/// Bytes to read and write.
pub const DATA_BYTES: usize = 64 * WORD_BYTES;
/// Bytes of the region.
pub const REGION_BYTES: usize = DATA_OFFSET + DATA_BYTES;
/// Words of the region.
pub const REGION_WORDS: usize = REGION_BYTES / WORD_BYTES;
/// Bytes of a word.
pub const WORD_BYTES: usize = 8;

/// Words that count how often anything was written.
#[derive(Debug, Clone)]
pub struct Counted {
    words: Words,
    writes: u64,
}

/// Engine that executes a node's verbs.
pub type Region = Engine<Counted>;

/// The regions of a node that has just started.
#[must_use]
pub fn opened() -> Region {
    let mut region = Region::new();
    for (rkey, name, rights) in [
        (RKEY, NAME, Rights::ALL),
        (
            READ_ONLY_RKEY,
            "ledger",
            Rights {
                write: false,
                atomic: false,
                ..Rights::ALL
            },
        ),
    ] {
        let mut memory = Counted {
            words: Words::new(REGION_WORDS),
            writes: 0,
        };
        for account in 0..ACCOUNTS {
            let offset = (FIRST_ACCOUNT + account) * WORD_BYTES;
            memory.words.swap(offset as u64, OPENING_BALANCE);
        }
        let registered = region.register(Registration {
            owner: 1,
            name: name.into(),
            rkey,
            rights,
            memory,
        });
        debug_assert!(registered.is_ok());
    }
    region
}

/// The regions of a node that starts again with this in its memory.
#[must_use]
pub fn restored(words: &[u64; REGION_WORDS]) -> Region {
    let mut region = opened();
    if let Some(mut memory) = region.remove(RKEY) {
        for (at, word) in words.iter().enumerate() {
            memory.words.swap((at * WORD_BYTES) as u64, *word);
        }
        let registered = region.register(Registration {
            owner: 1,
            name: NAME.into(),
            rkey: RKEY,
            rights: Rights::ALL,
            memory,
        });
        debug_assert!(registered.is_ok());
    }
    region
}

/// Times that anything was written to the memory of a node.
#[must_use]
pub fn writes(region: &Region) -> u64 {
    [RKEY, READ_ONLY_RKEY]
        .into_iter()
        .filter_map(|rkey| region.memory(rkey))
        .map(|memory| memory.writes)
        .sum()
}

/// The words of the region that everything happens in.
#[must_use]
pub fn words(region: &Region) -> [u64; REGION_WORDS] {
    let mut bytes = [0; REGION_WORDS * WORD_BYTES];
    let read = region
        .memory(RKEY)
        .and_then(|memory| memory.read(0, &mut bytes));
    debug_assert!(read.is_some());
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

impl Memory for Counted {
    fn size_bytes(&self) -> u64 {
        self.words.size_bytes()
    }

    fn load(&self, offset: u64) -> Option<u64> {
        self.words.load(offset)
    }

    fn swap(&mut self, offset: u64, value: u64) -> Option<u64> {
        self.writes += 1;
        self.words.swap(offset, value)
    }

    fn compare_exchange(
        &mut self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Option<Result<u64, u64>> {
        let found = self.words.compare_exchange(offset, expected, new)?;
        self.writes += u64::from(found.is_ok());
        Some(found)
    }

    fn fetch_add(&mut self, offset: u64, delta: u64) -> Option<u64> {
        self.writes += 1;
        self.words.fetch_add(offset, delta)
    }

    fn fetch_and(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.writes += 1;
        self.words.fetch_and(offset, mask)
    }

    fn fetch_or(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.writes += 1;
        self.words.fetch_or(offset, mask)
    }

    fn fetch_xor(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.writes += 1;
        self.words.fetch_xor(offset, mask)
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
        self.words.read(offset, target)
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> Option<()> {
        self.writes += 1;
        self.words.write(offset, source)
    }
}
