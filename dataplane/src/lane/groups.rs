//! Group state that the members on this lane report. The lane takes part in no group: it only
//! forwards the content of their session memory.

use covalent_api::{guid::Guid, hex64::Hex64, status::GroupStatus};
use covalent_pipe::session::{NOTICE_WORDS, NOTICES};
use covalent_protocol::group;

use super::{Lane, table::LaneSession};

const _: () = assert!(NOTICE_WORDS == group::NOTICE_WORDS);

impl Lane {
    /// Returns the member incarnations in groups that applications report. Allocates: for a
    /// command, never on the packet path.
    pub(super) fn group_status(&self) -> Vec<GroupStatus> {
        let sessions = self.pipes.sessions.iter();
        sessions
            .filter(|(_, session)| !session.ignored)
            .flat_map(|(_, session)| (0..NOTICES).filter_map(|slot| status(session, slot)))
            .collect()
    }
}

/// Decodes a notice, if it is one that a member writes.
fn status(session: &LaneSession, slot: usize) -> Option<GroupStatus> {
    let notice = group::Notice::from_words(&session.rings.notice(slot)?)?;
    let envelopes = [
        ("sent", notice.envelopes_sent),
        ("resent", notice.envelopes_resent),
        ("taken", notice.envelopes_taken),
        ("duplicate", notice.duplicates),
        ("dropped", notice.dropped),
        ("unproven", notice.unproven),
    ];
    Some(GroupStatus {
        group: notice.name.as_str().to_owned(),
        session: session.session,
        id: Hex64(notice.group),
        stay: Hex64(notice.incarnation.0),
        standing: notice.standing.as_str().to_owned(),
        view: notice.view,
        members: notice.members.into_iter().filter_map(Guid::new).collect(),
        voters: notice.voters.len() as u32,
        views: notice.views,
        multicasts: notice.multicasts,
        deliveries: notice.deliveries,
        envelopes: envelopes
            .map(|(what, count)| (what.to_owned(), count))
            .into(),
    })
}
