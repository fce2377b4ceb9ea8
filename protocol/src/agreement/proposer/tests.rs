#![allow(clippy::unwrap_used)]

use super::*;

const FILE: u64 = 0xf;
const EDITED: u64 = 0xe;

const fn held(incarnation: u64, epoch: u64, digest: u64) -> Held {
    Held {
        incarnation,
        epoch,
        digest,
    }
}

fn feed(proposer: &mut Proposer, input: Input) -> Vec<Output> {
    let mut out = Vec::new();
    proposer.on(input, &mut out);
    out
}

/// Connected, having adopted the file's configuration.
fn adopted() -> Proposer {
    let mut proposer = Proposer::default();
    assert_eq!(feed(&mut proposer, Input::Connected), [Output::Query]);
    let start = held(1, 0, FILE);
    let records = feed(&mut proposer, Input::Report(start));
    assert_eq!(records, [Output::Record(Record::Adopted(start))]);
    assert!(proposer.is_agreed());
    proposer
}

/// Requests a reload of the edited file and returns the offer that is sent.
fn reload(proposer: &mut Proposer) -> Proposal {
    let sent = feed(proposer, Input::Wished { wants: EDITED });
    let [Output::Send(proposal)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(proposer.unanswered(), Some((proposal, Why::Reload)));
    proposal
}

fn answer(verdict: Verdict, held: Held) -> Input {
    Input::Answered { verdict, held }
}

/// The edited file is in force, under revision 1.
fn reloaded() -> Proposer {
    let mut proposer = adopted();
    let proposal = reload(&mut proposer);
    assert_eq!((proposal.epoch, proposal.wants), (1, EDITED));
    let records = feed(&mut proposer, answer(Verdict::Taken, proposal.held()));
    let taken = Record::Taken(proposal.held(), Why::Reload);
    assert_eq!(records, [Output::Record(taken)]);
    proposer
}

#[test]
fn a_configuration_in_force_is_not_proposed() {
    let mut proposer = reloaded();
    let records = feed(&mut proposer, Input::Wished { wants: EDITED });
    let taken = Record::Taken(held(1, 1, EDITED), Why::Reload);
    assert_eq!(records, [Output::Record(taken)]);
    assert!(proposer.is_agreed());
}

#[test]
fn a_restarted_dataplane_is_offered_the_agreed_configuration() {
    let mut proposer = reloaded();
    assert_eq!(
        feed(&mut proposer, Input::Lost),
        [Output::Record(Record::Lost)]
    );
    let wish = Input::Wished { wants: FILE };
    assert_eq!(
        feed(&mut proposer, wish),
        [Output::Record(Record::NoDataplane)]
    );
    assert_eq!(feed(&mut proposer, Input::Connected), [Output::Query]);
    let proposal = Proposal {
        epoch: 2,
        believes: held(2, 0, FILE),
        wants: EDITED,
    };
    let report = Input::Report(proposal.believes);
    assert_eq!(feed(&mut proposer, report), [Output::Send(proposal)]);
    let records = feed(&mut proposer, answer(Verdict::Taken, proposal.held()));
    let taken = Record::Taken(proposal.held(), Why::Reinstate);
    assert_eq!(records, [Output::Record(taken)]);
}

#[test]
fn a_dataplane_that_cannot_reinstate_keeps_its_own_configuration() {
    let mut proposer = reloaded();
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    let now = held(2, 0, FILE);
    feed(&mut proposer, Input::Report(now));
    let refused = Verdict::Refused(Refusal::Unready);
    let records = feed(&mut proposer, answer(refused, now));
    let record = Record::Refused(Refusal::Unready, Why::Reinstate);
    assert_eq!(records, [Output::Record(record)]);
    assert_eq!(proposer.agreed(), Some(now));
}

#[test]
fn a_dataplane_that_took_leave_is_believed() {
    let mut proposer = reloaded();
    assert_eq!(feed(&mut proposer, Input::TookLeave), []);
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    let now = held(2, 0, FILE);
    let records = feed(&mut proposer, Input::Report(now));
    assert_eq!(records, [Output::Record(Record::Adopted(now))]);
}

#[test]
fn the_same_dataplane_reports_how_an_unanswered_proposal_ended() {
    for taken in [true, false] {
        let mut proposer = adopted();
        let proposal = reload(&mut proposer);
        feed(&mut proposer, Input::Lost);
        assert_eq!(proposer.unanswered(), Some((proposal, Why::Reload)));
        assert_eq!(feed(&mut proposer, Input::Connected), [Output::Query]);
        let (now, record) = if taken {
            (proposal.held(), Record::Taken(proposal.held(), Why::Reload))
        } else {
            (proposal.believes, Record::NotTaken(Why::Reload))
        };
        assert_eq!(
            feed(&mut proposer, Input::Report(now)),
            [Output::Record(record)]
        );
        assert_eq!(proposer.agreed(), Some(now));
        assert!(proposer.is_agreed());
    }
}

#[test]
fn an_unanswered_proposal_dies_with_its_dataplane() {
    let mut proposer = adopted();
    reload(&mut proposer);
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    // The offerer does not reuse a revision that the dead dataplane may have entered.
    let proposal = Proposal {
        epoch: 2,
        believes: held(2, 0, EDITED),
        wants: FILE,
    };
    let outputs = feed(&mut proposer, Input::Report(proposal.believes));
    assert_eq!(
        outputs,
        [
            Output::Record(Record::NotTaken(Why::Reload)),
            Output::Send(proposal)
        ]
    );
}

#[test]
fn reinstating_continues_after_a_broken_connection() {
    let mut proposer = reloaded();
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    let now = held(2, 0, FILE);
    feed(&mut proposer, Input::Report(now));
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    let mut repeated = proposer.clone();
    let sent = feed(&mut repeated, Input::Report(now));
    let [Output::Send(proposal)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((proposal.epoch, proposal.wants), (3, EDITED));
    // Or it was taken all the same.
    let taken = held(2, 2, EDITED);
    let records = feed(&mut proposer, Input::Report(taken));
    let record = Record::Taken(taken, Why::Reinstate);
    assert_eq!(records, [Output::Record(record)]);
}

#[test]
fn an_overtaken_proposer_queries_and_adopts() {
    let mut proposer = adopted();
    reload(&mut proposer);
    let others = held(1, 5, 0x5);
    let stale = Verdict::Refused(Refusal::Stale);
    let outputs = feed(&mut proposer, answer(stale, others));
    let record = Record::Refused(Refusal::Stale, Why::Reload);
    assert_eq!(outputs, [Output::Record(record), Output::Query]);
    let records = feed(&mut proposer, Input::Report(others));
    assert_eq!(records, [Output::Record(Record::Adopted(others))]);
    assert_eq!(reload(&mut proposer).epoch, 6);
}

#[test]
fn one_wish_at_a_time() {
    let mut proposer = adopted();
    let proposal = reload(&mut proposer);
    let busy = Record::Refused(Refusal::Busy, Why::Reload);
    let records = feed(&mut proposer, Input::Wished { wants: 1 });
    assert_eq!(records, [Output::Record(busy)]);
    assert_eq!(proposer.unanswered(), Some((proposal, Why::Reload)));
}

#[test]
fn inputs_that_answer_nothing_are_ignored() {
    let mut proposer = adopted();
    let before = proposer.clone();
    for stray in [
        Input::Connected,
        Input::Report(held(9, 9, 9)),
        answer(Verdict::Taken, held(9, 9, 9)),
    ] {
        assert_eq!(feed(&mut proposer, stray), []);
    }
    assert_eq!(proposer, before);
    let mut away = Proposer::default();
    assert_eq!(feed(&mut away, Input::Lost), []);
}

/// Requests that ports be opened again and returns the offer that is sent.
fn reopen(proposer: &mut Proposer) -> Proposal {
    let sent = feed(proposer, Input::Reopen);
    let [Output::Send(proposal)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(proposer.unanswered(), Some((proposal, Why::Reopen)));
    proposal
}

#[test]
fn ports_are_reopened_under_a_later_epoch_of_the_same_text() {
    let mut proposer = reloaded();
    let proposal = reopen(&mut proposer);
    let expected = Proposal {
        epoch: 2,
        believes: held(1, 1, EDITED),
        wants: EDITED,
    };
    assert_eq!(proposal, expected);
    let mut refused = proposer.clone();
    let records = feed(&mut proposer, answer(Verdict::Taken, proposal.held()));
    let taken = Record::Taken(proposal.held(), Why::Reopen);
    assert_eq!(records, [Output::Record(taken)]);
    assert_eq!(proposer.agreed(), Some(proposal.held()));
    let verdict = Verdict::Refused(Refusal::Unready);
    let records = feed(&mut refused, answer(verdict, proposal.believes));
    let record = Record::Refused(Refusal::Unready, Why::Reopen);
    assert_eq!(records, [Output::Record(record)]);
    assert_eq!(refused.agreed(), Some(proposal.believes));
    assert_eq!(refused.owed(), None);
}

#[test]
fn a_text_in_force_does_not_prove_that_ports_were_reopened() {
    for taken in [true, false] {
        let mut proposer = reloaded();
        let proposal = reopen(&mut proposer);
        feed(&mut proposer, Input::Lost);
        feed(&mut proposer, Input::Connected);
        let (now, record) = if taken {
            (proposal.held(), Record::Taken(proposal.held(), Why::Reopen))
        } else {
            (proposal.believes, Record::NotTaken(Why::Reopen))
        };
        assert_eq!(
            feed(&mut proposer, Input::Report(now)),
            [Output::Record(record)]
        );
        assert!(proposer.is_agreed());
        assert_eq!(proposer.agreed(), Some(now));
    }
}

#[test]
fn a_reopen_request_dies_with_its_dataplane() {
    let mut proposer = reloaded();
    reopen(&mut proposer);
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    let proposal = Proposal {
        epoch: 3,
        believes: held(2, 0, FILE),
        wants: EDITED,
    };
    let outputs = feed(&mut proposer, Input::Report(proposal.believes));
    let not = Output::Record(Record::NotTaken(Why::Reopen));
    assert_eq!(outputs, [not, Output::Send(proposal)]);
    assert_eq!(proposer.unanswered(), Some((proposal, Why::Reinstate)));
}

#[test]
fn ports_wait_for_their_turn() {
    let mut proposer = Proposer::default();
    let no_dataplane = [Output::Record(Record::NoDataplane)];
    assert_eq!(feed(&mut proposer, Input::Reopen), no_dataplane);
    let busy = [Output::Record(Record::Refused(Refusal::Busy, Why::Reopen))];
    feed(&mut proposer, Input::Connected);
    assert_eq!(feed(&mut proposer, Input::Reopen), busy);
    let mut proposer = adopted();
    let proposal = reload(&mut proposer);
    assert_eq!(feed(&mut proposer, Input::Reopen), busy);
    assert_eq!(proposer.unanswered(), Some((proposal, Why::Reload)));
}

/// The dataplane died, and its next incarnation refused the agreed configuration.
fn owing() -> Proposer {
    let mut proposer = reloaded();
    feed(&mut proposer, Input::Lost);
    feed(&mut proposer, Input::Connected);
    let now = held(2, 0, FILE);
    feed(&mut proposer, Input::Report(now));
    feed(
        &mut proposer,
        answer(Verdict::Refused(Refusal::Unready), now),
    );
    assert_eq!(proposer.owed(), Some(EDITED));
    proposer
}

#[test]
fn a_failed_reinstatement_is_retried_when_something_appears() {
    let mut proposer = owing();
    // A port that is opened again meanwhile changes nothing about it.
    let proposal = reopen(&mut proposer);
    feed(&mut proposer, answer(Verdict::Taken, proposal.held()));
    let sent = feed(&mut proposer, Input::Appeared);
    let expected = Proposal {
        epoch: 4,
        believes: held(2, 3, FILE),
        wants: EDITED,
    };
    assert_eq!(sent, [Output::Send(expected)]);
    // While that offer is in flight, nothing else is sent.
    assert_eq!(feed(&mut proposer, Input::Appeared), []);
    let mut repeated = proposer.clone();
    let records = feed(&mut proposer, answer(Verdict::Taken, expected.held()));
    let taken = Record::Taken(expected.held(), Why::Reinstate);
    assert_eq!(records, [Output::Record(taken)]);
    assert_eq!(proposer.owed(), None);
    assert_eq!(feed(&mut proposer, Input::Appeared), []);
    // Or it breaks, was not taken, and is owed still.
    feed(&mut repeated, Input::Lost);
    feed(&mut repeated, Input::Connected);
    assert_eq!(feed(&mut repeated, Input::Report(held(2, 3, FILE))), []);
    assert_eq!(repeated.owed(), Some(EDITED));
    assert!(matches!(
        feed(&mut repeated, Input::Appeared)[..],
        [Output::Send(Proposal { epoch: 5, .. })]
    ));
}

#[test]
fn nothing_is_owed_once_something_else_was_agreed_on() {
    let mut reloads = owing();
    let sent = feed(&mut reloads, Input::Wished { wants: 0x7 });
    let [Output::Send(proposal)] = sent[..] else {
        panic!("{sent:?}");
    };
    feed(&mut reloads, answer(Verdict::Taken, proposal.held()));
    let mut leaves = owing();
    feed(&mut leaves, Input::TookLeave);
    let mut adopts = owing();
    feed(&mut adopts, Input::Lost);
    feed(&mut adopts, Input::Connected);
    feed(&mut adopts, Input::Report(held(2, 9, 0x5)));
    for mut proposer in [reloads, leaves, adopts] {
        assert_eq!(proposer.owed(), None);
        assert_eq!(feed(&mut proposer, Input::Appeared), []);
    }
}
