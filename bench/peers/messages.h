/*
 * Common interface of the benchmarks to libraries that carry messages between two processes of one
 * host.
 *
 * One thread makes all calls of a messenger. Messages arrive in the order of sending. No call
 * blocks. A library makes progress only inside calls: `work` always drives it, `receive` only if no
 * message is available.
 */
#ifndef COVALENT_BENCH_MESSAGES_H
#define COVALENT_BENCH_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

/* One end of a connection. Each library defines its own. */
struct messenger;

/* Longest address of an end, in bytes. */
#define ADDRESS_BYTES_MAX 2048

struct message_library {
    /* Writes the version that the library reports to `text`, at most `room` bytes. */
    void (*version)(char *text, size_t room);

    /*
     * Opens an end for messages of at most `bytes_max` bytes, `depth` of them in flight in each
     * direction. `name` names the shared memory, if it has a name. On failure returns NULL and
     * writes the reason to `problem`, at most `room` bytes.
     */
    struct messenger *(*open)(const char *name, size_t bytes_max, size_t depth, char *problem, size_t room);

    /* Writes this end's address to `address` and returns its length; 0: it exceeds `room` bytes. */
    size_t (*address)(struct messenger *messenger, void *address, size_t room);

    /* Sets the address of the other end. 0: done; otherwise see `problem`. */
    int (*connect)(struct messenger *messenger, const void *address, size_t bytes);

    /*
     * Sends `length` bytes. 1: accepted; the caller must not modify them until `sent` has counted
     * this message. 0: no room now. -1: see `problem`.
     */
    int (*send)(struct messenger *messenger, const void *bytes, size_t length);

    /* Number of messages, in order, whose bytes are no longer needed. */
    uint64_t (*sent)(struct messenger *messenger);

    /*
     * Returns the next received message. 1: it is valid at `*bytes` until the next call of
     * `receive`. 0: none. -1: see `problem`.
     */
    int (*receive)(struct messenger *messenger, void **bytes, size_t *length);

    /* Drives the library. 0: done; -1: see `problem`. */
    int (*work)(struct messenger *messenger);

    /*
     * Sends the last message of `receive` back to its sender without a copy. Returns like `send`.
     * After 1 the caller must not access the message. `sent` counts it too.
     */
    int (*answer)(struct messenger *messenger);

    /* Reason of the last failure. */
    const char *(*problem)(struct messenger *messenger);

    /* Closes it. Messages in flight are dropped. */
    void (*close)(struct messenger *messenger);
};

extern const struct message_library covalent_bench_ucx;
extern const struct message_library covalent_bench_libfabric;

#endif
