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

fn hear(offerer: &mut Offerer, input: Input) -> Vec<Output> {
    let mut out = Vec::new();
    offerer.on(input, &mut out);
    out
}

/// Connected, having adopted the file's configuration.
fn adopted() -> Offerer {
    let mut offerer = Offerer::default();
    assert_eq!(hear(&mut offerer, Input::Connected), [Output::Ask]);
    let start = held(1, 0, FILE);
    let notes = hear(&mut offerer, Input::Told(start));
    assert_eq!(notes, [Output::Note(Note::Adopted(start))]);
    assert!(offerer.is_agreed());
    offerer
}

/// What is sent when the edited file is wished for.
fn reload(offerer: &mut Offerer) -> Offer {
    let sent = hear(offerer, Input::Wished { wants: EDITED });
    let [Output::Send(offer)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(offerer.unanswered(), Some((offer, Why::Reload)));
    offer
}

fn answer(verdict: Verdict, held: Held) -> Input {
    Input::Answered { verdict, held }
}

/// The edited file is in force, under epoch 1.
fn reloaded() -> Offerer {
    let mut offerer = adopted();
    let offer = reload(&mut offerer);
    assert_eq!((offer.epoch, offer.wants), (1, EDITED));
    let notes = hear(&mut offerer, answer(Verdict::Taken, offer.held()));
    let taken = Note::Taken(offer.held(), Why::Reload);
    assert_eq!(notes, [Output::Note(taken)]);
    offerer
}

#[test]
fn what_is_in_force_already_is_not_offered() {
    let mut offerer = reloaded();
    let notes = hear(&mut offerer, Input::Wished { wants: EDITED });
    let taken = Note::Taken(held(1, 1, EDITED), Why::Reload);
    assert_eq!(notes, [Output::Note(taken)]);
    assert!(offerer.is_agreed());
}

#[test]
fn a_dataplane_that_died_is_offered_what_was_agreed() {
    let mut offerer = reloaded();
    assert_eq!(hear(&mut offerer, Input::Lost), [Output::Note(Note::Lost)]);
    let wish = Input::Wished { wants: FILE };
    assert_eq!(hear(&mut offerer, wish), [Output::Note(Note::NoDataplane)]);
    assert_eq!(hear(&mut offerer, Input::Connected), [Output::Ask]);
    let offer = Offer {
        epoch: 2,
        believes: held(2, 0, FILE),
        wants: EDITED,
    };
    let told = Input::Told(offer.believes);
    assert_eq!(hear(&mut offerer, told), [Output::Send(offer)]);
    let notes = hear(&mut offerer, answer(Verdict::Taken, offer.held()));
    let taken = Note::Taken(offer.held(), Why::Reinstate);
    assert_eq!(notes, [Output::Note(taken)]);
}

#[test]
fn a_dataplane_that_cannot_take_it_back_is_believed() {
    let mut offerer = reloaded();
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    let now = held(2, 0, FILE);
    hear(&mut offerer, Input::Told(now));
    let refused = Verdict::Refused(Refusal::Unready);
    let notes = hear(&mut offerer, answer(refused, now));
    let note = Note::Refused(Refusal::Unready, Why::Reinstate);
    assert_eq!(notes, [Output::Note(note)]);
    assert_eq!(offerer.agreed(), Some(now));
}

#[test]
fn a_dataplane_that_took_leave_is_believed() {
    let mut offerer = reloaded();
    assert_eq!(hear(&mut offerer, Input::TookLeave), []);
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    let now = held(2, 0, FILE);
    let notes = hear(&mut offerer, Input::Told(now));
    assert_eq!(notes, [Output::Note(Note::Adopted(now))]);
}

#[test]
fn the_same_dataplane_tells_how_an_unanswered_offer_ended() {
    for taken in [true, false] {
        let mut offerer = adopted();
        let offer = reload(&mut offerer);
        hear(&mut offerer, Input::Lost);
        assert_eq!(offerer.unanswered(), Some((offer, Why::Reload)));
        assert_eq!(hear(&mut offerer, Input::Connected), [Output::Ask]);
        let (now, note) = if taken {
            (offer.held(), Note::Taken(offer.held(), Why::Reload))
        } else {
            (offer.believes, Note::NotTaken(Why::Reload))
        };
        assert_eq!(hear(&mut offerer, Input::Told(now)), [Output::Note(note)]);
        assert_eq!(offerer.agreed(), Some(now));
        assert!(offerer.is_agreed());
    }
}

#[test]
fn an_offer_that_nobody_answered_died_with_its_dataplane() {
    let mut offerer = adopted();
    reload(&mut offerer);
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    // An epoch that the dead one may have entered is not used again.
    let offer = Offer {
        epoch: 2,
        believes: held(2, 0, EDITED),
        wants: FILE,
    };
    let outputs = hear(&mut offerer, Input::Told(offer.believes));
    assert_eq!(
        outputs,
        [
            Output::Note(Note::NotTaken(Why::Reload)),
            Output::Send(offer)
        ]
    );
}

#[test]
fn reinstating_goes_on_over_a_broken_connection() {
    let mut offerer = reloaded();
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    let now = held(2, 0, FILE);
    hear(&mut offerer, Input::Told(now));
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    let mut again = offerer.clone();
    let sent = hear(&mut again, Input::Told(now));
    let [Output::Send(offer)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!((offer.epoch, offer.wants), (3, EDITED));
    // Or it was taken all the same.
    let taken = held(2, 2, EDITED);
    let notes = hear(&mut offerer, Input::Told(taken));
    let note = Note::Taken(taken, Why::Reinstate);
    assert_eq!(notes, [Output::Note(note)]);
}

#[test]
fn who_was_overtaken_asks_and_adopts() {
    let mut offerer = adopted();
    reload(&mut offerer);
    let others = held(1, 5, 0x5);
    let stale = Verdict::Refused(Refusal::Stale);
    let outputs = hear(&mut offerer, answer(stale, others));
    let note = Note::Refused(Refusal::Stale, Why::Reload);
    assert_eq!(outputs, [Output::Note(note), Output::Ask]);
    let notes = hear(&mut offerer, Input::Told(others));
    assert_eq!(notes, [Output::Note(Note::Adopted(others))]);
    assert_eq!(reload(&mut offerer).epoch, 6);
}

#[test]
fn one_wish_at_a_time() {
    let mut offerer = adopted();
    let offer = reload(&mut offerer);
    let busy = Note::Refused(Refusal::Busy, Why::Reload);
    let notes = hear(&mut offerer, Input::Wished { wants: 1 });
    assert_eq!(notes, [Output::Note(busy)]);
    assert_eq!(offerer.unanswered(), Some((offer, Why::Reload)));
}

#[test]
fn what_answers_nothing_is_ignored() {
    let mut offerer = adopted();
    let before = offerer.clone();
    for stray in [
        Input::Connected,
        Input::Told(held(9, 9, 9)),
        answer(Verdict::Taken, held(9, 9, 9)),
    ] {
        assert_eq!(hear(&mut offerer, stray), []);
    }
    assert_eq!(offerer, before);
    let mut away = Offerer::default();
    assert_eq!(hear(&mut away, Input::Lost), []);
}

/// Ports are to be opened again: what is sent.
fn reopen(offerer: &mut Offerer) -> Offer {
    let sent = hear(offerer, Input::Reopen);
    let [Output::Send(offer)] = sent[..] else {
        panic!("{sent:?}");
    };
    assert_eq!(offerer.unanswered(), Some((offer, Why::Reopen)));
    offer
}

#[test]
fn ports_are_opened_again_under_a_later_epoch_of_the_same_text() {
    let mut offerer = reloaded();
    let offer = reopen(&mut offerer);
    let expected = Offer {
        epoch: 2,
        believes: held(1, 1, EDITED),
        wants: EDITED,
    };
    assert_eq!(offer, expected);
    let mut refused = offerer.clone();
    let notes = hear(&mut offerer, answer(Verdict::Taken, offer.held()));
    let taken = Note::Taken(offer.held(), Why::Reopen);
    assert_eq!(notes, [Output::Note(taken)]);
    assert_eq!(offerer.agreed(), Some(offer.held()));
    let verdict = Verdict::Refused(Refusal::Unready);
    let notes = hear(&mut refused, answer(verdict, offer.believes));
    let note = Note::Refused(Refusal::Unready, Why::Reopen);
    assert_eq!(notes, [Output::Note(note)]);
    assert_eq!(refused.agreed(), Some(offer.believes));
    assert_eq!(refused.owed(), None);
}

#[test]
fn that_the_text_is_in_force_does_not_tell_that_ports_were_opened() {
    for taken in [true, false] {
        let mut offerer = reloaded();
        let offer = reopen(&mut offerer);
        hear(&mut offerer, Input::Lost);
        hear(&mut offerer, Input::Connected);
        let (now, note) = if taken {
            (offer.held(), Note::Taken(offer.held(), Why::Reopen))
        } else {
            (offer.believes, Note::NotTaken(Why::Reopen))
        };
        assert_eq!(hear(&mut offerer, Input::Told(now)), [Output::Note(note)]);
        assert!(offerer.is_agreed());
        assert_eq!(offerer.agreed(), Some(now));
    }
}

#[test]
fn ports_of_a_dataplane_that_died_are_not_opened_again_in_the_next() {
    let mut offerer = reloaded();
    reopen(&mut offerer);
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    let offer = Offer {
        epoch: 3,
        believes: held(2, 0, FILE),
        wants: EDITED,
    };
    let outputs = hear(&mut offerer, Input::Told(offer.believes));
    let not = Output::Note(Note::NotTaken(Why::Reopen));
    assert_eq!(outputs, [not, Output::Send(offer)]);
    assert_eq!(offerer.unanswered(), Some((offer, Why::Reinstate)));
}

#[test]
fn ports_wait_for_their_turn() {
    let mut offerer = Offerer::default();
    let nobody = [Output::Note(Note::NoDataplane)];
    assert_eq!(hear(&mut offerer, Input::Reopen), nobody);
    let busy = [Output::Note(Note::Refused(Refusal::Busy, Why::Reopen))];
    hear(&mut offerer, Input::Connected);
    assert_eq!(hear(&mut offerer, Input::Reopen), busy);
    let mut offerer = adopted();
    let offer = reload(&mut offerer);
    assert_eq!(hear(&mut offerer, Input::Reopen), busy);
    assert_eq!(offerer.unanswered(), Some((offer, Why::Reload)));
}

/// The dataplane died, and its next life refused what was agreed.
fn owing() -> Offerer {
    let mut offerer = reloaded();
    hear(&mut offerer, Input::Lost);
    hear(&mut offerer, Input::Connected);
    let now = held(2, 0, FILE);
    hear(&mut offerer, Input::Told(now));
    hear(
        &mut offerer,
        answer(Verdict::Refused(Refusal::Unready), now),
    );
    assert_eq!(offerer.owed(), Some(EDITED));
    offerer
}

#[test]
fn what_could_not_be_reinstated_is_wished_again_when_something_appears() {
    let mut offerer = owing();
    // A port that is opened again meanwhile changes nothing about it.
    let offer = reopen(&mut offerer);
    hear(&mut offerer, answer(Verdict::Taken, offer.held()));
    let sent = hear(&mut offerer, Input::Appeared);
    let expected = Offer {
        epoch: 4,
        believes: held(2, 3, FILE),
        wants: EDITED,
    };
    assert_eq!(sent, [Output::Send(expected)]);
    // While that is under way nothing else is sent.
    assert_eq!(hear(&mut offerer, Input::Appeared), []);
    let mut again = offerer.clone();
    let notes = hear(&mut offerer, answer(Verdict::Taken, expected.held()));
    let taken = Note::Taken(expected.held(), Why::Reinstate);
    assert_eq!(notes, [Output::Note(taken)]);
    assert_eq!(offerer.owed(), None);
    assert_eq!(hear(&mut offerer, Input::Appeared), []);
    // Or it breaks, was not taken, and is owed still.
    hear(&mut again, Input::Lost);
    hear(&mut again, Input::Connected);
    assert_eq!(hear(&mut again, Input::Told(held(2, 3, FILE))), []);
    assert_eq!(again.owed(), Some(EDITED));
    assert!(matches!(
        hear(&mut again, Input::Appeared)[..],
        [Output::Send(Offer { epoch: 5, .. })]
    ));
}

#[test]
fn nothing_is_owed_once_something_else_was_agreed_on() {
    let mut reloads = owing();
    let sent = hear(&mut reloads, Input::Wished { wants: 0x7 });
    let [Output::Send(offer)] = sent[..] else {
        panic!("{sent:?}");
    };
    hear(&mut reloads, answer(Verdict::Taken, offer.held()));
    let mut leaves = owing();
    hear(&mut leaves, Input::TookLeave);
    let mut adopts = owing();
    hear(&mut adopts, Input::Lost);
    hear(&mut adopts, Input::Connected);
    hear(&mut adopts, Input::Told(held(2, 9, 0x5)));
    for mut offerer in [reloads, leaves, adopts] {
        assert_eq!(offerer.owed(), None);
        assert_eq!(hear(&mut offerer, Input::Appeared), []);
    }
}
