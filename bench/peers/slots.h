/* The bookkeeping that both libraries need: a ring of buffers in which messages arrive, and a ring of messages that are being sent.
 *
 * A buffer is posted, then arrived, then lent; it is posted again once its reader is done with it and, if it was sent back, once that has ended.
 * All three follow each other in the order of the ring.
 */
#ifndef COVALENT_BENCH_SLOTS_H
#define COVALENT_BENCH_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "messages.h"

enum { LINE_BYTES = 64 };

/* A buffer for a message that arrives. */
struct incoming {
    void *bytes;
    size_t length;
    bool arrived;
    /* It arrived, and not whole. */
    bool failed;
    /* The number of the answer that is sent from it, counted from 1; 0: none. */
    uint64_t answer;
};

/* A message that is being sent. */
struct outgoing {
    bool done;
};

struct slots {
    size_t depth;
    size_t bytes_max;
    struct incoming *incoming;
    struct outgoing *outgoing;
    char *memory;
    /* Counted since the beginning: buffers posted, and given to the reader. */
    uint64_t posted, lent;
    /* Messages handed over, and those of them, in their order, that are done. */
    uint64_t begun, done;
};

static inline bool slots_open(struct slots *slots, size_t bytes_max, size_t depth)
{
    size_t stride = (bytes_max + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;

    slots->depth = depth;
    slots->bytes_max = bytes_max;
    slots->incoming = calloc(depth, sizeof(*slots->incoming));
    slots->outgoing = calloc(depth, sizeof(*slots->outgoing));
    slots->memory = aligned_alloc(4096, (stride * depth + 4095) / 4096 * 4096);
    if (slots->incoming == NULL || slots->outgoing == NULL || slots->memory == NULL)
        return false;
    for (size_t at = 0; at < depth; at++)
        slots->incoming[at].bytes = slots->memory + at * stride;
    return true;
}

static inline void slots_close(struct slots *slots)
{
    free(slots->incoming);
    free(slots->outgoing);
    free(slots->memory);
}

/* Counts what has been sent, in order. */
static inline uint64_t slots_sent(struct slots *slots)
{
    while (slots->done < slots->begun && slots->outgoing[slots->done % slots->depth].done)
        slots->done++;
    return slots->done;
}

/* The slot of the next message to send, and NULL while all are taken. It counts as begun when `slots_begin` says so. */
static inline struct outgoing *slots_next_outgoing(struct slots *slots)
{
    if (slots->begun - slots_sent(slots) == slots->depth)
        return NULL;
    struct outgoing *next = &slots->outgoing[slots->begun % slots->depth];
    next->done = false;
    return next;
}

/* The buffer that can be posted again, or NULL. */
static inline struct incoming *slots_next_free(struct slots *slots)
{
    uint64_t oldest = slots->posted - slots->depth;
    struct incoming *next = &slots->incoming[slots->posted % slots->depth];

    if (slots->posted < slots->depth)
        return next;
    if (oldest >= slots->lent)
        return NULL;
    if (next->answer > slots_sent(slots))
        return NULL;
    return next;
}

/* Before it is posted again. */
static inline void slots_renew(struct incoming *slot)
{
    slot->arrived = false;
    slot->failed = false;
    slot->answer = 0;
}

/* The next message for the reader, or NULL. */
static inline struct incoming *slots_next_arrived(struct slots *slots)
{
    if (slots->lent == slots->posted)
        return NULL;
    struct incoming *next = &slots->incoming[slots->lent % slots->depth];
    return next->arrived ? next : NULL;
}

/* Gives the reader the next message: what `receive` returns. */
static inline int slots_lend(struct slots *slots, void **bytes, size_t *length, char *problem, size_t room)
{
    struct incoming *next = slots_next_arrived(slots);

    if (next == NULL)
        return 0;
    if (next->failed) {
        snprintf(problem, room, "a message did not arrive whole");
        return -1;
    }
    slots->lent++;
    *bytes = next->bytes;
    *length = next->length;
    return 1;
}

/* The message that the reader has. */
static inline struct incoming *slots_lent(struct slots *slots)
{
    return slots->lent == 0 ? NULL : &slots->incoming[(slots->lent - 1) % slots->depth];
}

#endif
