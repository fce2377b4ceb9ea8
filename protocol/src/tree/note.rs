//! What neighbours say to each other about trees.
//!
//! ```text
//!  item     ├ flags u8 ┼ hops u16 ┼ life u16 ┼ root u64 ┼ wave u48 ┼ rank u64 ┤                 27 bytes
//!  Advert   ├ 1 u8 ┼ item × 1 to 40 ┤        one item: 28 bytes, one record; 40: 1,081 bytes, one frame
//!  Seek     ├ 2 u8 ┼ item × 1 to 40 ┤        the label is the bound; flags, hops and life are 0
//!  Denied   ├ 3 u8 ┼ root u64 × 1 to 135 ┤
//!  Digest   ├ 4 u8 ┼ number of the Tell that it answers u8, 0 for none ┼ 0 ×2 ┼ trees u32 ┼ sum u64 ┤         16 bytes
//!  Tell     ├ 5 u8 ┼ number u8, not 0 ┤               say everything again
//!  Called   ├ 11 u8 ┼ (root u64 ┼ bytes of its name u8, 1 to 32 ┼ its name) × 1 to 108 ┤
//!  flags of an item: 1 hangs (0: lost, and then the others and the hops are 0), 2 "you are my parent", 4 "and I do not know the root's name"
//! ```
//!
//! 6 to 8 and 14 are [notes about channels](crate::channel::note). Numbers are little-endian. A note needs no acknowledgement: in an epoch it arrives once and in order, or the link fails, and then
//! both ends forget what the other one said. Decoding is exact: what no node writes is refused.

use core::fmt;

use super::Label;
use crate::{Name, wire::FRAME_PAYLOAD_BYTES_MAX};

/// Bytes of an item.
pub const ITEM_BYTES: usize = 27;
/// Most items of a note.
pub const ITEMS_MAX: usize = (NOTE_BYTES_MAX - 1) / ITEM_BYTES;
/// Longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 1081;
/// Bytes of a note with one item, and so the least space that a note needs where it bears no name.
pub const NOTE_BYTES_MIN: usize = 1 + ITEM_BYTES;
/// Bytes of a note with one name of the greatest length, and so the least space that names need.
pub const CALLED_BYTES_MIN: usize = 1 + NAME_ENTRY_BYTES_MAX;

/// Bytes of a root's GUID.
const ROOT_BYTES: usize = 8;
/// Most bytes of a name with its root.
const NAME_ENTRY_BYTES_MAX: usize = ROOT_BYTES + 1 + Name::BYTES_MAX;

const _: () = assert!(NOTE_BYTES_MAX <= FRAME_PAYLOAD_BYTES_MAX);

/// The greatest wave that an item has room for.
const WAVE_BITS_MAX: u64 = (1 << 48) - 1;

const _: () = assert!(WAVE_BITS_MAX > Label::WAVE_MAX);

const ADVERT: u8 = 1;
const SEEK: u8 = 2;
const DENIED: u8 = 3;
const DIGEST: u8 = 4;
const TELL: u8 = 5;
const CALLED: u8 = 11;

const HANGS: u8 = 1;
const CHILD: u8 = 2;
const NAMELESS: u8 = 4;

/// Why a note is not one that a node says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadNote {
    /// It is empty, or its first byte names none.
    Kind,
    /// Its length is not a whole number of what it consists of, or more than fits.
    Length,
    /// A bit that must be 0 is not, or one thing that it says excludes another.
    Reserved,
    /// The root is 0, which is nobody.
    Nobody,
    /// The name is none.
    Name,
}

/// What a node says of one tree, or the bound that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item {
    /// GUID of the root.
    pub root: u64,
    /// The speaker's own label; in a seek the bound.
    pub label: Label,
    /// Cables between the speaker and the root; 0 for the root, and for whoever is lost.
    pub hops: u16,
    /// Low half of the incarnation of the root on whose word the label is.
    pub life: u16,
    /// Whether the speaker knows a way to the root.
    pub hangs: bool,
    /// Whether that way leads through the listener.
    pub child: bool,
    /// Whether the speaker hangs on the listener and wants to be told what the root is called.
    pub nameless: bool,
}

impl Item {
    /// The bound below which a node asks a neighbour to come.
    #[must_use]
    pub const fn bound(root: u64, label: Label) -> Self {
        Self {
            root,
            label,
            hops: 0,
            life: 0,
            hangs: false,
            child: false,
            nameless: false,
        }
    }

    fn to_bytes(self) -> [u8; ITEM_BYTES] {
        let mut bytes = [0; ITEM_BYTES];
        bytes[0] = (u8::from(self.hangs) * HANGS)
            | (u8::from(self.child) * CHILD)
            | (u8::from(self.nameless) * NAMELESS);
        bytes[1..3].copy_from_slice(&self.hops.to_le_bytes());
        bytes[3..5].copy_from_slice(&self.life.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.root.to_le_bytes());
        // What registers hold may be more than there is room for: then it is the most, which is as little believed.
        let wave = self.label.wave().min(WAVE_BITS_MAX);
        bytes[13..19].copy_from_slice(&wave.to_le_bytes()[..6]);
        bytes[19..27].copy_from_slice(&self.label.rank().to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; ITEM_BYTES]) -> Result<Self, BadNote> {
        let [flags, hops_0, hops_1, life_0, life_1, rest @ ..] = *bytes;
        let (root, rest) = rest.split_first_chunk::<8>().ok_or(BadNote::Length)?;
        let (&[w0, w1, w2, w3, w4, w5], rest) =
            rest.split_first_chunk::<6>().ok_or(BadNote::Length)?;
        let rank = rest.first_chunk::<8>().ok_or(BadNote::Length)?;
        let wave = u64::from_le_bytes([w0, w1, w2, w3, w4, w5, 0, 0]);
        let this = Self {
            root: u64::from_le_bytes(*root),
            label: Label::new(wave, u64::from_le_bytes(*rank)),
            hops: u16::from_le_bytes([hops_0, hops_1]),
            life: u16::from_le_bytes([life_0, life_1]),
            hangs: flags & HANGS != 0,
            child: flags & CHILD != 0,
            nameless: flags & NAMELESS != 0,
        };
        let excluded =
            (this.nameless && !this.child) || (!this.hangs && (this.child || this.hops != 0));
        if flags & !(HANGS | CHILD | NAMELESS) != 0 || excluded {
            return Err(BadNote::Reserved);
        }
        if this.root == 0 {
            return Err(BadNote::Nobody);
        }
        Ok(this)
    }
}

/// A note as it was heard.
#[derive(Debug, Clone)]
pub enum Note<'a> {
    /// Where the speaker stands in these trees.
    Advert(Items<'a>),
    /// The speaker asks the listener to come nearer than the labels.
    Seek(Items<'a>),
    /// The speaker cannot come nearer to these roots now. It says so again when that may have changed.
    Denied(Roots<'a>),
    /// What all that the speaker said comes to.
    Digest(Digest),
    /// The speaker noted something else than that: everything is to be said again. With a number that is not 0, which the digest behind it
    /// repeats.
    Tell(u8),
    /// What these roots are called.
    Called(Names<'a>),
}

impl<'a> Note<'a> {
    /// Reads a note that fills `bytes`.
    ///
    /// # Errors
    /// [`BadNote`]: no node says it.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BadNote> {
        let (&kind, content) = bytes.split_first().ok_or(BadNote::Kind)?;
        if bytes.len() > NOTE_BYTES_MAX {
            return Err(BadNote::Length);
        }
        match kind {
            ADVERT => Ok(Self::Advert(Items::read(content)?)),
            SEEK => {
                let items = Items::read(content)?;
                let is_bound = |item: Item| item == Item::bound(item.root, item.label);
                if items.clone().all(is_bound) {
                    Ok(Self::Seek(items))
                } else {
                    Err(BadNote::Reserved)
                }
            }
            DENIED => Ok(Self::Denied(Roots::read(content)?)),
            DIGEST => Ok(Self::Digest(Digest::read(content)?)),
            TELL => match content {
                [0] => Err(BadNote::Reserved),
                &[number] => Ok(Self::Tell(number)),
                _ => Err(BadNote::Length),
            },
            CALLED => Ok(Self::Called(Names::read(content)?)),
            _ => Err(BadNote::Kind),
        }
    }
}

/// What all that a node says to a neighbour comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// The number of the question that was answered before it; 0 for none.
    pub answers: u8,
    /// Trees in which the speaker hangs.
    pub items: u32,
    /// The sum of all that it said of these, mixed.
    pub sum: u64,
}

impl Digest {
    fn read(content: &[u8]) -> Result<Self, BadNote> {
        let &[answers, zero_0, zero_1, ref rest @ ..] = content else {
            return Err(BadNote::Length);
        };
        let (items, rest) = rest.split_first_chunk::<4>().ok_or(BadNote::Length)?;
        let sum: &[u8; 8] = rest.try_into().map_err(|_| BadNote::Length)?;
        if (zero_0, zero_1) != (0, 0) {
            return Err(BadNote::Reserved);
        }
        Ok(Self {
            answers,
            items: u32::from_le_bytes(*items),
            sum: u64::from_le_bytes(*sum),
        })
    }

    /// Writes it into `space`, of [`NOTE_BYTES_MIN`] bytes at least, and returns the length of the note.
    pub fn write(&self, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(space, DIGEST);
        writer.put(&[self.answers, 0, 0]);
        writer.put(&self.items.to_le_bytes());
        writer.put(&self.sum.to_le_bytes());
        writer.finish()
    }
}

/// Writes the question for everything into `space`, likewise. Its number is not 0.
pub fn write_tell(number: u8, space: &mut [u8]) -> Option<usize> {
    let mut writer = Writer::new(space, TELL);
    writer.put(&[number]);
    writer.finish()
}

/// Whether a note is an advert.
#[must_use]
pub fn is_advert(note: &[u8]) -> bool {
    note.first() == Some(&ADVERT)
}

/// The items of a note, one after the other.
#[derive(Debug, Clone)]
pub struct Items<'a>(core::slice::Iter<'a, [u8; ITEM_BYTES]>);

impl<'a> Items<'a> {
    /// All of them are checked here.
    fn read(content: &'a [u8]) -> Result<Self, BadNote> {
        let (items, rest) = content.as_chunks::<ITEM_BYTES>();
        if items.is_empty() || !rest.is_empty() {
            return Err(BadNote::Length);
        }
        for item in items {
            Item::read(item)?;
        }
        Ok(Self(items.iter()))
    }
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.0.next().and_then(|bytes| Item::read(bytes).ok())
    }
}

/// The roots of a note, one after the other.
#[derive(Debug, Clone)]
pub struct Roots<'a>(core::slice::Iter<'a, [u8; ROOT_BYTES]>);

impl<'a> Roots<'a> {
    fn read(content: &'a [u8]) -> Result<Self, BadNote> {
        let (roots, rest) = content.as_chunks::<ROOT_BYTES>();
        if roots.is_empty() || !rest.is_empty() {
            return Err(BadNote::Length);
        }
        if roots.contains(&[0; ROOT_BYTES]) {
            return Err(BadNote::Nobody);
        }
        Ok(Self(roots.iter()))
    }
}

impl Iterator for Roots<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0.next().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// The names of a note, each behind its root.
#[derive(Debug, Clone)]
pub struct Names<'a>(&'a [u8]);

impl<'a> Names<'a> {
    fn read(content: &'a [u8]) -> Result<Self, BadNote> {
        if content.is_empty() {
            return Err(BadNote::Length);
        }
        let mut rest = content;
        while !rest.is_empty() {
            (_, rest) = Self::split(rest)?;
        }
        Ok(Self(content))
    }

    /// The first of them, and what is behind it.
    fn split(content: &'a [u8]) -> Result<((u64, Name), &'a [u8]), BadNote> {
        let (root, rest) = content
            .split_first_chunk::<ROOT_BYTES>()
            .ok_or(BadNote::Length)?;
        let (&len, rest) = rest.split_first().ok_or(BadNote::Length)?;
        let (name, rest) = rest
            .split_at_checked(usize::from(len))
            .ok_or(BadNote::Length)?;
        let root = u64::from_le_bytes(*root);
        if root == 0 {
            return Err(BadNote::Nobody);
        }
        let name = Name::from_bytes(name).map_err(|_| BadNote::Name)?;
        Ok(((root, name), rest))
    }
}

impl Iterator for Names<'_> {
    type Item = (u64, Name);

    fn next(&mut self) -> Option<(u64, Name)> {
        let (named, rest) = Self::split(self.0).ok()?;
        self.0 = rest;
        Some(named)
    }
}

/// A note that is being written: as much of it as there is space for.
#[derive(Debug)]
pub struct Writer<'a> {
    space: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// An advert into `space`, of [`NOTE_BYTES_MIN`] bytes at least.
    pub fn advert(space: &'a mut [u8]) -> Self {
        Self::new(space, ADVERT)
    }

    /// A seek, likewise.
    pub fn seek(space: &'a mut [u8]) -> Self {
        Self::new(space, SEEK)
    }

    /// Denials, likewise.
    pub fn denied(space: &'a mut [u8]) -> Self {
        Self::new(space, DENIED)
    }

    /// Names, into `space` of [`CALLED_BYTES_MIN`] bytes at least.
    pub fn called(space: &'a mut [u8]) -> Self {
        Self::new(space, CALLED)
    }

    fn new(space: &'a mut [u8], kind: u8) -> Self {
        let most = space.len().min(NOTE_BYTES_MAX);
        let mut this = Self {
            space: &mut space[..most],
            len: 0,
        };
        this.put(&[kind]);
        this
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.space.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Whether there is room for another item; where there is, there is for a root.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.len + ITEM_BYTES <= self.space.len()
    }

    /// Whether there is room for another name, whatever its length.
    #[must_use]
    pub const fn has_room_for_name(&self) -> bool {
        self.len + NAME_ENTRY_BYTES_MAX <= self.space.len()
    }

    /// Adds an item to an advert or a seek. Without room it is left out.
    pub fn item(&mut self, item: Item) {
        self.put(&item.to_bytes());
    }

    /// Adds a root to denials. Without room it is left out.
    pub fn root(&mut self, root: u64) {
        self.put(&root.to_le_bytes());
    }

    /// Adds what a root is called to names. Where [`Self::has_room_for_name`] says no, it may be left out.
    pub fn name(&mut self, root: u64, name: &Name) {
        let text = name.as_bytes();
        if self.len + ROOT_BYTES + 1 + text.len() <= self.space.len() {
            self.put(&root.to_le_bytes());
            self.put(&[text.len() as u8]);
            self.put(text);
        }
    }

    /// Bytes of the note; `None` while nothing was added.
    #[must_use]
    pub const fn finish(self) -> Option<usize> {
        if self.len > 1 { Some(self.len) } else { None }
    }
}

impl fmt::Display for BadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "a note of no kind",
            Self::Length => "a note of a length that its kind cannot have",
            Self::Reserved => "a note with something set that must be 0",
            Self::Nobody => "a note about the GUID 0",
            Self::Name => "a note with a name that is none",
        })
    }
}

impl core::error::Error for BadNote {}

#[cfg(test)]
mod tests {
    use std::{format, string::String, vec, vec::Vec};

    use proptest::{collection, prelude::*};

    use super::*;

    fn items() -> impl Strategy<Value = Item> {
        (
            1..=u64::MAX,
            0..1u64 << 48,
            any::<u64>(),
            any::<(u16, u16, bool, bool)>(),
            any::<bool>(),
        )
            .prop_map(
                |(root, wave, rank, (hops, life, child, nameless), hangs)| Item {
                    root,
                    label: Label::new(wave, rank),
                    hops: if hangs { hops } else { 0 },
                    life,
                    hangs,
                    child: hangs && child,
                    nameless: hangs && child && nameless,
                },
            )
    }

    /// What a note was read as, written again.
    fn rewritten(note: &Note<'_>) -> Vec<u8> {
        let mut space = [0xee; NOTE_BYTES_MAX];
        let len = match note {
            Note::Advert(items) => {
                let mut writer = Writer::advert(&mut space);
                items.clone().for_each(|item| writer.item(item));
                writer.finish()
            }
            Note::Seek(items) => {
                let mut writer = Writer::seek(&mut space);
                items.clone().for_each(|item| writer.item(item));
                writer.finish()
            }
            Note::Denied(roots) => {
                let mut writer = Writer::denied(&mut space);
                roots.clone().for_each(|root| writer.root(root));
                writer.finish()
            }
            Note::Digest(digest) => digest.write(&mut space),
            Note::Tell(number) => write_tell(*number, &mut space),
            Note::Called(names) => {
                let mut writer = Writer::called(&mut space);
                names
                    .clone()
                    .for_each(|(root, name)| writer.name(root, &name));
                writer.finish()
            }
        };
        space[..len.unwrap_or(0)].to_vec()
    }

    proptest! {
        #[test]
        fn an_advert_reads_as_it_was_written(said in collection::vec(items(), 1..=ITEMS_MAX), room in NOTE_BYTES_MIN..2000) {
            let mut space = vec![0xee; room];
            let mut writer = Writer::advert(&mut space);
            let fits = (room.min(NOTE_BYTES_MAX) - 1) / ITEM_BYTES;
            for (at, item) in said.iter().enumerate() {
                prop_assert_eq!(writer.has_room(), at < fits);
                writer.item(*item);
            }
            let len = writer.finish().unwrap_or(0);
            let heard = Note::read(&space[..len]);
            let Ok(Note::Advert(heard)) = heard else {
                return Err(TestCaseError::fail("no advert"));
            };
            let first: Vec<Item> = said.into_iter().take(fits).collect();
            prop_assert_eq!(heard.collect::<Vec<_>>(), first);
        }

        #[test]
        fn a_seek_reads_as_it_was_written_and_says_a_bound_only(said in collection::vec(items(), 1..=ITEMS_MAX), at: proptest::sample::Index) {
            let mut space = [0xee; NOTE_BYTES_MAX];
            let bounds: Vec<Item> = said.iter().map(|item| Item::bound(item.root, item.label)).collect();
            let mut writer = Writer::seek(&mut space);
            bounds.iter().for_each(|bound| writer.item(*bound));
            let len = writer.finish().unwrap_or(0);
            match Note::read(&space[..len]) {
                Ok(Note::Seek(heard)) => prop_assert_eq!(heard.collect::<Vec<_>>(), bounds.clone()),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
            let at = at.index(said.len());
            if said[at] != bounds[at] {
                space[1 + at * ITEM_BYTES..][..ITEM_BYTES].copy_from_slice(&said[at].to_bytes());
                prop_assert_eq!(Note::read(&space[..len]).err(), Some(BadNote::Reserved));
            }
        }

        #[test]
        fn denials_read_as_they_were_written(roots in collection::vec(1..=u64::MAX, 1..=135)) {
            let mut space = [0xee; NOTE_BYTES_MAX];
            let mut writer = Writer::denied(&mut space);
            roots.iter().for_each(|root| writer.root(*root));
            let len = writer.finish().unwrap_or(0);
            match Note::read(&space[..len]) {
                Ok(Note::Denied(heard)) => prop_assert_eq!(heard.collect::<Vec<_>>(), roots),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }

        #[test]
        fn names_read_as_they_were_written(
            said in collection::vec((1..=u64::MAX, "[a-z0-9._-]{1,32}"), 1..200),
            room in CALLED_BYTES_MIN..2000,
        ) {
            let mut space = vec![0xee; room];
            let mut writer = Writer::called(&mut space);
            let mut written = Vec::new();
            for (root, name) in said {
                let Ok(name) = Name::new(&name) else {
                    return Err(TestCaseError::fail("no name"));
                };
                if writer.has_room_for_name() {
                    writer.name(root, &name);
                    written.push((root, name));
                }
            }
            let len = writer.finish().unwrap_or(0);
            match Note::read(&space[..len]) {
                Ok(Note::Called(heard)) => prop_assert_eq!(heard.collect::<Vec<_>>(), written),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }

        /// Whatever the bytes are: a note or an error, and a note is those very bytes.
        #[test]
        fn any_bytes_are_a_note_that_a_node_writes_or_none(
            kind in prop_oneof![Just(ADVERT), Just(SEEK), Just(DENIED), Just(DIGEST), Just(TELL), Just(CALLED), any::<u8>()],
            flags in prop_oneof![4 => 0..8u8, 1 => any::<u8>()],
            quiet: bool,
            content in prop_oneof![collection::vec(any::<u8>(), 0..60), collection::vec(any::<u8>(), 1060..1100), "[a-z]{8}\\x01[a-z]{9}\\x02[a-z]{2}".prop_map(String::into_bytes)],
        ) {
            let mut bytes = vec![kind];
            bytes.extend(content);
            for at in (1..bytes.len()).step_by(ITEM_BYTES) {
                if kind == ADVERT || kind == SEEK {
                    bytes[at] = flags;
                    if quiet {
                        let end = bytes.len().min(at + 5);
                        bytes[at + 1..end].fill(0);
                    }
                }
            }
            if let Ok(note) = Note::read(&bytes) {
                prop_assert_eq!(rewritten(&note), bytes);
            }
        }
    }

    #[test]
    fn what_no_node_says_is_refused() {
        let mut advert = [0xee; NOTE_BYTES_MIN];
        let item = Item {
            hops: 3,
            life: 7,
            hangs: true,
            child: true,
            nameless: false,
            ..Item::bound(5, Label::new(1, 9))
        };
        let mut writer = Writer::advert(&mut advert);
        writer.item(item);
        assert_eq!(writer.finish(), Some(NOTE_BYTES_MIN));
        let with = |at: usize, byte: u8| {
            let mut bytes = advert;
            bytes[at] = byte;
            Note::read(&bytes).err()
        };
        assert_eq!(with(1, HANGS | CHILD), None);
        assert_eq!(with(1, HANGS | CHILD | NAMELESS), None);
        assert_eq!(with(1, HANGS | NAMELESS), Some(BadNote::Reserved));
        for bit in 3..8 {
            assert_eq!(with(1, HANGS | 1 << bit), Some(BadNote::Reserved), "{bit}");
        }
        assert_eq!(with(1, CHILD), Some(BadNote::Reserved), "lost on a parent");
        assert_eq!(with(1, 0), Some(BadNote::Reserved), "lost, at some hops");
        assert_eq!(with(6, 0), Some(BadNote::Nobody));
        for kind in [0, 6, 10, 12, 255] {
            assert_eq!(with(0, kind), Some(BadNote::Kind), "{kind}");
        }
        assert_eq!(Note::read(&[]).err(), Some(BadNote::Kind));
        for kind in [ADVERT, SEEK, DENIED] {
            assert_eq!(Note::read(&[kind]).err(), Some(BadNote::Length), "{kind}");
            assert_eq!(Note::read(&[kind; 7]).err(), Some(BadNote::Length));
        }
        assert_eq!(
            Note::read(&[ADVERT; NOTE_BYTES_MAX + ITEM_BYTES]).err(),
            Some(BadNote::Length),
            "longer than a frame"
        );
        let digest = Digest {
            answers: 7,
            items: 3,
            sum: 1 << 60,
        };
        let mut space = [0xee; NOTE_BYTES_MIN];
        assert_eq!(digest.write(&mut space), Some(16));
        assert!(matches!(Note::read(&space[..16]), Ok(Note::Digest(heard)) if heard == digest));
        assert_eq!(Note::read(&space[..15]).err(), Some(BadNote::Length));
        assert_eq!(Note::read(&space[..17]).err(), Some(BadNote::Length));
        space[2] = 1;
        assert_eq!(Note::read(&space[..16]).err(), Some(BadNote::Reserved));
        assert_eq!(write_tell(9, &mut space), Some(2));
        assert!(matches!(Note::read(&space[..2]), Ok(Note::Tell(9))));
        assert_eq!(Note::read(&[TELL, 0]).err(), Some(BadNote::Reserved));
        assert_eq!(Note::read(&[TELL, 1, 1]).err(), Some(BadNote::Length));
        let mut called = [b'a'; CALLED_BYTES_MIN];
        (called[0], called[9]) = (CALLED, 32);
        let error = |bytes: &[u8]| Note::read(bytes).err();
        assert_eq!(error(&called), None);
        assert_eq!(error(&called[..1]), Some(BadNote::Length), "no name");
        assert_eq!(
            error(&called[..9]),
            Some(BadNote::Length),
            "without a length"
        );
        assert_eq!(error(&called[..41]), Some(BadNote::Length), "cut");
        called[9] = 0;
        assert_eq!(error(&called[..10]), Some(BadNote::Name), "an empty one");
        (called[9], called[41]) = (32, b' ');
        assert_eq!(error(&called), Some(BadNote::Name));
        called[1..9].fill(0);
        assert_eq!(error(&called), Some(BadNote::Nobody));
    }
}
