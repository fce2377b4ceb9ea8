//! A seat: where a member can be reached, before the group begins.

use std::{
    fmt,
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io::Read,
    time::Instant,
};

use covalent_protocol::{
    Name,
    group::{Contact, Contacts, Group as Machine, Life, Members, Secret, View},
    verb::SEND_BYTES_MAX,
};

use super::{
    GROUPS_MAX, Group, GroupOptions,
    errands::Errands,
    event::Told,
    look::Looks,
    paths::WatchedPaths,
    queue::{StayQueue, group_name, queue_name},
};
use crate::{
    device::Device,
    error::{Error, Result},
};

/// Where the kernel gives random bits.
const RANDOM: &str = "/dev/urandom";

/// A seat in a group that has not begun. It has a receive queue, and a [contact](GroupSeat::contact) that the other members need: applications tell each
/// other theirs in whatever way they like, as with keys of memory, then each calls [`GroupSeat::begin`] with all of them.
///
/// For its device's thread. Dropped, it gives the queue up.
pub struct GroupSeat<'d> {
    device: &'d Device,
    name: Name,
    options: GroupOptions,
    queue: StayQueue<'d>,
    contact: Contact,
}

impl<'d> GroupSeat<'d> {
    pub(crate) fn take(device: &'d Device, name: &str, options: GroupOptions) -> Result<Self> {
        options.check()?;
        Self::take_named(device, group_name(name)?, options)
    }

    /// As [`GroupSeat::take`], with what was checked before.
    pub(super) fn take_named(
        device: &'d Device,
        name: Name,
        options: GroupOptions,
    ) -> Result<Self> {
        let queue = StayQueue::open(device, &queue_name(name), options.queue_bytes())?;
        let (guid, rkey) = (device.address().bits(), queue.rkey());
        let contact = Contact {
            guid,
            life: new_life(guid, rkey),
            rkey,
        };
        Ok(Self {
            device,
            name,
            options,
            queue,
            contact,
        })
    }

    /// Where this member is reached: plain data, to be told to the others.
    #[must_use]
    pub const fn contact(&self) -> Contact {
        self.contact
    }

    /// Begins the group, with the contacts of all its members in any order, the own one among them. All members must give the same ones, and the same options: who gives
    /// others is in another group, and hears nothing of this one. View 1 is the first event. Others join later ([`Device::group`]).
    ///
    /// # Errors
    /// [`Error::Invalid`] when the own contact is not among them, two are on one node, there are more than
    /// [`GroupOptions::members_max()`], or [`GROUPS_MAX`] groups of this device have begun.
    pub fn begin(self, members: &[Contact]) -> Result<Group<'d>> {
        let view = first_view(self.name, &self.options, self.contact, members)
            .map_err(|why| Error::Invalid(format!("members of group `{}`: {why}", self.name)))?;
        let config = (self.options).config(self.name, self.contact, new_secret()?);
        let machine = Machine::with_view(config, view).ok_or_else(|| {
            Error::Invalid(format!(
                "members of group `{}`: this one is not among them",
                self.name
            ))
        })?;
        self.sit(machine)
    }

    /// Looks for the group, to join or to found it.
    pub(crate) fn join(self) -> Result<Group<'d>> {
        let secret = new_secret()?;
        let machine = Machine::new(self.options.config(self.name, self.contact, secret));
        self.sit(machine)
    }

    fn sit(self, machine: Machine) -> Result<Group<'d>> {
        let Self {
            device,
            name,
            options,
            queue,
            contact,
        } = self;
        let number = device.enrol_group().ok_or_else(|| {
            Error::Invalid(format!(
                "group `{name}`: {GROUPS_MAX} groups of this device have begun, the most; drop one of them, or attach another device"
            ))
        })?;
        let now = Instant::now();
        Ok(Group {
            device,
            number,
            name,
            queue_name: queue_name(name),
            options,
            queue: Some(queue),
            life: contact.life,
            machine: Box::new(machine),
            errands: Errands::default(),
            paths: WatchedPaths::new(),
            looks: Looks::new(now),
            watch_again: now,
            next_tick: now,
            envelope: Box::new([0; SEND_BYTES_MAX]),
            told: Told::new(),
            noticed: None,
        })
    }
}

impl fmt::Debug for GroupSeat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupSeat")
            .field("name", &self.name)
            .field("contact", &self.contact)
            .finish_non_exhaustive()
    }
}

/// The view that all members make of the same contacts: by GUID, all of them voters.
fn first_view(
    name: Name,
    options: &GroupOptions,
    me: Contact,
    members: &[Contact],
) -> std::result::Result<View, String> {
    let most = usize::from(options.members_max);
    if members.len() > most {
        return Err(format!(
            "{} contacts, and room for {most}: set `GroupOptions::members_max`",
            members.len()
        ));
    }
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].guid == pair[1].guid) {
        return Err(format!(
            "two contacts are on node {:#x}; a node has one member",
            pair[0].guid
        ));
    }
    if let Some(other) = sorted.iter().find(|one| !one.owns_life()) {
        return Err(format!(
            "the contact on node {:#x} has the life of another queue; cure: pass each contact as its member told it, and run one version of this library on all members' nodes",
            other.guid
        ));
    }
    if !sorted.contains(&me) {
        return Err("the own contact is not among them".to_owned());
    }
    Ok(View {
        group: group_of(name, &sorted),
        number: 1,
        members: sorted.iter().copied().collect::<Contacts>(),
        voters: Members::first(sorted.len()),
    })
}

/// The number of the group that these contacts make under a name: FNV-1a. Lives are random numbers, so any mixing will do.
fn group_of(name: Name, members: &[Contact]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.as_str().bytes().for_each(&mut mix);
    for member in members {
        let words = [member.guid, member.life.0, u64::from(member.rkey)];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .for_each(&mut mix);
    }
    hash
}

/// A life of a queue, drawn at random.
fn new_life(guid: u64, rkey: u32) -> Life {
    let random = RandomState::new().build_hasher().finish();
    Life::of(guid, rkey, random as u32)
}

/// The key of a stay's tokens. It must be unpredictable, so it comes from the kernel alone.
fn new_secret() -> Result<Secret> {
    let mut bits = [0; 16];
    let read = File::open(RANDOM).and_then(|mut source| source.read_exact(&mut bits));
    read.map_err(|cause| Error::System {
        what: "drawing a secret from /dev/urandom",
        cause,
    })?;
    Ok(Secret(bits))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const fn contact(guid: u64) -> Contact {
        Contact {
            guid,
            life: Life::of(guid, 7, guid as u32 + 100),
            rkey: 7,
        }
    }

    #[test]
    fn all_make_the_same_view_of_the_same_contacts_and_another_one_of_others() {
        let name = Name::new("orders").unwrap();
        let options = GroupOptions::new();
        let [a, b, c] = [contact(1), contact(2), contact(3)];
        let view = first_view(name, &options, a, &[c, a, b]).unwrap();
        assert_eq!(view, first_view(name, &options, b, &[a, b, c]).unwrap());
        assert_eq!(view.members[..], [a, b, c]);
        assert_eq!(view.voters.len(), 3);
        let fewer = first_view(name, &options, a, &[a, b]).unwrap();
        assert_ne!(view.group, fewer.group);
        let other = Name::new("bills").unwrap();
        let other = first_view(other, &options, a, &[a, b, c]).unwrap();
        assert_ne!(view.group, other.group);
    }

    #[test]
    fn contacts_that_make_no_group_are_refused() {
        let name = Name::new("orders").unwrap();
        let options = GroupOptions::new().members_max(2);
        let [a, b, c] = [contact(1), contact(2), contact(3)];
        let again = Contact { rkey: 8, ..b };
        for (members, why) in [
            (&[a, b, c][..], "members_max"),
            (&[b, again], "one member"),
            (&[a, Contact { guid: 3, ..b }], "another queue"),
            (&[a, Contact { rkey: 8, ..b }], "another queue"),
            (&[b, c], "own contact"),
            (&[], "own contact"),
        ] {
            let error = first_view(name, &options, a, members).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
