//! Judges what members wrote down, with the checkers of simulated groups.

use std::collections::HashMap;

use covalent_sim::group::{
    book::{Digest, Placed, StayId},
    fact::Fact,
    graph::Graph,
    report::Report,
    witness::Witness,
};
use covalent_verbs::{Contact, Life, Members, Stop, View};

use super::diary::{Counted, Line, Made, Note, Why};

/// Lines that are told with what is wrong.
const LINES_TOLD: usize = 60;

/// While this lasted a node reached no quorum, and had said that it stopped.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    pub node: usize,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Judges the diaries of all nodes, by node. Gives what happened in all.
///
/// # Errors
/// What is wrong, and what happened right before.
pub fn judge(diaries: &[Vec<Line>], alone: &[Alone]) -> Result<Report, String> {
    let mut lines: Vec<(usize, &Line)> = diaries
        .iter()
        .enumerate()
        .flat_map(|(node, lines)| lines.iter().map(move |line| (node, line)))
        .collect();
    lines.sort_by_key(|(_, line)| line.at_ns);
    let mut court = Court::new(diaries.len());
    for (at, &(node, line)) in lines.iter().enumerate() {
        let heard = not_alone(node, line, alone).and_then(|()| court.hear(node, &line.note));
        heard.map_err(|why| {
            let before = &lines[at.saturating_sub(LINES_TOLD)..=at];
            let told = before
                .iter()
                .map(|(node, line)| format!("n{node} {line:?}"));
            format!("{}\n{why}", told.collect::<Vec<_>>().join("\n"))
        })?;
    }
    court.see(&Fact::Over)?;
    court.all_made_the_same()?;
    Ok(court.witness.report)
}

/// Who reaches no quorum is told no message.
fn not_alone(node: usize, line: &Line, alone: &[Alone]) -> Result<(), String> {
    let forbids =
        |alone: &&Alone| alone.node == node && (alone.from_ns..alone.to_ns).contains(&line.at_ns);
    match &line.note {
        Note::Delivered { .. } => alone.iter().find(forbids).map_or(Ok(()), |alone| {
            Err(format!("n{node} was told a message alone: {alone:?}"))
        }),
        _ => Ok(()),
    }
}

struct Court {
    witness: Witness,
    /// All cables whole: nobody here looks at it.
    graph: Graph,
    /// The last stay on each node.
    at_node: Vec<Option<StayId>>,
    /// The places of messages among all, by their numbers.
    messages: HashMap<u64, u64>,
    /// Of each stay what its application made of the messages' places.
    digests: Vec<Digest>,
    /// By what applications made of the messages' numbers what that is of their places.
    states: HashMap<Made, Digest>,
    /// Of each stay what was told.
    told: Vec<Counted>,
    /// What those made who were members to the end.
    made: Vec<(StayId, Made)>,
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
            told: Vec::new(),
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

    fn hear(&mut self, node: usize, note: &Note) -> Result<(), String> {
        if let Note::Began {
            guid,
            life,
            founders,
            former,
        } = *note
        {
            return self.begin(node, (guid, life), founders, former);
        }
        let Some(by) = self.at_node[node] else {
            // It was killed before it began, or its daemon was, and then it.
            return match note {
                Note::Died => Ok(()),
                _ => Err(format!("n{node} has no stay")),
            };
        };
        match *note {
            Note::Began { .. } => Ok(()),
            Note::Asked {
                number,
                sequence,
                bytes,
            } => {
                let message = self.messages.len() as u64;
                if self.messages.insert(number, message).is_some() {
                    return Err(format!("two messages have the number {number:x}"));
                }
                self.told[by].multicasts += 1;
                self.see(&Fact::Asked {
                    by,
                    sequence,
                    message,
                    bytes,
                })
            }
            Note::View {
                group,
                number,
                ref members,
                voters,
            } => {
                self.told[by].views += 1;
                let members = members.iter().map(|&(guid, life, rkey)| Contact {
                    guid,
                    life: Life(life),
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
            Note::Delivered { .. } => self.deliver(by, note),
            Note::Stable { view, position } => self.see(&Fact::Stable { by, view, position }),
            Note::StateWanted { made, .. } => {
                // What it was given itself and the messages since: so what it gives is a state that the checkers know.
                self.states.insert(made, self.digests[by]);
                Ok(())
            }
            Note::State {
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
            Note::StateVoid => self.see(&Fact::StateVoid { by }),
            Note::Stopped { why, undelivered } => self.see(&Fact::Stopped {
                by,
                why: stop(why),
                undelivered,
            }),
            Note::Fate { delivered_to } => self.see(&Fact::Fate { by, delivered_to }),
            Note::Ended { counted, made } => self.end(by, counted, made),
            Note::Died => {
                self.at_node[node] = None;
                self.see(&Fact::Died { stay: by })
            }
        }
    }

    fn begin(
        &mut self,
        node: usize,
        (guid, life): (u64, u64),
        founders: u8,
        former: Option<u64>,
    ) -> Result<(), String> {
        self.at_node[node] = Some(self.told.len());
        self.digests.push(Digest::default());
        self.told.push(Counted {
            multicasts: 0,
            deliveries: 0,
            views: 0,
        });
        let contact = Contact {
            guid,
            life: Life(life),
            rkey: 0,
        };
        self.see(&Fact::Began {
            node,
            contact: &contact,
            founders,
            former: former.map(Life),
        })
    }

    fn deliver(&mut self, by: StayId, note: &Note) -> Result<(), String> {
        let Note::Delivered {
            number,
            bytes,
            whole,
            sender,
            sequence,
            view,
            position,
        } = *note
        else {
            return Ok(());
        };
        let message = self.messages.get(&number).copied().unwrap_or(u64::MAX);
        let asked = self.witness.book.messages.get(message as usize);
        let whole = whole && asked.is_some_and(|asked| asked.bytes == bytes);
        self.told[by].deliveries += 1;
        self.digests[by].take(message);
        let placed = &Placed {
            message,
            sender: Life(sender),
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

    /// What the group counted is what the application was told.
    fn end(&mut self, by: StayId, counted: Counted, made: Made) -> Result<(), String> {
        let told = self.told[by];
        let agree = counted.multicasts == told.multicasts
            && counted.deliveries == told.deliveries
            && counted.views >= told.views;
        if !agree {
            return Err(format!(
                "s{by} was told {told:?}, and its group counted {counted:?}"
            ));
        }
        if !self.witness.book.stays[by].is_over() {
            self.made.push((by, made));
        }
        Ok(())
    }

    /// Those who were members to the end have the same state.
    fn all_made_the_same(&self) -> Result<(), String> {
        let Some((_, first)) = self.made.first() else {
            return Err("nobody was a member to the end".to_owned());
        };
        let other = self.made.iter().find(|(_, made)| made != first);
        other.map_or(Ok(()), |other| {
            Err(format!("(stay, state) {other:?}, others have {first:?}"))
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

/// Two found, one joins them; a small course in which each thing that may be wrong can be made wrong.
mod tests {
    use super::*;

    const GROUP: u64 = 77;

    fn made(numbers: &[u64]) -> Made {
        let mut digest = Digest::default();
        numbers.iter().for_each(|&number| digest.take(number));
        (digest.count, digest.mix)
    }

    fn view(number: u64, lives: &[u64], voters: u32) -> Note {
        let members = lives.iter().map(|&life| (life, life, 1)).collect();
        Note::View {
            group: GROUP,
            number,
            members,
            voters,
        }
    }

    const fn began(life: u64) -> Note {
        Note::Began {
            guid: life,
            life,
            founders: 2,
            former: None,
        }
    }

    const fn told(number: u64, sequence: u64, view: u64, position: u64) -> Note {
        Note::Delivered {
            number,
            bytes: 64,
            whole: true,
            sender: number / 100,
            sequence,
            view,
            position,
        }
    }

    const fn asked(number: u64, sequence: u64) -> Note {
        Note::Asked {
            number,
            sequence,
            bytes: 64,
        }
    }

    const fn ended(multicasts: u64, deliveries: u64, made: Made) -> Note {
        let counted = Counted {
            multicasts,
            deliveries,
            views: 3,
        };
        Note::Ended { counted, made }
    }

    /// Lives 1, 2 and 3 on nodes 0, 1 and 2. Messages 101 and 201 in view 1, 102 in view 2.
    fn course() -> Vec<Vec<Line>> {
        let all = made(&[101, 201, 102]);
        let given = made(&[101, 201]);
        let notes: Vec<(usize, Note)> = vec![
            (0, began(1)),
            (1, began(2)),
            (2, began(3)),
            (0, view(1, &[1, 2], 0b11)),
            (1, view(1, &[1, 2], 0b11)),
            (0, asked(101, 1)),
            (1, asked(201, 1)),
            (0, told(101, 1, 1, 0)),
            (0, told(201, 1, 1, 1)),
            (1, told(101, 1, 1, 0)),
            (1, told(201, 1, 1, 1)),
            (
                0,
                Note::Stable {
                    view: 1,
                    position: 2,
                },
            ),
            (0, view(2, &[1, 2, 3], 0b11)),
            (0, Note::StateWanted { to: 3, made: given }),
            (1, view(2, &[1, 2, 3], 0b11)),
            (2, view(2, &[1, 2, 3], 0b11)),
            (
                2,
                Note::State {
                    last: true,
                    made: Some(given),
                    delivered_to: 0,
                },
            ),
            (0, asked(102, 2)),
            (0, told(102, 2, 2, 0)),
            (1, told(102, 2, 2, 0)),
            (2, told(102, 2, 2, 0)),
            (0, ended(2, 3, all)),
            (1, ended(1, 3, all)),
            (2, ended(0, 1, all)),
        ];
        let mut diaries = vec![Vec::new(); 3];
        for (at, (node, note)) in notes.into_iter().enumerate() {
            let at_ns = 10 * (at as u64 + 1);
            diaries[node].push(Line { at_ns, note });
        }
        diaries
    }

    #[test]
    fn a_course_as_it_should_be_is_found_right() {
        let report = judge(&course(), &[]).unwrap();
        assert_eq!((report.delivered, report.views), (7, 5));
    }

    type Wrong = fn(&mut [Vec<Line>]);

    #[test]
    fn whatever_is_wrong_is_found() {
        let wrong: [(&str, Wrong); 14] = [
            ("view-agreement", |all| {
                all[1][5].note = view(2, &[2, 1, 3], 0b11)
            }),
            ("total-order", |all| {
                let (one, other) = (told(101, 1, 1, 0), told(201, 1, 1, 1));
                (all[1][3].note, all[1][4].note) = (other, one);
            }),
            // Of view 1 node 1 lacks a message.
            ("all-or-none", |all| {
                all[0].remove(5);
                all[1].remove(4);
            }),
            ("exactly-once", |all| all[0][4].note = told(101, 1, 1, 1)),
            // Nobody sent it.
            ("exactly-once", |all| all[0][4].note = told(205, 5, 1, 1)),
            ("exactly-once", |all| {
                let Note::Delivered { whole, .. } = &mut all[0][3].note else {
                    unreachable!("it is one")
                };
                *whole = false;
            }),
            // It lacks a number.
            ("told", |all| all[0][2].note = asked(101, 2)),
            ("stable", |all| {
                // The other one has not taken it yet.
                all[1][4].at_ns = 125;
            }),
            ("state", |all| {
                all[2][2].note = Note::State {
                    last: true,
                    made: Some(made(&[101])),
                    delivered_to: 0,
                };
            }),
            // None of its own are in it.
            ("state", |all| {
                if let Note::State { delivered_to, .. } = &mut all[2][2].note {
                    *delivered_to = 1;
                }
            }),
            // It votes and has nothing.
            ("state", |all| all[0][6].note = view(2, &[1, 2, 3], 0b111)),
            // The last message is not delivered everywhere.
            ("convergence", |all| {
                drop(all[2].remove(3));
                all[2][3].note = ended(0, 0, made(&[101, 201]));
            }),
            ("counted", |all| {
                let last = all[1].last_mut().unwrap();
                last.note = ended(1, 4, made(&[101, 201, 102]));
            }),
            ("others have", |all| {
                let last = all[1].last_mut().unwrap();
                last.note = ended(1, 3, made(&[101, 102, 201]));
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
    fn who_is_told_a_message_alone_is_found() {
        let alone = Alone {
            node: 2,
            from_ns: 170,
            to_ns: 300,
        };
        let found = judge(&course(), &[alone]).unwrap_err();
        assert!(found.contains("n2 was told a message alone"), "{found}");
        let before = Alone {
            to_ns: 171,
            ..alone
        };
        judge(&course(), &[before]).unwrap();
    }
}
