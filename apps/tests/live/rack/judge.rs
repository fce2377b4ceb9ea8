//! Judges the members' diaries with the checkers of simulated groups.

use std::collections::HashMap;

use covalent::{Contact, Incarnation, Members, Stop, View};
use covalent_sim::group::{
    book::{Digest, MembershipId, Placed},
    fact::Fact,
    graph::Graph,
    report::Report,
    witness::Witness,
};

use super::diary::{Counted, Line, Made, Record, Why};

/// Lines that are printed with a violation.
const LINES_SHOWN: usize = 60;

/// During this time a node reached no quorum, and had reported that it stopped.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    pub node: usize,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Judges the diaries of all nodes, by node. Returns the totals.
///
/// # Errors
/// The violation, and the lines before it.
pub fn judge(diaries: &[Vec<Line>], alone: &[Alone]) -> Result<Report, String> {
    let mut lines: Vec<(usize, &Line)> = diaries
        .iter()
        .enumerate()
        .flat_map(|(node, lines)| lines.iter().map(move |line| (node, line)))
        .collect();
    lines.sort_by_key(|(_, line)| line.at_ns);
    let mut court = Court::new(diaries.len());
    for (at, &(node, line)) in lines.iter().enumerate() {
        let result =
            not_alone(node, line, alone).and_then(|()| court.on_record(node, &line.record));
        result.map_err(|why| {
            let before = &lines[at.saturating_sub(LINES_SHOWN)..=at];
            let reported = before
                .iter()
                .map(|(node, line)| format!("n{node} {line:?}"));
            format!("{}\n{why}", reported.collect::<Vec<_>>().join("\n"))
        })?;
    }
    court.see(&Fact::Over)?;
    court.all_made_the_same()?;
    Ok(court.witness.report)
}

/// A member without a quorum delivers no message.
fn not_alone(node: usize, line: &Line, alone: &[Alone]) -> Result<(), String> {
    let forbids =
        |alone: &&Alone| alone.node == node && (alone.from_ns..alone.to_ns).contains(&line.at_ns);
    match &line.record {
        Record::Delivered { .. } => alone.iter().find(forbids).map_or(Ok(()), |alone| {
            Err(format!(
                "n{node} received a message while it was alone: {alone:?}"
            ))
        }),
        _ => Ok(()),
    }
}

struct Court {
    witness: Witness,
    /// All cables intact: no checker here uses it.
    graph: Graph,
    /// The last incarnation on each node.
    at_node: Vec<Option<MembershipId>>,
    /// The places of messages among all, by their numbers.
    messages: HashMap<u64, u64>,
    /// For each incarnation, its application's digest of the messages' places.
    digests: Vec<Digest>,
    /// Digest of messages' places, by an application's digest of their numbers.
    states: HashMap<Made, Digest>,
    /// For each incarnation, the counts of its events.
    reported: Vec<Counted>,
    /// The final states of the members that stayed to the end.
    made: Vec<(MembershipId, Made)>,
}

impl Court {
    fn new(nodes: usize) -> Self {
        Self {
            witness: Witness::of_applications(),
            graph: Graph::new(nodes, Vec::new()),
            at_node: vec![None; nodes],
            messages: HashMap::new(),
            digests: Vec::new(),
            states: HashMap::new(),
            reported: Vec::new(),
            made: Vec::new(),
        }
    }

    fn see(&mut self, fact: &Fact<'_>) -> Result<(), String> {
        self.witness.see(fact, &self.graph);
        match self.witness.violation() {
            Some(violation) => Err(format!("{}: {}", violation.checker, violation.what)),
            None => Ok(()),
        }
    }

    fn on_record(&mut self, node: usize, record: &Record) -> Result<(), String> {
        if let Record::Began {
            guid,
            incarnation,
            founders,
            former,
        } = *record
        {
            return self.begin(node, (guid, incarnation), founders, former);
        }
        let Some(by) = self.at_node[node] else {
            // It was killed before it began, or its daemon was, and then it.
            return match record {
                Record::Died => Ok(()),
                _ => Err(format!("n{node} has no incarnation")),
            };
        };
        match *record {
            Record::Began { .. } => Ok(()),
            Record::Requested {
                number,
                sequence,
                bytes,
            } => {
                let message = self.messages.len() as u64;
                if self.messages.insert(number, message).is_some() {
                    return Err(format!("two messages have the number {number:x}"));
                }
                self.reported[by].multicasts += 1;
                self.see(&Fact::Requested {
                    by,
                    sequence,
                    message,
                    bytes,
                })
            }
            Record::View {
                group,
                number,
                ref members,
                voters,
            } => {
                self.reported[by].views += 1;
                let members = members.iter().map(|&(guid, incarnation, rkey)| Contact {
                    guid,
                    incarnation: Incarnation(incarnation),
                    rkey,
                });
                let view = View {
                    group,
                    number,
                    members: members.collect(),
                    voters: Members::from_bits(voters),
                };
                self.see(&Fact::View { by, view: &view })
            }
            Record::Delivered { .. } => self.deliver(by, record),
            Record::Stable { view, position } => self.see(&Fact::Stable { by, view, position }),
            Record::StateWanted { made, .. } => {
                // It consists of the state that the member received and the messages since, so the
                // checkers know this state.
                self.states.insert(made, self.digests[by]);
                Ok(())
            }
            Record::State {
                last,
                made,
                delivered_to,
            } => {
                let digest = made.and_then(|made| self.states.get(&made).copied());
                if let Some(digest) = digest.filter(|_| last) {
                    self.digests[by] = digest;
                }
                self.see(&Fact::State {
                    by,
                    last,
                    digest,
                    delivered_to,
                })
            }
            Record::StateVoid => self.see(&Fact::StateVoid { by }),
            Record::Stopped { why, undelivered } => self.see(&Fact::Stopped {
                by,
                why: stop(why),
                undelivered,
            }),
            Record::Outcome { delivered_to } => self.see(&Fact::Outcome { by, delivered_to }),
            Record::Ended { counted, made } => self.end(by, counted, made),
            Record::Died => {
                self.at_node[node] = None;
                self.see(&Fact::Died { membership: by })
            }
        }
    }

    fn begin(
        &mut self,
        node: usize,
        (guid, incarnation): (u64, u64),
        founders: u8,
        former: Option<u64>,
    ) -> Result<(), String> {
        self.at_node[node] = Some(self.reported.len());
        self.digests.push(Digest::default());
        self.reported.push(Counted {
            multicasts: 0,
            deliveries: 0,
            views: 0,
        });
        let contact = Contact {
            guid,
            incarnation: Incarnation(incarnation),
            rkey: 0,
        };
        self.see(&Fact::Began {
            node,
            contact: &contact,
            founders,
            former: former.map(Incarnation),
        })
    }

    fn deliver(&mut self, by: MembershipId, record: &Record) -> Result<(), String> {
        let Record::Delivered {
            number,
            bytes,
            whole,
            sender,
            sequence,
            view,
            position,
        } = *record
        else {
            return Ok(());
        };
        let message = self.messages.get(&number).copied().unwrap_or(u64::MAX);
        let multicast = self.witness.book.messages.get(message as usize);
        let whole = whole && multicast.is_some_and(|multicast| multicast.bytes == bytes);
        self.reported[by].deliveries += 1;
        self.digests[by].take(message);
        let placed = &Placed {
            message,
            sender: Incarnation(sender),
            sequence,
            position,
        };
        self.see(&Fact::Delivered {
            by,
            placed,
            view,
            whole,
        })
    }

    /// The group's counters match the application's counts.
    fn end(&mut self, by: MembershipId, counted: Counted, made: Made) -> Result<(), String> {
        let reported = self.reported[by];
        let agree = counted.multicasts == reported.multicasts
            && counted.deliveries == reported.deliveries
            && counted.views >= reported.views;
        if !agree {
            return Err(format!(
                "s{by} was notified of {reported:?}, and its group counted {counted:?}"
            ));
        }
        if !self.witness.book.stays[by].is_over() {
            self.made.push((by, made));
        }
        Ok(())
    }

    /// The members that stayed to the end have the same state.
    fn all_made_the_same(&self) -> Result<(), String> {
        let Some((_, first)) = self.made.first() else {
            return Err("no member remained until the end".to_owned());
        };
        let other = self.made.iter().find(|(_, made)| made != first);
        other.map_or(Ok(()), |other| {
            Err(format!(
                "(incarnation, state) {other:?}, others have {first:?}"
            ))
        })
    }
}

const fn stop(why: Why) -> Stop {
    match why {
        Why::Minority { reached, voters } => Stop::Minority {
            reached: Members::from_bits(reached),
            voters: Members::from_bits(voters),
        },
        Why::Excluded => Stop::Excluded,
        Why::OtherGroup { group, members } => Stop::OtherGroup { group, members },
    }
}

/// Two members found a group and one joins them: a short course in which each test falsifies one
/// aspect.
mod tests {
    use super::*;

    const GROUP: u64 = 77;

    fn made(numbers: &[u64]) -> Made {
        let mut digest = Digest::default();
        numbers.iter().for_each(|&number| digest.take(number));
        (digest.count, digest.mix)
    }

    fn view(number: u64, incarnations: &[u64], voters: u32) -> Record {
        let members = incarnations
            .iter()
            .map(|&incarnation| (incarnation, incarnation, 1))
            .collect();
        Record::View {
            group: GROUP,
            number,
            members,
            voters,
        }
    }

    const fn began(incarnation: u64) -> Record {
        Record::Began {
            guid: incarnation,
            incarnation,
            founders: 2,
            former: None,
        }
    }

    const fn reported(number: u64, sequence: u64, view: u64, position: u64) -> Record {
        Record::Delivered {
            number,
            bytes: 64,
            whole: true,
            sender: number / 100,
            sequence,
            view,
            position,
        }
    }

    const fn multicast(number: u64, sequence: u64) -> Record {
        Record::Requested {
            number,
            sequence,
            bytes: 64,
        }
    }

    const fn ended(multicasts: u64, deliveries: u64, made: Made) -> Record {
        let counted = Counted {
            multicasts,
            deliveries,
            views: 3,
        };
        Record::Ended { counted, made }
    }

    /// Incarnations 1, 2 and 3 on nodes 0, 1 and 2. Messages 101 and 201 in view 1, 102 in view 2.
    fn course() -> Vec<Vec<Line>> {
        let all = made(&[101, 201, 102]);
        let snapshot = made(&[101, 201]);
        let records: Vec<(usize, Record)> = vec![
            (0, began(1)),
            (1, began(2)),
            (2, began(3)),
            (0, view(1, &[1, 2], 0b11)),
            (1, view(1, &[1, 2], 0b11)),
            (0, multicast(101, 1)),
            (1, multicast(201, 1)),
            (0, reported(101, 1, 1, 0)),
            (0, reported(201, 1, 1, 1)),
            (1, reported(101, 1, 1, 0)),
            (1, reported(201, 1, 1, 1)),
            (
                0,
                Record::Stable {
                    view: 1,
                    position: 2,
                },
            ),
            (0, view(2, &[1, 2, 3], 0b11)),
            (
                0,
                Record::StateWanted {
                    to: 3,
                    made: snapshot,
                },
            ),
            (1, view(2, &[1, 2, 3], 0b11)),
            (2, view(2, &[1, 2, 3], 0b11)),
            (
                2,
                Record::State {
                    last: true,
                    made: Some(snapshot),
                    delivered_to: 0,
                },
            ),
            (0, multicast(102, 2)),
            (0, reported(102, 2, 2, 0)),
            (1, reported(102, 2, 2, 0)),
            (2, reported(102, 2, 2, 0)),
            (0, ended(2, 3, all)),
            (1, ended(1, 3, all)),
            (2, ended(0, 1, all)),
        ];
        let mut diaries = vec![Vec::new(); 3];
        for (at, (node, record)) in records.into_iter().enumerate() {
            let at_ns = 10 * (at as u64 + 1);
            diaries[node].push(Line { at_ns, record });
        }
        diaries
    }

    #[test]
    fn the_judge_accepts_correct_diaries() {
        let report = judge(&course(), &[]).unwrap();
        assert_eq!((report.delivered, report.views), (7, 5));
    }

    type Wrong = fn(&mut [Vec<Line>]);

    #[test]
    fn the_judge_finds_every_wrong_diary() {
        let wrong: [(&str, Wrong); 14] = [
            ("view-agreement", |all| {
                all[1][5].record = view(2, &[2, 1, 3], 0b11)
            }),
            ("total-order", |all| {
                let (one, other) = (reported(101, 1, 1, 0), reported(201, 1, 1, 1));
                (all[1][3].record, all[1][4].record) = (other, one);
            }),
            // Of view 1 node 1 lacks a message.
            ("all-or-none", |all| {
                all[0].remove(5);
                all[1].remove(4);
            }),
            ("exactly-once", |all| {
                all[0][4].record = reported(101, 1, 1, 1)
            }),
            // No member sent it.
            ("exactly-once", |all| {
                all[0][4].record = reported(205, 5, 1, 1)
            }),
            ("exactly-once", |all| {
                let Record::Delivered { whole, .. } = &mut all[0][3].record else {
                    unreachable!("it is one")
                };
                *whole = false;
            }),
            // It lacks a number.
            ("reported", |all| all[0][2].record = multicast(101, 2)),
            ("stable", |all| {
                // The other one has not taken it yet.
                all[1][4].at_ns = 125;
            }),
            ("state", |all| {
                all[2][2].record = Record::State {
                    last: true,
                    made: Some(made(&[101])),
                    delivered_to: 0,
                };
            }),
            // None of its own are in it.
            ("state", |all| {
                if let Record::State { delivered_to, .. } = &mut all[2][2].record {
                    *delivered_to = 1;
                }
            }),
            // It votes and has nothing.
            ("state", |all| all[0][6].record = view(2, &[1, 2, 3], 0b111)),
            // The last message is not delivered everywhere.
            ("convergence", |all| {
                drop(all[2].remove(3));
                all[2][3].record = ended(0, 0, made(&[101, 201]));
            }),
            ("counted", |all| {
                let last = all[1].last_mut().unwrap();
                last.record = ended(1, 4, made(&[101, 201, 102]));
            }),
            ("others have", |all| {
                let last = all[1].last_mut().unwrap();
                last.record = ended(1, 3, made(&[101, 102, 201]));
            }),
        ];
        for (at, (named, make)) in wrong.into_iter().enumerate() {
            let mut course = course();
            make(&mut course);
            let found = judge(&course, &[]).expect_err(&format!("{at}, {named}: not found"));
            let last = found.lines().next_back().unwrap_or_default();
            assert!(last.contains(named), "{at}, {named}: {last}");
        }
    }

    #[test]
    fn a_delivery_to_an_isolated_member_is_found() {
        let alone = Alone {
            node: 2,
            from_ns: 170,
            to_ns: 300,
        };
        let found = judge(&course(), &[alone]).unwrap_err();
        assert!(
            found.contains("n2 received a message while it was alone"),
            "{found}"
        );
        let before = Alone {
            to_ns: 171,
            ..alone
        };
        judge(&course(), &[before]).unwrap();
    }
}
