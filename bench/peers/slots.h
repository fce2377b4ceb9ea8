/*
 * Bookkeeping shared by both libraries: a ring of receive buffers, and a ring of messages being
 * sent.
 *
 * A buffer is posted, then arrived, then lent. It is posted again when its reader no longer needs
 * it and, if it was sent back, when that send has completed. All steps follow the order of the
 * ring.
 */
#ifndef COVALENT_BENCH_SLOTS_H
#define COVALENT_BENCH_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "messages.h"

enum { LINE_BYTES = 64 };

/* A receive buffer. */
struct incoming {
    void *bytes;
    size_t length;
    bool arrived;
    /* The message arrived incomplete. */
    bool failed;
    /* Number of the reply that is sent from this buffer, from 1; 0: none. */
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
    /* Total buffers posted, and lent to the reader. */
    uint64_t posted, lent;
    /* Messages passed to the library, and how many of them, in order, are done. */
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

/* Counts completed sends, in order. */
static inline uint64_t slots_sent(struct slots *slots)
{
    while (slots->done < slots->begun && slots->outgoing[slots->done % slots->depth].done)
        slots->done++;
    return slots->done;
}

/* Slot of the next message to send; NULL if all are in use. The caller increments `begun`. */
static inline struct outgoing *slots_next_outgoing(struct slots *slots)
{
    if (slots->begun - slots_sent(slots) == slots->depth)
        return NULL;
    struct outgoing *next = &slots->outgoing[slots->begun % slots->depth];
    next->done = false;
    return next;
}

/* The next buffer that can be posted, or NULL. */
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

/* Resets a buffer before it is posted again. */
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

/* Lends the next message to the reader. Returns like `receive`. */
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

/* The message that the reader holds, or NULL. */
static inline struct incoming *slots_lent(struct slots *slots)
{
    return slots->lent == 0 ? NULL : &slots->incoming[(slots->lent - 1) % slots->depth];
}

#endif
