//! Metrics of group members, as the members on this node report them.

use crate::status::GroupStatus;

use super::{
    family::Family,
    series::{Object, Series, as_f64},
};

fn labels(group: &GroupStatus) -> Vec<String> {
    vec![group.group.clone(), group.session.to_string()]
}

/// Metrics of one incarnation of a group member.
pub const GROUP: Object<GroupStatus> = Object {
    labels: &["group", "session"],
    values: labels,
    series: &[
        Series::one_of(
            Family {
                name: "covalent_group_standing",
                unit: "0 or 1",
                meaning: "The member's standing.",
                worry: "`minority`: it reaches no quorum and delivers nothing until it does. \
                        `changing` or `seeking` for more than some seconds. `stopped`: it has left \
                        the group permanently, and its application has not joined again.",
            },
            "standing",
            &[
                "seeking", "member", "changing", "minority", "stopped", "left",
            ],
            |it| &it.standing,
        ),
        Series::gauge(
            Family {
                name: "covalent_group_view_number",
                unit: "number",
                meaning: "Number of the member's current view. 0: no view yet.",
                worry: "It differs between the nodes of one group for more than a few seconds.",
            },
            |it| as_f64(it.view),
        ),
        Series::gauge(
            Family {
                name: "covalent_group_members",
                unit: "members",
                meaning: "Members of the member's current view.",
                worry: "It is below the expected number of members.",
            },
            |it| as_f64(it.members.len() as u64),
        ),
        Series::gauge(
            Family {
                name: "covalent_group_voters",
                unit: "members",
                meaning: "Members of that view that hold the application's state and count towards \
                          a quorum.",
                worry: "It is below `covalent_group_members` for long: a member that joined does \
                        not receive the state.",
            },
            |it| as_f64(it.voters.into()),
        ),
        Series::count(
            Family {
                name: "covalent_group_views_total",
                unit: "views",
                meaning: "Views that the member has begun.",
                worry: "It grows while no member joins or leaves: members or the paths between \
                        them fail and return.",
            },
            |it| it.views,
        ),
        Series::count(
            Family {
                name: "covalent_group_multicasts_total",
                unit: "messages",
                meaning: "Messages that the application multicast to the group.",
                worry: "It does not grow while the application works: see \
                        `covalent_group_standing`, and which member delays the group.",
            },
            |it| it.multicasts,
        ),
        Series::count(
            Family {
                name: "covalent_group_deliveries_total",
                unit: "messages",
                meaning: "Messages that the member delivered.",
                worry: "It does not grow at one member while it grows at the others: they wait for \
                        that member next.",
            },
            |it| it.deliveries,
        ),
        Series::counts_by(
            Family {
                name: "covalent_group_envelopes_total",
                unit: "envelopes",
                meaning: "Envelopes that the member sent to the others and received from them, by \
                          `what`.",
                worry: "`resent` or `duplicate` grow: daemons restart or links fail. \
                        `unproven` grows: another program writes into its queue. `dropped`, which \
                        includes these, grows without it: members are of two releases.",
            },
            "what",
            |it| &it.envelopes,
        ),
    ],
};
