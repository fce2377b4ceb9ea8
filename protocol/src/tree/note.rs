//! Control messages between neighbors about trees.
//!
//! ```text
//!  item     ├ flags u8 ┼ hops u16 ┼ life u16 ┼ root u64 ┼ wave u48 ┼ rank u64 ┤   27 bytes
//!  Advert   ├ 1 u8 ┼ item × 1 to 40 ┤   one item: 28 bytes, one record; 40: 1,081 bytes, one frame
//!  Search   ├ 2 u8 ┼ item × 1 to 40 ┤   the label is the bound; flags, hops and incarnation are 0
//!  Denied   ├ 3 u8 ┼ root u64 × 1 to 135 ┤
//!  Digest   ├ 4 u8 ┼ number of the answered Resync u8, 0 for none ┼ 0 ×2 ┼ trees u32 ┼ sum u64 ┤
//!  Resync   ├ 5 u8 ┼ number u8, not 0 ┤   requests everything again
//!  Called   ├ 11 u8 ┼ (root u64 ┼ bytes of its name u8, 1 to 32 ┼ its name) × 1 to 108 ┤
//!  flags of an item: 1 attached (0: unreachable, and then the others and the hops are 0),
//!                    2 "you are my parent", 4 "and I do not know the root's name"
//! ```
//!
//! A Digest has 16 bytes. 6 to 8 and 14 are [control messages of channels](crate::channel::note).
//! Numbers are little-endian. A control message needs no acknowledgment: within an epoch it arrives
//! once and in order, or the link fails, and then both ends discard the state received from each
//! other. Decoding is exact: bytes that no node writes are refused.

use core::fmt;

use super::Label;
use crate::{Name, wire::FRAME_PAYLOAD_BYTES_MAX};

/// Bytes of an item.
pub const ITEM_BYTES: usize = 27;
/// Most items of a note.
pub const ITEMS_MAX: usize = (CONTROL_MESSAGE_BYTES_MAX - 1) / ITEM_BYTES;
/// Longest note, in bytes.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 1081;
/// Bytes of a note with one item, and so the least space that a note needs where it bears no name.
pub const CONTROL_MESSAGE_BYTES_MIN: usize = 1 + ITEM_BYTES;
/// Bytes of a note with one name of the greatest length, and so the least space that names need.
pub const CALLED_BYTES_MIN: usize = 1 + NAME_ENTRY_BYTES_MAX;

/// Bytes of a root's GUID.
const ROOT_BYTES: usize = 8;
/// Most bytes of a name with its root.
const NAME_ENTRY_BYTES_MAX: usize = ROOT_BYTES + 1 + Name::BYTES_MAX;

const _: () = assert!(CONTROL_MESSAGE_BYTES_MAX <= FRAME_PAYLOAD_BYTES_MAX);

/// The greatest wave that fits into an item.
const WAVE_BITS_MAX: u64 = (1 << 48) - 1;

const _: () = assert!(WAVE_BITS_MAX > Label::WAVE_MAX);

const ADVERT: u8 = 1;
const SEARCH: u8 = 2;
const DENIED: u8 = 3;
const DIGEST: u8 = 4;
const RESYNC: u8 = 5;
const CALLED: u8 = 11;

const ATTACHED: u8 = 1;
const CHILD: u8 = 2;
const NAMELESS: u8 = 4;

/// Why bytes are not a control message that a node sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadControlMessage {
    /// It is empty, or its first byte names none.
    Kind,
    /// Its length is not a whole number of its parts, or is more than fits.
    Length,
    /// A bit that must be 0 is not, or two of its fields contradict each other.
    Reserved,
    /// The root is 0, which is no node.
    ZeroGuid,
    /// The name is none.
    Name,
}

/// The state of the sender in one tree, or the bound that it requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item {
    /// GUID of the root.
    pub root: u64,
    /// The sender's own label; the bound in a `Search`.
    pub label: Label,
    /// Cables between the sender and the root; 0 for the root, and if the root is unreachable.
    pub hops: u16,
    /// Low half of the root's incarnation from which the label originates.
    pub incarnation: u16,
    /// Whether the speaker knows a way to the root.
    pub attached: bool,
    /// Whether that way leads through the listener.
    pub child: bool,
    /// Whether the sender is attached to the receiver and needs the name of the root.
    pub nameless: bool,
}

impl Item {
    /// The bound below which a node requests a neighbor to move.
    #[must_use]
    pub const fn bound(root: u64, label: Label) -> Self {
        Self {
            root,
            label,
            hops: 0,
            incarnation: 0,
            attached: false,
            child: false,
            nameless: false,
        }
    }

    fn to_bytes(self) -> [u8; ITEM_BYTES] {
        let mut bytes = [0; ITEM_BYTES];
        bytes[0] = (u8::from(self.attached) * ATTACHED)
            | (u8::from(self.child) * CHILD)
            | (u8::from(self.nameless) * NAMELESS);
        bytes[1..3].copy_from_slice(&self.hops.to_le_bytes());
        bytes[3..5].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.root.to_le_bytes());
        // A corrupt register may exceed the field. It is sent as the maximum, which is rejected
        // just the same.
        let wave = self.label.wave().min(WAVE_BITS_MAX);
        bytes[13..19].copy_from_slice(&wave.to_le_bytes()[..6]);
        bytes[19..27].copy_from_slice(&self.label.rank().to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; ITEM_BYTES]) -> Result<Self, BadControlMessage> {
        let [
            flags,
            hops_0,
            hops_1,
            incarnation_0,
            incarnation_1,
            rest @ ..,
        ] = *bytes;
        let (root, rest) = rest
            .split_first_chunk::<8>()
            .ok_or(BadControlMessage::Length)?;
        let (&[w0, w1, w2, w3, w4, w5], rest) = rest
            .split_first_chunk::<6>()
            .ok_or(BadControlMessage::Length)?;
        let rank = rest.first_chunk::<8>().ok_or(BadControlMessage::Length)?;
        let wave = u64::from_le_bytes([w0, w1, w2, w3, w4, w5, 0, 0]);
        let this = Self {
            root: u64::from_le_bytes(*root),
            label: Label::new(wave, u64::from_le_bytes(*rank)),
            hops: u16::from_le_bytes([hops_0, hops_1]),
            incarnation: u16::from_le_bytes([incarnation_0, incarnation_1]),
            attached: flags & ATTACHED != 0,
            child: flags & CHILD != 0,
            nameless: flags & NAMELESS != 0,
        };
        let excluded =
            (this.nameless && !this.child) || (!this.attached && (this.child || this.hops != 0));
        if flags & !(ATTACHED | CHILD | NAMELESS) != 0 || excluded {
            return Err(BadControlMessage::Reserved);
        }
        if this.root == 0 {
            return Err(BadControlMessage::ZeroGuid);
        }
        Ok(this)
    }
}

/// A decoded control message.
#[derive(Debug, Clone)]
pub enum ControlMessage<'a> {
    /// The state of the sender in these trees.
    Advert(Items<'a>),
    /// The sender requests the receiver to move nearer than the labels.
    Search(Items<'a>),
    /// The sender cannot move nearer to these roots now. It advertises again when that may have
    /// changed.
    Denied(Roots<'a>),
    /// The digest of all that the sender sent.
    Digest(Digest),
    /// The sender recorded a different state: everything is to be sent again. Contains a number
    /// other than 0, which the following digest repeats.
    Resync(u8),
    /// The names of these roots.
    Called(Names<'a>),
}

impl<'a> ControlMessage<'a> {
    /// Decodes a control message that fills `bytes`.
    ///
    /// # Errors
    /// [`BadControlMessage`]: no node sends it.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BadControlMessage> {
        let (&kind, content) = bytes.split_first().ok_or(BadControlMessage::Kind)?;
        if bytes.len() > CONTROL_MESSAGE_BYTES_MAX {
            return Err(BadControlMessage::Length);
        }
        match kind {
            ADVERT => Ok(Self::Advert(Items::read(content)?)),
            SEARCH => {
                let items = Items::read(content)?;
                let is_bound = |item: Item| item == Item::bound(item.root, item.label);
                if items.clone().all(is_bound) {
                    Ok(Self::Search(items))
                } else {
                    Err(BadControlMessage::Reserved)
                }
            }
            DENIED => Ok(Self::Denied(Roots::read(content)?)),
            DIGEST => Ok(Self::Digest(Digest::read(content)?)),
            RESYNC => match content {
                [0] => Err(BadControlMessage::Reserved),
                &[number] => Ok(Self::Resync(number)),
                _ => Err(BadControlMessage::Length),
            },
            CALLED => Ok(Self::Called(Names::read(content)?)),
            _ => Err(BadControlMessage::Kind),
        }
    }
}

/// The digest of all that a node sends to a neighbor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// The number of the question that was answered before it; 0 for none.
    pub answers: u8,
    /// Trees in which the sender is attached.
    pub items: u32,
    /// The mixed sum of all that it sent about these.
    pub sum: u64,
}

impl Digest {
    fn read(content: &[u8]) -> Result<Self, BadControlMessage> {
        let &[answers, zero_0, zero_1, ref rest @ ..] = content else {
            return Err(BadControlMessage::Length);
        };
        let (items, rest) = rest
            .split_first_chunk::<4>()
            .ok_or(BadControlMessage::Length)?;
        let sum: &[u8; 8] = rest.try_into().map_err(|_| BadControlMessage::Length)?;
        if (zero_0, zero_1) != (0, 0) {
            return Err(BadControlMessage::Reserved);
        }
        Ok(Self {
            answers,
            items: u32::from_le_bytes(*items),
            sum: u64::from_le_bytes(*sum),
        })
    }

    /// Writes it into `space`, of at least [`CONTROL_MESSAGE_BYTES_MIN`] bytes, and returns the
    /// length of the message.
    pub fn write(&self, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(space, DIGEST);
        writer.put(&[self.answers, 0, 0]);
        writer.put(&self.items.to_le_bytes());
        writer.put(&self.sum.to_le_bytes());
        writer.finish()
    }
}

/// Writes the question for everything into `space`, likewise. Its number is not 0.
pub fn write_resync(number: u8, space: &mut [u8]) -> Option<usize> {
    let mut writer = Writer::new(space, RESYNC);
    writer.put(&[number]);
    writer.finish()
}

/// Whether a note is an advert.
#[must_use]
pub fn is_advert(message: &[u8]) -> bool {
    message.first() == Some(&ADVERT)
}

/// The items of a note, one after the other.
#[derive(Debug, Clone)]
pub struct Items<'a>(core::slice::Iter<'a, [u8; ITEM_BYTES]>);

impl<'a> Items<'a> {
    /// All of them are checked here.
    fn read(content: &'a [u8]) -> Result<Self, BadControlMessage> {
        let (items, rest) = content.as_chunks::<ITEM_BYTES>();
        if items.is_empty() || !rest.is_empty() {
            return Err(BadControlMessage::Length);
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
    fn read(content: &'a [u8]) -> Result<Self, BadControlMessage> {
        let (roots, rest) = content.as_chunks::<ROOT_BYTES>();
        if roots.is_empty() || !rest.is_empty() {
            return Err(BadControlMessage::Length);
        }
        if roots.contains(&[0; ROOT_BYTES]) {
            return Err(BadControlMessage::ZeroGuid);
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
    fn read(content: &'a [u8]) -> Result<Self, BadControlMessage> {
        if content.is_empty() {
            return Err(BadControlMessage::Length);
        }
        let mut rest = content;
        while !rest.is_empty() {
            (_, rest) = Self::split(rest)?;
        }
        Ok(Self(content))
    }

    /// The first entry, and the bytes behind it.
    fn split(content: &'a [u8]) -> Result<((u64, Name), &'a [u8]), BadControlMessage> {
        let (root, rest) = content
            .split_first_chunk::<ROOT_BYTES>()
            .ok_or(BadControlMessage::Length)?;
        let (&len, rest) = rest.split_first().ok_or(BadControlMessage::Length)?;
        let (name, rest) = rest
            .split_at_checked(usize::from(len))
            .ok_or(BadControlMessage::Length)?;
        let root = u64::from_le_bytes(*root);
        if root == 0 {
            return Err(BadControlMessage::ZeroGuid);
        }
        let name = Name::from_bytes(name).map_err(|_| BadControlMessage::Name)?;
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
    /// An advert into `space`, of [`CONTROL_MESSAGE_BYTES_MIN`] bytes at least.
    pub fn advert(space: &'a mut [u8]) -> Self {
        Self::new(space, ADVERT)
    }

    /// A `Search`, likewise.
    pub fn search(space: &'a mut [u8]) -> Self {
        Self::new(space, SEARCH)
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
        let most = space.len().min(CONTROL_MESSAGE_BYTES_MAX);
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

    /// Whether another item fits; if so, a root fits as well.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.len + ITEM_BYTES <= self.space.len()
    }

    /// Whether another name of any length fits.
    #[must_use]
    pub const fn has_room_for_name(&self) -> bool {
        self.len + NAME_ENTRY_BYTES_MAX <= self.space.len()
    }

    /// Adds an item to an advert or a `Search`. Without space the item is left out.
    pub fn item(&mut self, item: Item) {
        self.put(&item.to_bytes());
    }

    /// Adds a root to denials. Without space the root is left out.
    pub fn root(&mut self, root: u64) {
        self.put(&root.to_le_bytes());
    }

    /// Adds the name of a root to names. If [`Self::has_room_for_name`] is `false`, the name may be
    /// left out.
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

impl fmt::Display for BadControlMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "a control message of an unknown kind",
            Self::Length => "a control message with a length that its kind cannot have",
            Self::Reserved => "a control message with a reserved field that is not zero",
            Self::ZeroGuid => "a control message about the GUID 0",
            Self::Name => "a control message with an invalid name",
        })
    }
}

impl core::error::Error for BadControlMessage {}

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
                |(root, wave, rank, (hops, incarnation, child, nameless), attached)| Item {
                    root,
                    label: Label::new(wave, rank),
                    hops: if attached { hops } else { 0 },
                    incarnation,
                    attached,
                    child: attached && child,
                    nameless: attached && child && nameless,
                },
            )
    }

    /// Encodes a decoded message again.
    fn rewritten(message: &ControlMessage<'_>) -> Vec<u8> {
        let mut space = [0xee; CONTROL_MESSAGE_BYTES_MAX];
        let len = match message {
            ControlMessage::Advert(items) => {
                let mut writer = Writer::advert(&mut space);
                items.clone().for_each(|item| writer.item(item));
                writer.finish()
            }
            ControlMessage::Search(items) => {
                let mut writer = Writer::search(&mut space);
                items.clone().for_each(|item| writer.item(item));
                writer.finish()
            }
            ControlMessage::Denied(roots) => {
                let mut writer = Writer::denied(&mut space);
                roots.clone().for_each(|root| writer.root(root));
                writer.finish()
            }
            ControlMessage::Digest(digest) => digest.write(&mut space),
            ControlMessage::Resync(number) => write_resync(*number, &mut space),
            ControlMessage::Called(names) => {
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
        fn an_advert_reads_as_it_was_written(
            sent in collection::vec(items(), 1..=ITEMS_MAX),
            room in CONTROL_MESSAGE_BYTES_MIN..2000,
        ) {
            let mut space = vec![0xee; room];
            let mut writer = Writer::advert(&mut space);
            let fits = (room.min(CONTROL_MESSAGE_BYTES_MAX) - 1) / ITEM_BYTES;
            for (at, item) in sent.iter().enumerate() {
                prop_assert_eq!(writer.has_room(), at < fits);
                writer.item(*item);
            }
            let len = writer.finish().unwrap_or(0);
            let received = ControlMessage::read(&space[..len]);
            let Ok(ControlMessage::Advert(received)) = received else {
                return Err(TestCaseError::fail("no advert"));
            };
            let first: Vec<Item> = sent.into_iter().take(fits).collect();
            prop_assert_eq!(received.collect::<Vec<_>>(), first);
        }

        #[test]
        fn a_search_reads_as_it_was_written_and_carries_only_a_bound(
            sent in collection::vec(items(), 1..=ITEMS_MAX),
            at: proptest::sample::Index,
        ) {
            let mut space = [0xee; CONTROL_MESSAGE_BYTES_MAX];
            let bounds: Vec<Item> = sent.iter().map(
                |item| Item::bound(item.root, item.label),
            ).collect();
            let mut writer = Writer::search(&mut space);
            bounds.iter().for_each(|bound| writer.item(*bound));
            let len = writer.finish().unwrap_or(0);
            match ControlMessage::read(&space[..len]) {
                Ok(ControlMessage::Search(received)) => prop_assert_eq!(
                    received.collect::<Vec<_>>(),
                    bounds.clone(),
                ),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
            let at = at.index(sent.len());
            if sent[at] != bounds[at] {
                space[1 + at * ITEM_BYTES..][..ITEM_BYTES].copy_from_slice(&sent[at].to_bytes());
                prop_assert_eq!(
                    ControlMessage::read(&space[..len]).err(),
                    Some(BadControlMessage::Reserved),
                );
            }
        }

        #[test]
        fn denials_read_as_they_were_written(roots in collection::vec(1..=u64::MAX, 1..=135)) {
            let mut space = [0xee; CONTROL_MESSAGE_BYTES_MAX];
            let mut writer = Writer::denied(&mut space);
            roots.iter().for_each(|root| writer.root(*root));
            let len = writer.finish().unwrap_or(0);
            match ControlMessage::read(&space[..len]) {
                Ok(ControlMessage::Denied(received)) => prop_assert_eq!(
                    received.collect::<Vec<_>>(),
                    roots,
                ),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }

        #[test]
        fn names_read_as_they_were_written(
            sent in collection::vec((1..=u64::MAX, "[a-z0-9._-]{1,32}"), 1..200),
            room in CALLED_BYTES_MIN..2000,
        ) {
            let mut space = vec![0xee; room];
            let mut writer = Writer::called(&mut space);
            let mut written = Vec::new();
            for (root, name) in sent {
                let Ok(name) = Name::new(&name) else {
                    return Err(TestCaseError::fail("no name"));
                };
                if writer.has_room_for_name() {
                    writer.name(root, &name);
                    written.push((root, name));
                }
            }
            let len = writer.finish().unwrap_or(0);
            match ControlMessage::read(&space[..len]) {
                Ok(ControlMessage::Called(received)) => prop_assert_eq!(
                    received.collect::<Vec<_>>(),
                    written,
                ),
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
        }

        /// Any bytes decode to a message or an error, and a message encodes to the same bytes.
        #[test]
        fn any_bytes_decode_to_an_encodable_message_or_an_error(
            kind in prop_oneof![
                Just(ADVERT),
                Just(SEARCH),
                Just(DENIED),
                Just(DIGEST),
                Just(RESYNC),
                Just(CALLED),
                any::<u8>(),
            ],
            flags in prop_oneof![4 => 0..8u8, 1 => any::<u8>()],
            zeroed: bool,
            content in prop_oneof![
                collection::vec(any::<u8>(), 0..60),
                collection::vec(any::<u8>(), 1060..1100),
                "[a-z]{8}\\x01[a-z]{9}\\x02[a-z]{2}".prop_map(String::into_bytes),
            ],
        ) {
            let mut bytes = vec![kind];
            bytes.extend(content);
            for at in (1..bytes.len()).step_by(ITEM_BYTES) {
                if kind == ADVERT || kind == SEARCH {
                    bytes[at] = flags;
                    if zeroed {
                        let end = bytes.len().min(at + 5);
                        bytes[at + 1..end].fill(0);
                    }
                }
            }
            if let Ok(message) = ControlMessage::read(&bytes) {
                prop_assert_eq!(rewritten(&message), bytes);
            }
        }
    }

    #[test]
    fn messages_that_no_node_sends_are_refused() {
        let mut advert = [0xee; CONTROL_MESSAGE_BYTES_MIN];
        let item = Item {
            hops: 3,
            incarnation: 7,
            attached: true,
            child: true,
            nameless: false,
            ..Item::bound(5, Label::new(1, 9))
        };
        let mut writer = Writer::advert(&mut advert);
        writer.item(item);
        assert_eq!(writer.finish(), Some(CONTROL_MESSAGE_BYTES_MIN));
        let with = |at: usize, byte: u8| {
            let mut bytes = advert;
            bytes[at] = byte;
            ControlMessage::read(&bytes).err()
        };
        assert_eq!(with(1, ATTACHED | CHILD), None);
        assert_eq!(with(1, ATTACHED | CHILD | NAMELESS), None);
        assert_eq!(
            with(1, ATTACHED | NAMELESS),
            Some(BadControlMessage::Reserved)
        );
        for bit in 3..8 {
            assert_eq!(
                with(1, ATTACHED | 1 << bit),
                Some(BadControlMessage::Reserved),
                "{bit}"
            );
        }
        assert_eq!(
            with(1, CHILD),
            Some(BadControlMessage::Reserved),
            "lost on a parent"
        );
        assert_eq!(
            with(1, 0),
            Some(BadControlMessage::Reserved),
            "lost, at some hops"
        );
        assert_eq!(with(6, 0), Some(BadControlMessage::ZeroGuid));
        for kind in [0, 6, 10, 12, 255] {
            assert_eq!(with(0, kind), Some(BadControlMessage::Kind), "{kind}");
        }
        assert_eq!(
            ControlMessage::read(&[]).err(),
            Some(BadControlMessage::Kind)
        );
        for kind in [ADVERT, SEARCH, DENIED] {
            assert_eq!(
                ControlMessage::read(&[kind]).err(),
                Some(BadControlMessage::Length),
                "{kind}"
            );
            assert_eq!(
                ControlMessage::read(&[kind; 7]).err(),
                Some(BadControlMessage::Length)
            );
        }
        assert_eq!(
            ControlMessage::read(&[ADVERT; CONTROL_MESSAGE_BYTES_MAX + ITEM_BYTES]).err(),
            Some(BadControlMessage::Length),
            "longer than a frame"
        );
        let digest = Digest {
            answers: 7,
            items: 3,
            sum: 1 << 60,
        };
        let mut space = [0xee; CONTROL_MESSAGE_BYTES_MIN];
        assert_eq!(digest.write(&mut space), Some(16));
        assert!(matches!(
            ControlMessage::read(&space[..16]),
            Ok(ControlMessage::Digest(received)) if received == digest,
        ));
        assert_eq!(
            ControlMessage::read(&space[..15]).err(),
            Some(BadControlMessage::Length)
        );
        assert_eq!(
            ControlMessage::read(&space[..17]).err(),
            Some(BadControlMessage::Length)
        );
        space[2] = 1;
        assert_eq!(
            ControlMessage::read(&space[..16]).err(),
            Some(BadControlMessage::Reserved)
        );
        assert_eq!(write_resync(9, &mut space), Some(2));
        assert!(matches!(
            ControlMessage::read(&space[..2]),
            Ok(ControlMessage::Resync(9))
        ));
        assert_eq!(
            ControlMessage::read(&[RESYNC, 0]).err(),
            Some(BadControlMessage::Reserved)
        );
        assert_eq!(
            ControlMessage::read(&[RESYNC, 1, 1]).err(),
            Some(BadControlMessage::Length)
        );
        let mut called = [b'a'; CALLED_BYTES_MIN];
        (called[0], called[9]) = (CALLED, 32);
        let error = |bytes: &[u8]| ControlMessage::read(bytes).err();
        assert_eq!(error(&called), None);
        assert_eq!(
            error(&called[..1]),
            Some(BadControlMessage::Length),
            "no name"
        );
        assert_eq!(
            error(&called[..9]),
            Some(BadControlMessage::Length),
            "without a length"
        );
        assert_eq!(error(&called[..41]), Some(BadControlMessage::Length), "cut");
        called[9] = 0;
        assert_eq!(
            error(&called[..10]),
            Some(BadControlMessage::Name),
            "an empty one"
        );
        (called[9], called[41]) = (32, b' ');
        assert_eq!(error(&called), Some(BadControlMessage::Name));
        called[1..9].fill(0);
        assert_eq!(error(&called), Some(BadControlMessage::ZeroGuid));
    }
}
