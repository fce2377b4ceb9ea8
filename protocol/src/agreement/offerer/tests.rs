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
