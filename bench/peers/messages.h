/* What a library that carries messages between two processes of one host is to the benchmarks: the same few calls for each.
 *
 * All calls of one messenger come from one thread. Messages arrive in the order in which they were sent. Nothing here waits. Libraries
 * move messages only while they are called: `receive` lets them work if nothing is there, `work` does in any case.
 */
#ifndef COVALENT_BENCH_MESSAGES_H
#define COVALENT_BENCH_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

/* One end of a connection. What it is differs by library. */
struct messenger;

/* Longest address of an end, in bytes. */
#define ADDRESS_BYTES_MAX 2048

struct message_library {
    /* Writes the version that the library tells of itself into `text`, a string of at most `room` bytes. */
    void (*version)(char *text, size_t room);

    /* Opens an end whose messages have at most `bytes_max` bytes, with `depth` of them under way each way. `name` is for shared memory
     * that has a name. NULL: `problem` says why, in at most `room` bytes. */
    struct messenger *(*open)(const char *name, size_t bytes_max, size_t depth, char *problem, size_t room);

    /* Writes this end's address into `address` and returns its bytes; 0: it has none that fits into `room` bytes. */
    size_t (*address)(struct messenger *messenger, void *address, size_t room);

    /* Names the other end. 0: done; else `problem` says why not. */
    int (*connect)(struct messenger *messenger, const void *address, size_t bytes);

    /* Sends `length` bytes. 1: taken; they stay as they are until `sent` has counted this message. 0: no room now. -1: see `problem`. */
    int (*send)(struct messenger *messenger, const void *bytes, size_t length);

    /* How many messages, counted in their order, need their bytes no longer. */
    uint64_t (*sent)(struct messenger *messenger);

    /* The next message that has come. 1: it lies at `*bytes` until the next call of `receive`; 0: there is none; -1: see `problem`. */
    int (*receive)(struct messenger *messenger, void **bytes, size_t *length);

    /* Lets the library work a little. 0: done; -1: see `problem`. */
    int (*work)(struct messenger *messenger);

    /* Sends the message that `receive` gave last back to where it came from, from where it lies. As `send`; after 1 nobody may touch
     * it. It counts in `sent` too. */
    int (*answer)(struct messenger *messenger);

    /* Why the last call failed. */
    const char *(*problem)(struct messenger *messenger);

    /* Ends it; what is under way is dropped. */
    void (*close)(struct messenger *messenger);
};

extern const struct message_library covalent_bench_ucx;
extern const struct message_library covalent_bench_libfabric;

#endif
