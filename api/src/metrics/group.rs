//! Metrics of stays in groups, as their members on this node tell them.

use crate::status::GroupStatus;

use super::{
    family::Family,
    series::{Object, Series, as_f64},
};

fn labels(group: &GroupStatus) -> Vec<String> {
    vec![group.group.clone(), group.session.to_string()]
}

/// Metrics of a stay in a group.
pub const GROUP: Object<GroupStatus> = Object {
    labels: &["group", "session"],
    values: labels,
    series: &[
        Series::one_of(
            Family {
                name: "covalent_group_standing",
                unit: "0 or 1",
                meaning: "What the member is.",
                worry: "`minority`: it reaches no quorum and delivers nothing until it does. `changing` or `seeking` for more than some seconds. `stopped`: \
                        it is out for good, and its application has not joined again.",
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
                meaning: "Number of the view that the member is in; 0: none yet.",
                worry: "It differs between the nodes of one group for more than some seconds.",
            },
            |it| as_f64(it.view),
        ),
        Series::gauge(
            Family {
                name: "covalent_group_members",
                unit: "members",
                meaning: "Members of the view that the member is in.",
                worry: "Below the number of those who should be there.",
            },
            |it| as_f64(it.members.len() as u64),
        ),
        Series::gauge(
            Family {
                name: "covalent_group_voters",
                unit: "members",
                meaning: "Those of them who hold the application's state and count towards a quorum.",
                worry: "Below `covalent_group_members` for long: somebody who joined does not get the state.",
            },
            |it| as_f64(it.voters.into()),
        ),
        Series::count(
            Family {
                name: "covalent_group_views_total",
                unit: "views",
                meaning: "Views that the member has begun.",
                worry: "It grows while nobody joins or leaves: members or the ways between them come and go.",
            },
            |it| it.views,
        ),
        Series::count(
            Family {
                name: "covalent_group_multicasts_total",
                unit: "messages",
                meaning: "Messages that the application gave to the group.",
                worry: "It stands still while the application works: `covalent_group_standing`, and who holds the group up.",
            },
            |it| it.multicasts,
        ),
        Series::count(
            Family {
                name: "covalent_group_deliveries_total",
                unit: "messages",
                meaning: "Messages that the member delivered.",
                worry: "It stands still at one member while others' grow: they wait for that one next.",
            },
            |it| it.deliveries,
        ),
        Series::counts_by(
            Family {
                name: "covalent_group_envelopes_total",
                unit: "envelopes",
                meaning: "What the member said to the others and took from them, by `what`.",
                worry: "`said_again` or `duplicate` grow: daemons restart or links fail. `unproven` grows: somebody else writes into its queue. \
                        `dropped`, of which these are a part, grows without it: members are of two releases.",
            },
            "what",
            |it| &it.envelopes,
        ),
    ],
};
