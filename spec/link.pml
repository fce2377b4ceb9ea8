/*
 * The reversible link of Covalent, written to be read as its specification.
 *
 * Two ends of one cable: end A starts exchanges, end B executes them. (In the code each end does both, with slots and latches
 * of its own for each direction, which never touch each other.) One slot, two transactions, a main path that carries them, and
 * an alternate path over which A may ask what became of one. Records get lost, cables are cut, and ends notice late or never.
 *
 *      message           A            B           the right to forward the transaction is with
 *      1  TENTATIVE      sends  --->  keeps       nobody
 *      2  REFLECTING     knows  <---  answers     nobody
 *      3  COMMIT         sends  --->  executes    B, from here on
 *      4  COMMITTED      done   <---  answers     B
 *
 * In one phase there are messages 1 (REQUEST, executed at once) and 2. A loss is never answered by sending again. It is a failure of
 * the link: the epoch ends, both ends agree on the next one (HELLO), and A asks (RESOLVE) how the open exchange ended. B's answer
 * (RESOLVED) is latched. "Undone" gives A the right back, and it starts the transaction afresh.
 *
 * spec/README.md says what is left out, what the bounds are, and how to read a trail. scripts/spec runs everything.
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

/* Mutants: ways to build it wrong, each of which the checker must find. REORDER is a path that is not first in, first out;
 * ALTERNATING_BIT are sequences of one bit and records without epoch and number, which such a path turns into a violation. */
#if defined(REORDER) || defined(ALTERNATING_BIT) || defined(DELIVER_AT_1) || defined(FIRE_AND_FORGET) || defined(HELLO_ONCE) || \
    defined(NO_LATCH)
#define MUTANT
#define ROOM 4               /* records under way in one direction */
#else
#define ROOM 3
#endif

/* Counters go round small circles, and are compared as in RFC 1982, so that a wrap is among the things that happen. */
#define EPOCHS 8
#define NUMBERS 8            /* of records in an epoch */
#define LATER_EPOCH(a, b) ((a) != (b) && ((a) + EPOCHS - (b)) % EPOCHS < EPOCHS / 2)
#ifndef ALTERNATING_BIT
#define SEQUENCES 16         /* of exchanges in a slot */
#define LATER_SEQUENCE(a, b) ((a) != (b) && ((a) + SEQUENCES - (b)) % SEQUENCES < SEQUENCES / 2)
#else
#define SEQUENCES 2
#define LATER_SEQUENCE(a, b) ((a) != (b))
#endif
/* Where they start: shortly before the wrap. */
#define FIRST_EPOCH (EPOCHS - 2)
#define FIRST_NUMBER (NUMBERS - 2)
#define FIRST_SEQUENCE (SEQUENCES - 2)
#define NOTHING EPOCHS       /* no epoch was said or heard */
#ifndef EPOCHS_MAX
#define EPOCHS_MAX (1 + LOSSES + CUTS)
#endif

#define A 0
#define B 1
#define PEER(end) (1 - (end))

/* What is said on a path. */
mtype = { HELLO, REQUEST, TENTATIVE, REFLECTING, REFUSED, COMMIT, COMMITTED, RESOLVE, RESOLVED, BALL };

/* ---------------------------------------------------------------------------------------------------------- the link, at each end */

typedef Link {
    bool up;                 /* this end holds that the epoch is in force; else it is agreeing on one */
    byte epoch;              /* in force, or proposed */
    byte heard;              /* the peer's proposal, as last heard in this handshake */
    byte said;               /* what this end's last handshake proposed ... */
    byte said_heard;         /* ... and echoed */
    byte next;               /* number of the next record to send in this epoch */
    byte expected;           /* number of the next record to hear in this epoch */
    bool heard_anything;     /* in this epoch */
}
Link link[2];

/* Records under way to each end of the main path: kind, epoch, number, slot sequence, and a word: the transaction, the ending, or
 * whether to commit. In a HELLO number and sequence mean something else, see `echoed` and `asks`. */
chan wire[2] = [ROOM] of { mtype, byte, byte, byte, byte };

/* The main cable may be cut in the direction to either end, or in both. What is said then is lost; what was under way gets lost or
 * arrives late. An end that hears nothing may notice, by carrier or by silence: soon, late or never. */
bool cut[2];
bool noticed[2];

/* The alternate path is another link to B, or a neighbour that has one and passes questions on. It has the same machine underneath. Here
 * it is a pair of messages, a failure that A notices, and a return that starts a new epoch, so that nothing from before it arrives. */
bool alternate_up = true;
chan question = [1] of { byte, byte };     /* slot sequence, whether to commit */
chan verdict  = [1] of { byte, byte };     /* slot sequence, ending */

/* --------------------------------------------------------------------------------------------------- the exchange, at the initiator */

/* How far the exchange in the slot is, as A knows it. */
#define FREE       0
#define EXECUTING  1         /* one phase: message 1 was sent */
#define ASKED      2         /* two phases: message 1 was sent */
#define COMMITTING 3         /* message 2 was received and message 3 sent */
#define UNRESOLVED 4         /* the link failed under it */
byte progress = FREE;
byte sequence = FIRST_SEQUENCE;      /* of the slot's last exchange; outlives epochs */
byte current;                /* the transaction in the slot */
bool commit;                 /* an unresolved exchange had message 2: B must commit */

/* Where the question about the unresolved exchange is under way. */
#define NOWHERE   0
#define MAIN      1
#define ALTERNATE 2
byte asked = NOWHERE;

/* What A's caller knows of each transaction. */
#define QUEUED 0             /* it is with A: never sent, or reversed. A may apply it. */
#define OPEN   1
#define DONE   2
#define DROPPED 3            /* refused */
byte told[TRANSACTIONS];

/* ------------------------------------------------------------------------------------------------------ the latch, at the responder */

/* How the slot's last exchange stands, as B remembers it for good. */
#define VIRGIN    0          /* there was none */
#define KEPT      1          /* message 1 of two phases was received */
#define EXECUTED  2
#define DECLINED  3
#define UNDONE    4          /* reversed, or never seen and never to be executed */
#define FORGOTTEN 5          /* only as an ending: B holds another sequence */
byte latch = VIRGIN;
byte latched;                /* its sequence */
byte kept;                   /* its transaction */

/* ------------------------------------------------------------------------------------------------------------------------ invariants */

byte delivered[TRANSACTIONS];        /* times that B executed it: counted for the invariants, read by nobody else */

#define EPOCHS_OF(end) ((link[end].epoch + EPOCHS - FIRST_EPOCH) % EPOCHS + 1)

/* AGREEMENT, never committed at one end and reversed at the other: what B executes is the exchange that A holds open at that time.
 * It stands in `execute`, and below as ONE COPY: at most one end has the right to forward a transaction, A while it is (again)
 * queued there, B once it executed it.
 * NOTHING RESERVED: B keeps nothing for an exchange whose link it holds for failed.
 * EXACTLY ONCE: executed once where the caller was told "done", never where it was told "dropped".
 * ISOLATION, before message 3 of two phases nothing is executed, and TOLD ONCE, of the exchange in the slot and not before it is
 * resolved, stand where the one and the other happens: in `execute_kept` and `tell`. */
inline check_invariants() {
    /* ONE COPY */
    assert(told[0] != QUEUED || delivered[0] == 0);
    assert(told[1] != QUEUED || delivered[1] == 0);
    /* EXACTLY ONCE */
    assert(delivered[0] <= 1 && delivered[1] <= 1);
    assert(told[0] != DONE || delivered[0] == 1);
    assert(told[1] != DONE || delivered[1] == 1);
    assert(told[0] != DROPPED || delivered[0] == 0);
    assert(told[1] != DROPPED || delivered[1] == 0);
    /* NOTHING RESERVED */
    assert(latch != KEPT || link[B].up);
#ifndef MUTANT
    /* NO STORM: each lost record and each cut costs the link one epoch at most. */
    assert(EPOCHS_OF(A) <= EPOCHS_MAX && EPOCHS_OF(B) <= EPOCHS_MAX)
#endif
}

/* Scratch: not part of the state, because nothing in it outlives the step that wrote it. */
hidden mtype kind;
hidden byte of_epoch, number, about, word;
#define echoed number        /* in a HELLO: the peer's proposal that its sender heard last */
#define asks about           /* in a HELLO: its sender still lacks the echo of its own */
hidden byte agreed, news, was, was_latched;

/* ------------------------------------------------------------------------------------------------------------------------- sending */

/* Nothing overflows: there always is room on the wire. (A box that reorders drops what does not fit.) */
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
    :: else -> assert(nfull(wire[PEER(me)])); wire[PEER(me)]!HELLO(link[me].epoch, link[me].heard, !link[me].up, 0)
    fi;
    link[me].said = link[me].epoch;
    link[me].said_heard = link[me].heard
}

/* ------------------------------------------------------------------------------------------------- failure and recovery of the link */

/* The handshake starts anew, with the next epoch as the proposal. */
inline restart(me) {
    link[me].up = false;
    link[me].epoch = (link[me].epoch + 1) % EPOCHS;
    link[me].heard = NOTHING;
    link[me].said = NOTHING;
    link[me].said_heard = NOTHING;
    link[me].next = FIRST_NUMBER;
    link[me].expected = FIRST_NUMBER;
    link[me].heard_anything = false
}

/* The link fails, as `me` knows: its epoch is over. What A had open on it must be asked about; what B kept and was not told to commit
 * is reversed at once, so that nothing stays reserved for an A that never returns. If A had message 2, its question learns that. */
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

/* A step towards an epoch that both ends hold: the larger of the two proposals. An end enters it when it hears its own
 * proposal echoed together with the same proposal of the peer; so each knows that the other has seen it. */
inline agree(me) {
    if
    :: LATER_EPOCH(link[me].epoch, of_epoch) -> send_hello(me)      /* the peer is behind: tell it */
    :: else ->
        news = (link[me].said != of_epoch || link[me].said_heard != of_epoch);
        agreed = (echoed == of_epoch && link[me].said == of_epoch);
        link[me].epoch = of_epoch;
        link[me].heard = of_epoch;
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
    :: link[me].up && of_epoch == link[me].epoch && asks && !link[me].heard_anything -> send_hello(me)
    :: else                                                        /* a late one */
    fi
}

/* An honest end never says what the other must take for a lie. */
inline violation(me) {
#ifndef MUTANT
    assert(false);
#endif
    fail(me);
    send_hello(me)
}

/* --------------------------------------------------------------------------------------------------------------- the initiator's half */

inline tell(outcome) {
    assert(progress != FREE && told[current] == OPEN);             /* TOLD ONCE */
    told[current] = outcome;
    progress = FREE;
    commit = false
}

/* Messages 2 and 4. */
inline answered() {
    if
    :: about != sequence -> violation(A)
    :: about == sequence && kind == REFUSED && (progress == EXECUTING || progress == ASKED) -> tell(DROPPED)
    :: about == sequence && kind == REFLECTING && progress == EXECUTING -> tell(DONE)
    :: about == sequence && kind == REFLECTING && progress == ASKED ->
        progress = COMMITTING;
        send(A, COMMIT, sequence, 0)
    :: about == sequence && kind == COMMITTED && progress == COMMITTING -> tell(DONE)
    :: else -> violation(A)
    fi
}

/* The exchange in the slot has ended as `word` says. */
inline resolved() {
    asked = NOWHERE;
    if
    :: word == UNDONE -> tell(QUEUED)                              /* reversed: the right is with A again */
    :: word == EXECUTED -> tell(DONE)
    :: word == DECLINED -> tell(DROPPED)
    :: else -> violation(A)                                        /* FORGOTTEN: not among ends that keep their memory */
    fi
}

/* --------------------------------------------------------------------------------------------------------------- the responder's half */

/* Hands the transaction to B's host. */
inline execute() {
    assert(latched == sequence && told[kept] == OPEN);             /* AGREEMENT */
    delivered[kept]++
}

/* ... at message 3, or at a question that stands for it. */
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
    :: latch != KEPT && (latch == VIRGIN || LATER_SEQUENCE(about, latched)) ->
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
    :: latch == UNDONE && about == latched                         /* A asked elsewhere meanwhile and was told "undone" */
    :: else -> violation(B)
    fi
}

/* Message 3. */
inline commit_kept() {
    if
    :: latch == KEPT && about == latched ->
        execute_kept();
        send(B, COMMITTED, latched, 0)
    :: latch == EXECUTED && about == latched                     /* A had it committed elsewhere meanwhile */
    :: else -> violation(B)
    fi
}

/* A question: settles the exchange `about` for good, commits it if `word` says so, and leaves the ending in `word`. */
inline settle() {
    was = latch;
    was_latched = latched;
    if
    :: (latch == VIRGIN || LATER_SEQUENCE(about, latched)) && !word -> latch = UNDONE; latched = about
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

/* ----------------------------------------------------------------------------------------------------------------------- receiving */

/* How far ahead of the next expected one a record is. */
#ifndef ALTERNATING_BIT
#define OF_THIS_EPOCH(me) (link[me].up && of_epoch == link[me].epoch)
#define AHEAD(me) ((number + NUMBERS - link[me].expected) % NUMBERS)
#else
#define OF_THIS_EPOCH(me) link[me].up
#define AHEAD(me) 0
#endif

/* The oldest record under way to `me` arrives. Its number proves at once that one before it is lost, for a link is a FIFO queue. */
proctype receive(byte me) {
end: do
    :: atomic {
        wire[me]?kind, of_epoch, number, about, word;
        if
        :: kind == HELLO -> on_hello(me)
        :: kind != HELLO && !OF_THIS_EPOCH(me)                                          /* no effect */
        :: kind != HELLO && OF_THIS_EPOCH(me) && AHEAD(me) >= NUMBERS - 2               /* heard already: no effect */
        :: kind != HELLO && OF_THIS_EPOCH(me) && AHEAD(me) != 0 && AHEAD(me) < NUMBERS - 2 -> fail(me); send_hello(me)
        :: kind != HELLO && OF_THIS_EPOCH(me) && AHEAD(me) == 0 ->
            link[me].expected = (link[me].expected + 1) % NUMBERS;
            link[me].heard_anything = true;
            if
            :: kind == BALL
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

/* What arrives over the alternate path. A question may be late, while A has given the path up and B has not. */
proctype receive_over_alternate() {
end: do
    :: atomic { question?about, word -> settle(); verdict!about, word; check_invariants() }
    :: atomic {
        verdict?about, word;
        if
        :: asked == ALTERNATE && about == sequence -> resolved()
        :: else                                                    /* of an earlier life of the path */
        fi;
        check_invariants()
    }
    od
}

/* ----------------------------------------------------------------------------------------------------------- what A does of itself */

inline start(transaction) {
    current = transaction;
    told[current] = OPEN;
    sequence = (sequence + 1) % SEQUENCES;
    if
    :: progress = EXECUTING; send(A, REQUEST, sequence, current)
    :: progress = ASKED; send(A, TENTATIVE, sequence, current)
    fi
}

/* Starts the oldest transaction that is with A; asks about an unresolved exchange, over any path that is up, once in each life of that
 * path. Without a path A is in doubt, and waits. */
proctype initiate() {
end: do
    :: atomic { link[A].up && progress == FREE && told[0] == QUEUED -> start(0) }
    :: atomic { link[A].up && progress == FREE && told[0] != QUEUED && told[1] == QUEUED -> start(1) }
#ifndef FIRE_AND_FORGET
    :: atomic { link[A].up && progress == UNRESOLVED && asked == NOWHERE ->
                asked = MAIN; send(A, RESOLVE, sequence, commit) }
    :: atomic { alternate_up && progress == UNRESOLVED && asked == NOWHERE ->
                asked = ALTERNATE; question!sequence, commit }
#else
    :: atomic { link[A].up && progress == UNRESOLVED ->            /* said once, and taken for done */
                send(A, RESOLVE, sequence, commit); word = UNDONE; resolved(); check_invariants() }
#endif
    od
}

#ifndef HELLO_ONCE
#define MAY_REPEAT(me) true
#else
#define MAY_REPEAT(me) (link[me].said == NOTHING)
#endif

/* A ball that is in order changes nothing but the numbers. So it is left out where all is in order. */
#define BALL_MATTERS(me) (empty(wire[PEER(me)]) && link[PEER(me)].up && link[me].epoch == link[PEER(me)].epoch && \
                          link[me].next != link[PEER(me)].expected)

/* The pace of an end, the only thing that it knows of time: it repeats the handshake, and bounces the ball of a link that is up. */
proctype pace(byte me) {
end: do
    :: atomic { !link[me].up && MAY_REPEAT(me) && empty(wire[PEER(me)]) && len(wire[me]) <= 1 -> send_hello(me) }
    :: atomic { link[me].up && !cut[PEER(me)] && BALL_MATTERS(me) -> send(me, BALL, 0, 0) }
    od
}

/* ------------------------------------------------------------------------------------------------------------------------ what fails */

byte losses, cuts, alternate_cuts;

/* What a cut cable loses is not counted. */
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

/* Nothing is left to happen: then nothing is left open. (A run that ends goes on here for ever, which is how the liveness check
 * sees it.) */
#define RESOLVED_ALL (told[0] >= DONE && told[1] >= DONE)
proctype rest() {
end: do
#ifndef ALTERNATING_BIT
    :: timeout -> assert(RESOLVED_ALL)
#else
    :: timeout                                                     /* without numbers no loss is seen */
#endif
    od
}

init {
    atomic {
        link[A].epoch = FIRST_EPOCH - 1; restart(A);
        link[B].epoch = FIRST_EPOCH - 1; restart(B);
        run receive(A); run receive(B); run receive_over_alternate(); run initiate(); run pace(A); run pace(B);
        run faults(); run repair(); run rest()
    }
}

/* Every fair run ends resolved. Fair: what stays possible for a process is done at some time; so cut paths return. */
ltl every_run_ends_resolved { <> [] RESOLVED_ALL }
