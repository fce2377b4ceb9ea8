//! A builder: where a member can be reached, before the group begins.

use std::{
    fmt,
    fs::File,
    hash::{BuildHasher, Hasher, RandomState},
    io::Read,
    time::Instant,
};

use covalent_protocol::{
    Name,
    group::{Contact, Contacts, Group as Machine, Incarnation, Secret, View},
    verb::SEND_BYTES_MAX,
};

use super::{
    COMPLETIONS, Group, GroupOptions,
    discovery::Lookups,
    errands::Errands,
    event::Reported,
    paths::WatchedPaths,
    queue::{MemberQueue, group_name, queue_name},
};
use crate::{Completion, Device, Error, Result, Verbs};

/// Where the kernel gives random bits.
const RANDOM: &str = "/dev/urandom";

/// A member of a group that has not started. It has a receive queue, and a
/// [contact](GroupBuilder::contact) that the other members need. Applications exchange their
/// contacts by any means, as with memory keys. Then each calls [`GroupBuilder::begin`] with all of
/// them.
///
/// Use it only on its device's thread. Dropping it withdraws its queues.
pub struct GroupBuilder<'d> {
    device: &'d Device,
    name: Name,
    options: GroupOptions,
    queue: MemberQueue<'d>,
    verbs: Verbs<'d>,
    contact: Contact,
}

impl<'d> GroupBuilder<'d> {
    pub(crate) fn take(device: &'d Device, name: &str, options: GroupOptions) -> Result<Self> {
        options.check()?;
        Self::take_named(device, group_name(name)?, options)
    }

    /// As [`GroupBuilder::take`], with checked arguments.
    pub(super) fn take_named(
        device: &'d Device,
        name: Name,
        options: GroupOptions,
    ) -> Result<Self> {
        let queue = device.receive_queue(&queue_name(name), options.queue_bytes())?;
        let (guid, rkey) = (device.address().bits(), queue.rkey());
        let queue = MemberQueue::new(queue);
        let verbs = device.verbs_with_depth(options.verbs_max())?;
        let contact = Contact {
            guid,
            incarnation: new_incarnation(guid, rkey),
            rkey,
        };
        Ok(Self {
            device,
            name,
            options,
            queue,
            verbs,
            contact,
        })
    }

    /// Returns this member's contact: plain data, to be sent to the other members.
    #[must_use]
    pub const fn contact(&self) -> Contact {
        self.contact
    }

    /// Starts the group with the contacts of all its members in any order, including the own one.
    /// All members must give the same contacts and the same options. A member that gives others is
    /// in another group and receives nothing from this one. View 1 is the first event. Other
    /// members join later ([`Device::group`]).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the own contact is not among them, two are on one node, there are more
    /// than [`GroupOptions::members_max()`], or this device has
    /// [`GROUPS_MAX`](super::GROUPS_MAX) groups and notices.
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
        self.build(machine)
    }

    /// Looks for the group, to join or to found it.
    pub(crate) fn join(self) -> Result<Group<'d>> {
        let secret = new_secret()?;
        let machine = Machine::new(self.options.config(self.name, self.contact, secret));
        self.build(machine)
    }

    fn build(self, machine: Machine) -> Result<Group<'d>> {
        let Self {
            device,
            name,
            options,
            queue,
            verbs,
            contact,
        } = self;
        let notice = device.notice().map_err(|error| match error {
            Error::Invalid(why) => Error::Invalid(format!("group `{name}`: {why}")),
            other => other,
        })?;
        let now = Instant::now();
        Ok(Group {
            device,
            notice,
            name,
            queue_name: queue_name(name),
            options,
            queue,
            verbs,
            completions: Box::new([Completion::default(); COMPLETIONS]),
            incarnation: contact.incarnation,
            machine: Box::new(machine),
            errands: Errands::default(),
            paths: WatchedPaths::new(),
            lookups: Lookups::new(now),
            next_watch: now,
            next_tick: now,
            envelope: Box::new([0; SEND_BYTES_MAX]),
            reported: Reported::new(),
            noticed: None,
        })
    }
}

impl fmt::Debug for GroupBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupBuilder")
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
    if let Some(other) = sorted.iter().find(|one| !one.owns_incarnation()) {
        return Err(format!(
            "the contact on node {:#x} has the incarnation of another queue; cure: pass each \
             contact as its member reported it, and run one version of this library on all \
             members' nodes",
            other.guid
        ));
    }
    if !sorted.contains(&me) {
        return Err("this member's own contact is not among them".to_owned());
    }
    let contacts = sorted.iter().copied().collect::<Contacts>();
    Ok(View::first(group_of(name, &sorted), contacts))
}

/// The number of the group that these contacts form under a name: FNV-1a. Incarnation numbers are
/// random, so any mixing is sufficient.
fn group_of(name: Name, members: &[Contact]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.as_str().bytes().for_each(&mut mix);
    for member in members {
        let words = [member.guid, member.incarnation.0, u64::from(member.rkey)];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .for_each(&mut mix);
    }
    hash
}

/// Returns a random incarnation number for a queue.
fn new_incarnation(guid: u64, rkey: u32) -> Incarnation {
    let random = RandomState::new().build_hasher().finish();
    Incarnation::of(guid, rkey, random as u32)
}

/// Returns the key of an incarnation's tokens. It must be unpredictable, so it comes from the
/// kernel alone.
fn new_secret() -> Result<Secret> {
    let mut bits = [0; 16];
    let read = File::open(RANDOM).and_then(|mut source| source.read_exact(&mut bits));
    read.map_err(|cause| Error::System {
        what: "reading a secret from /dev/urandom",
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
            incarnation: Incarnation::of(guid, 7, guid as u32 + 100),
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
        let second = Contact { rkey: 8, ..b };
        for (members, why) in [
            (&[a, b, c][..], "members_max"),
            (&[b, second], "one member"),
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
