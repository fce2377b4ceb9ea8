/*
 * Specification of the reversible link of Covalent, to be read from top to bottom.
 *
 * One cable has two ends: end A starts exchanges, end B executes them. In the code each end does
 * both, with separate slots and latches for each direction. There is one slot, two exchanges, a
 * main path that carries them, and an alternate path over which A may query an outcome. Records are
 * lost, cables are cut, and ends notice late or never.
 *
 *      message           A            B           the right to forward the exchange is with
 *      1  TENTATIVE      sends  --->  keeps       neither end
 *      2  REFLECTING     knows  <---  replies     neither end
 *      3  COMMIT         sends  --->  executes    B, from here on
 *      4  COMMITTED      done   <---  replies     B
 *
 * An exchange in one phase has messages 1 (REQUEST, executed at once) and 2. Nothing is ever
 * retransmitted. A loss is a failure of the link: the epoch ends, both ends agree on the next one
 * (HELLO), and A queries (RESOLVE) the outcome of the open exchange. B's reply (RESOLVED) is
 * latched. "Reversed" returns the right to A, which starts the exchange again.
 *
 * check/spec/README.md lists the bounds and what the model leaves out, and explains how to read a
 * trail. scripts/spec runs everything.
 */

/* Bounds: records lost, cuts of the main cable, failures of the alternate path. */
#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef ALTERNATE_CUTS
#define ALTERNATE_CUTS 1
#endif
#define TRANSACTIONS 2

/*
 * Mutants: defects that the checker must find. REORDER is a path that is not a FIFO.
 * ALTERNATING_BIT means sequences of one bit, and records without epoch and number. Together they
 * cause a violation.
 */
#if defined(REORDER) || defined(ALTERNATING_BIT) || defined(DELIVER_AT_1) || defined(FIRE_AND_FORGET) || defined(HELLO_ONCE) || \
    defined(NO_LATCH)
#define MUTANT
#define ROOM 4               /* records in flight in one direction */
#else
#define ROOM 3
#endif

/* Counters are small and compared as in RFC 1982, so that runs include a wrap. */
#define EPOCHS 8
#define NUMBERS 8            /* record numbers in an epoch */
#define LATER_EPOCH(a, b) ((a) != (b) && ((a) + EPOCHS - (b)) % EPOCHS < EPOCHS / 2)
#ifndef ALTERNATING_BIT
#define SEQUENCES 16         /* sequences of exchanges in a slot */
#define LATER_SEQUENCE(a, b) ((a) != (b) && ((a) + SEQUENCES - (b)) % SEQUENCES < SEQUENCES / 2)
#else
#define SEQUENCES 2
#define LATER_SEQUENCE(a, b) ((a) != (b))
#endif
/* Initial values: shortly before the wrap. */
#define FIRST_EPOCH (EPOCHS - 2)
#define FIRST_NUMBER (NUMBERS - 2)
#define FIRST_SEQUENCE (SEQUENCES - 2)
#define NOTHING EPOCHS       /* no epoch was sent or received */
#ifndef EPOCHS_MAX
#define EPOCHS_MAX (1 + LOSSES + CUTS)
#endif

#define A 0
#define B 1
#define PEER(end) (1 - (end))

/* Kinds of records. KEEPALIVE is the keepalive. */
mtype = { HELLO, REQUEST, TENTATIVE, REFLECTING, REFUSED, COMMIT, COMMITTED, RESOLVE, RESOLVED, KEEPALIVE };

/* ------------------------------------------------------------------------ the link, at each end */

typedef Link {
    bool up;                 /* the epoch is in force at this end; otherwise agreeing on one */
    byte epoch;              /* in force, or proposed */
    byte proposal_received;              /* the peer's last proposal received in this handshake */
    byte proposed;           /* what this end's last HELLO proposed ... */
    byte proposal_sent_back;         /* ... and echoed */
    byte next;               /* number of the next record to send in this epoch */
    byte expected;           /* number of the next record to receive in this epoch */
    bool received_anything;     /* received a record in this epoch */
}
Link link[2];

/*
 * Records in flight to each end of the main path: kind, epoch, number, slot sequence, and a word.
 * The word is the exchange, the outcome, or whether to commit. In a HELLO number and sequence
 * have another meaning, see `echoed` and `asks`.
 */
chan wire[2] = [ROOM] of { mtype, byte, byte, byte, byte };

/*
 * The main cable may be cut in the direction to either end, or in both. Records sent afterwards are
 * lost. Records in flight are lost or arrive late. An end that receives nothing may notice it, by
 * loss of carrier or missed keepalives: soon, late or never.
 */
bool cut[2];
bool noticed[2];

/*
 * The alternate path is another link to B, or a neighbor that has one and forwards queries. It uses
 * the same state machine underneath. Here it is a pair of messages, a failure that A notices, and a
 * return that starts a new epoch, so that no earlier message arrives.
 */
bool alternate_up = true;
chan question = [1] of { byte, byte };     /* slot sequence, whether to commit */
chan verdict  = [1] of { byte, byte };     /* slot sequence, outcome */

/* --------------------------------------------------------------- the exchange, at the initiator */

/* Progress of the exchange in the slot, as A knows it. */
#define FREE       0
#define EXECUTING  1         /* one phase: message 1 was sent */
#define ASKED      2         /* two phases: message 1 was sent */
#define COMMITTING 3         /* message 2 was received and message 3 sent */
#define UNRESOLVED 4         /* the link failed under it */
byte progress = FREE;
byte sequence = FIRST_SEQUENCE;      /* of the slot's last exchange; continues across epochs */
byte current;                /* the exchange in the slot */
bool commit;                 /* an unresolved exchange had message 2: B must commit */

/* Path on which the query about the unresolved exchange is in flight. */
#define NOWHERE   0
#define MAIN      1
#define ALTERNATE 2
byte asked = NOWHERE;

/* State of each exchange, as reported to A's caller. */
#define QUEUED 0             /* with A: never sent, or reversed. A may apply it. */
#define OPEN   1
#define DONE   2
#define DROPPED 3            /* refused */
byte reported[TRANSACTIONS];

/* ------------------------------------------------------------------ the latch, at the responder */

/* State of the slot's last exchange, which B keeps permanently. */
#define EMPTY    0          /* empty: there was none */
#define KEPT      1          /* message 1 of two phases was received */
#define EXECUTED  2
#define DECLINED  3
#define UNDONE    4          /* reversed, or never seen and never to be executed */
#define FORGOTTEN 5          /* only as an outcome: B holds another sequence */
byte latch = EMPTY;
byte latched;                /* its sequence */
byte kept;                   /* its exchange */

/* ----------------------------------------------------------------------------------- invariants */

byte delivered[TRANSACTIONS];        /* how often B executed it; only for the invariants */

#define EPOCHS_OF(end) ((link[end].epoch + EPOCHS - FIRST_EPOCH) % EPOCHS + 1)

/*
 * AGREEMENT         never committed at one end and reversed at the other: B executes only the
 *                   exchange that A holds open. Asserted in `execute`, and below as ONE COPY.
 * ONE COPY          at most one end has the right to forward an exchange: A while it is (again)
 *                   queued there, B after its execution.
 * NOTHING RESERVED  B keeps nothing for an exchange whose link it considers failed.
 * EXACTLY ONCE      executed once if "done" was reported to the caller, never if "dropped" was.
 * ISOLATION         in two phases nothing is executed before message 3. Asserted in `execute_kept`.
 * REPORTED ONCE     an outcome is reported once, for the exchange in the slot, and only after its
 *                   resolution. Asserted in `report`.
 */
inline check_invariants() {
    /* ONE COPY */
    assert(reported[0] != QUEUED || delivered[0] == 0);
    assert(reported[1] != QUEUED || delivered[1] == 0);
    /* EXACTLY ONCE */
    assert(delivered[0] <= 1 && delivered[1] <= 1);
    assert(reported[0] != DONE || delivered[0] == 1);
    assert(reported[1] != DONE || delivered[1] == 1);
    assert(reported[0] != DROPPED || delivered[0] == 0);
    assert(reported[1] != DROPPED || delivered[1] == 0);
    /* NOTHING RESERVED */
    assert(latch != KEPT || link[B].up);
#ifndef MUTANT
    /* NO STORM: each lost record and each cut costs the link at most one epoch. */
    assert(EPOCHS_OF(A) <= EPOCHS_MAX && EPOCHS_OF(B) <= EPOCHS_MAX)
#endif
}

/* Scratch: not part of the state, because its values last for one step only. */
hidden mtype kind;
hidden byte of_epoch, number, about, word;
#define echoed number        /* in a HELLO: the last proposal that its sender received */
#define asks about           /* in a HELLO: its sender still lacks the echo of its own proposal */
hidden byte agreed, news, was, was_latched;

/* -------------------------------------------------------------------------------------- sending */

/*
 * Nothing overflows: the wire always has room. (A reordering path drops records that do not fit.)
 */
#ifndef REORDER
#define LOST(me) cut[PEER(me)]
#else
#define LOST(me) (cut[PEER(me)] || full(wire[PEER(me)]))
#endif

inline send(me, what, slot_sequence, argument) {
    if
    :: LOST(me)
    :: else -> assert(nfull(wire[PEER(me)])); wire[PEER(me)]!what(link[me].epoch, link[me].next, slot_sequence, argument)
    fi;
    link[me].next = (link[me].next + 1) % NUMBERS
}

inline send_hello(me) {
    if
    :: LOST(me)
    :: else -> assert(nfull(wire[PEER(me)])); wire[PEER(me)]!HELLO(link[me].epoch, link[me].proposal_received, !link[me].up, 0)
    fi;
    link[me].proposed = link[me].epoch;
    link[me].proposal_sent_back = link[me].proposal_received
}

/* ------------------------------------------------------------- failure and recovery of the link */

/* Restarts the handshake with the next epoch as the proposal. */
inline restart(me) {
    link[me].up = false;
    link[me].epoch = (link[me].epoch + 1) % EPOCHS;
    link[me].proposal_received = NOTHING;
    link[me].proposed = NOTHING;
    link[me].proposal_sent_back = NOTHING;
    link[me].next = FIRST_NUMBER;
    link[me].expected = FIRST_NUMBER;
    link[me].received_anything = false
}

/*
 * The link fails at `me`: its epoch ends. A must query the outcome of its open exchange. B reverses
 * a kept exchange without message 3 at once, so that nothing stays reserved for an A that never
 * returns. `commit` records in the query whether A had message 2.
 */
inline fail(me) {
    restart(me);
    if
    :: me == B && latch == KEPT -> latch = UNDONE
    :: me == A && progress != FREE && progress != UNRESOLVED ->
        commit = (progress == COMMITTING);
        progress = UNRESOLVED
    :: me == A && progress == UNRESOLVED && asked == MAIN -> asked = NOWHERE
    :: else
    fi
}

/*
 * A step towards an epoch that both ends hold: the larger of the two proposals. An end enters it
 * when it receives the echo of its own proposal together with the same proposal of the peer. Each
 * end then knows that the other has received it.
 */
inline agree(me) {
    if
    :: LATER_EPOCH(link[me].epoch, of_epoch) -> send_hello(me)      /* the peer is behind */
    :: else ->
        news = (link[me].proposed != of_epoch || link[me].proposal_sent_back != of_epoch);
        agreed = (echoed == of_epoch && link[me].proposed == of_epoch);
        link[me].epoch = of_epoch;
        link[me].proposal_received = of_epoch;
        if
        :: agreed -> link[me].up = true
        :: else
        fi;
        if
        :: news -> send_hello(me)
        :: else
        fi
    fi
}

inline on_hello(me) {
    if
    :: !link[me].up -> agree(me)
    :: link[me].up && LATER_EPOCH(of_epoch, link[me].epoch) -> fail(me); agree(me)
    :: link[me].up && of_epoch == link[me].epoch && asks && !link[me].received_anything -> send_hello(me)
    :: else                                                        /* a late HELLO */
    fi
}

/* An honest end never sends a record that the other end must treat as a violation. */
inline violation(me) {
#ifndef MUTANT
    assert(false);
#endif
    fail(me);
    send_hello(me)
}

/* ------------------------------------------------------------------------- the initiator's half */

inline report(outcome) {
    assert(progress != FREE && reported[current] == OPEN);             /* REPORTED ONCE */
    reported[current] = outcome;
    progress = FREE;
    commit = false
}

/* Messages 2 and 4. */
inline answered() {
    if
    :: about != sequence -> violation(A)
    :: about == sequence && kind == REFUSED && (progress == EXECUTING || progress == ASKED) -> report(DROPPED)
    :: about == sequence && kind == REFLECTING && progress == EXECUTING -> report(DONE)
    :: about == sequence && kind == REFLECTING && progress == ASKED ->
        progress = COMMITTING;
        send(A, COMMIT, sequence, 0)
    :: about == sequence && kind == COMMITTED && progress == COMMITTING -> report(DONE)
    :: else -> violation(A)
    fi
}

/* The exchange in the slot has the outcome `word`. */
inline resolved() {
    asked = NOWHERE;
    if
    :: word == UNDONE -> report(QUEUED)          /* reversed: A has the right again */
    :: word == EXECUTED -> report(DONE)
    :: word == DECLINED -> report(DROPPED)
    :: else -> violation(A)                /* FORGOTTEN: impossible if B keeps its state */
    fi
}

/* ------------------------------------------------------------------------- the responder's half */

/* Hands the exchange to B's host. */
inline execute() {
    assert(latched == sequence && reported[kept] == OPEN);             /* AGREEMENT */
    delivered[kept]++
}

/* ... at message 3, or at a query in place of it. */
inline execute_kept() {
#ifndef DELIVER_AT_1
    assert(progress == COMMITTING || (progress == UNRESOLVED && commit));      /* ISOLATION */
    execute();
#endif
    latch = EXECUTED
}

/* Message 1. */
inline request() {
    if
    :: latch != KEPT && (latch == EMPTY || LATER_SEQUENCE(about, latched)) ->
        latched = about;
        kept = word;
        if
        :: latch = DECLINED; send(B, REFUSED, latched, 0)
        :: kind == REQUEST -> execute(); latch = EXECUTED; send(B, REFLECTING, latched, 0)
        :: kind == TENTATIVE ->
#ifdef DELIVER_AT_1
            execute();
#endif
            latch = KEPT;
            send(B, REFLECTING, latched, 0)
        fi
    :: latch == UNDONE && about == latched     /* A queried over the other path and got "reversed" */
    :: else -> violation(B)
    fi
}

/* Message 3. */
inline commit_kept() {
    if
    :: latch == KEPT && about == latched ->
        execute_kept();
        send(B, COMMITTED, latched, 0)
    :: latch == EXECUTED && about == latched   /* A committed it over the other path */
    :: else -> violation(B)
    fi
}

/*
 * A query: resolves exchange `about` permanently, commits it if `word` is set. Outcome in `word`.
 */
inline settle() {
    was = latch;
    was_latched = latched;
    if
    :: (latch == EMPTY || LATER_SEQUENCE(about, latched)) && !word -> latch = UNDONE; latched = about
    :: latch == KEPT && about == latched && !word -> latch = UNDONE
    :: latch == KEPT && about == latched && word -> execute_kept()
    :: else
    fi;
    word = (about == latched -> latch : FORGOTTEN)
#ifdef NO_LATCH
    ;
    if
    :: word == UNDONE -> latch = was; latched = was_latched
    :: else
    fi
#endif
}

/* ------------------------------------------------------------------------------------ receiving */

/* How far a record is ahead of the expected number. */
#ifndef ALTERNATING_BIT
#define OF_THIS_EPOCH(me) (link[me].up && of_epoch == link[me].epoch)
#define AHEAD(me) ((number + NUMBERS - link[me].expected) % NUMBERS)
#else
#define OF_THIS_EPOCH(me) link[me].up
#define AHEAD(me) 0
#endif

/*
 * The oldest record in flight to `me` arrives. A gap in the numbers proves a loss at once, because
 * a link is a FIFO.
 */
proctype receive(byte me) {
end: do
    :: atomic {
        wire[me]?kind, of_epoch, number, about, word;
        if
        :: kind == HELLO -> on_hello(me)
        :: kind != HELLO && !OF_THIS_EPOCH(me)             /* no effect */
        :: kind != HELLO && OF_THIS_EPOCH(me) && AHEAD(me) >= NUMBERS - 2   /* duplicate */
        :: kind != HELLO && OF_THIS_EPOCH(me) && AHEAD(me) != 0 && AHEAD(me) < NUMBERS - 2 -> fail(me); send_hello(me)
        :: kind != HELLO && OF_THIS_EPOCH(me) && AHEAD(me) == 0 ->
            link[me].expected = (link[me].expected + 1) % NUMBERS;
            link[me].received_anything = true;
            if
            :: kind == KEEPALIVE
            :: kind == REFLECTING || kind == REFUSED || kind == COMMITTED -> answered()
            :: kind == RESOLVED && asked == MAIN && about == sequence -> resolved()
#ifndef FIRE_AND_FORGET
            :: kind == RESOLVED && !(asked == MAIN && about == sequence) -> violation(A)
#else
            :: kind == RESOLVED
#endif
            :: kind == REQUEST || kind == TENTATIVE -> request()
            :: kind == COMMIT -> commit_kept()
            :: kind == RESOLVE -> settle(); send(B, RESOLVED, about, word)
            fi
        fi;
        check_invariants()
    }
    od
}

/* Arrivals over the alternate path. A query may be late: A has given up the path and B has not. */
proctype receive_over_alternate() {
end: do
    :: atomic { question?about, word -> settle(); verdict!about, word; check_invariants() }
    :: atomic {
        verdict?about, word;
        if
        :: asked == ALTERNATE && about == sequence -> resolved()
        :: else                                       /* of an earlier incarnation of the path */
        fi;
        check_invariants()
    }
    od
}

/* ----------------------------------------------------------------------- steps that A initiates */

inline start(transaction) {
    current = transaction;
    reported[current] = OPEN;
    sequence = (sequence + 1) % SEQUENCES;
    if
    :: progress = EXECUTING; send(A, REQUEST, sequence, current)
    :: progress = ASKED; send(A, TENTATIVE, sequence, current)
    fi
}

/*
 * Starts the oldest exchange that is with A. Queries the outcome of an unresolved exchange over
 * any path that is up, once in each incarnation of that path. Without a path A is in doubt and
 * waits.
 */
proctype initiate() {
end: do
    :: atomic { link[A].up && progress == FREE && reported[0] == QUEUED -> start(0) }
    :: atomic { link[A].up && progress == FREE && reported[0] != QUEUED && reported[1] == QUEUED -> start(1) }
#ifndef FIRE_AND_FORGET
    :: atomic { link[A].up && progress == UNRESOLVED && asked == NOWHERE ->
                asked = MAIN; send(A, RESOLVE, sequence, commit) }
    :: atomic { alternate_up && progress == UNRESOLVED && asked == NOWHERE ->
                asked = ALTERNATE; question!sequence, commit }
#else
    :: atomic { link[A].up && progress == UNRESOLVED ->            /* sent once, and assumed done */
                send(A, RESOLVE, sequence, commit); word = UNDONE; resolved(); check_invariants() }
#endif
    od
}

#ifndef HELLO_ONCE
#define MAY_REPEAT(me) true
#else
#define MAY_REPEAT(me) (link[me].proposed == NOTHING)
#endif

/* A keepalive in order changes only the numbers, so the model omits it while all is in order. */
#define KEEPALIVE_MATTERS(me) (empty(wire[PEER(me)]) && link[PEER(me)].up && link[me].epoch == link[PEER(me)].epoch && \
                          link[me].next != link[PEER(me)].expected)

/*
 * The tick of an end, its only notion of time: repeats the handshake, and sends keepalives if up.
 */
proctype tick(byte me) {
end: do
    :: atomic { !link[me].up && MAY_REPEAT(me) && empty(wire[PEER(me)]) && len(wire[me]) <= 1 -> send_hello(me) }
    :: atomic { link[me].up && !cut[PEER(me)] && KEEPALIVE_MATTERS(me) -> send(me, KEEPALIVE, 0, 0) }
    od
}

/* --------------------------------------------------------------------------------------- faults */

byte losses, cuts, alternate_cuts;

/* Losses of a cut cable are not counted. */
inline lose(end) {
    wire[end]?_, _, _, _, _;
    if :: cut[end] :: else -> losses++ fi
}

inline notice(me) {
    noticed[me] = true;
    if :: link[me].up -> fail(me) :: else -> restart(me) fi
}

#ifdef REORDER
/* The oldest record is overtaken by all others. */
inline overtake(end) {
    wire[end]?kind, of_epoch, number, about, word;
    wire[end]!kind, of_epoch, number, about, word
}
#endif

proctype faults() {
end: do
    :: atomic { nempty(wire[A]) && (cut[A] || losses < LOSSES) -> lose(A) }
    :: atomic { nempty(wire[B]) && (cut[B] || losses < LOSSES) -> lose(B) }
    :: atomic { !cut[A] && !cut[B] && cuts < CUTS -> cuts++;
                if :: cut[A] = true :: cut[B] = true :: cut[A] = true; cut[B] = true fi }
    :: atomic { cut[A] && !noticed[A] -> notice(A) }
    :: atomic { cut[B] && !noticed[B] -> notice(B) }
    :: atomic { alternate_up && alternate_cuts < ALTERNATE_CUTS ->
                alternate_up = false; alternate_cuts++;
                if :: asked == ALTERNATE -> asked = NOWHERE :: else fi }
    :: atomic { !alternate_up && nempty(question) -> question?_, _ }
    :: atomic { !alternate_up && nempty(verdict) -> verdict?_, _ }
#ifdef REORDER
    :: atomic { len(wire[A]) > 1 -> overtake(A) }
    :: atomic { len(wire[B]) > 1 -> overtake(B) }
#endif
    od
}

/* Paths return. */
proctype repair() {
end: do
    :: atomic { cut[A] || cut[B] -> cut[A] = false; cut[B] = false; noticed[A] = false; noticed[B] = false }
    :: atomic { !alternate_up ->
                if :: question?_, _ :: empty(question) fi;
                if :: verdict?_, _ :: empty(verdict) fi;
                alternate_up = true }
    od
}

/*
 * If no step is possible, no exchange is open. (A run that ends continues here without end, so
 * that the liveness check covers it.)
 */
#define RESOLVED_ALL (reported[0] >= DONE && reported[1] >= DONE)
proctype rest() {
end: do
#ifndef ALTERNATING_BIT
    :: timeout -> assert(RESOLVED_ALL)
#else
    :: timeout                                         /* without numbers a loss is not detected */
#endif
    od
}

init {
    atomic {
        link[A].epoch = FIRST_EPOCH - 1; restart(A);
        link[B].epoch = FIRST_EPOCH - 1; restart(B);
        run receive(A); run receive(B); run receive_over_alternate(); run initiate(); run tick(A); run tick(B);
        run faults(); run repair(); run rest()
    }
}

/*
 * Every fair run ends resolved. Fair: a step that stays possible for a process is taken at some
 * time, so cut paths return.
 */
ltl every_run_ends_resolved { <> [] RESOLVED_ALL }
