// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A counter on one node, incremented by another.
//
//   counter host SOCKET            registers the region "c-counter", waits until stdin closes, and
//                                  prints the counter
//   counter client SOCKET NODE N   adds 1 to it N times, 16 at a time. Then takes and releases a
//                                  lock, and commits two words atomically.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "covalent.h"

#define COUNTER_OFFSET 0
#define LOCK_OFFSET 8
#define PAIR_OFFSET 16
#define REGION_BYTES 64
#define AT_A_TIME 16

static const int64_t SECOND_NS = 1000000000;

// Exits with the library's error message if a call failed.
static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "counter: %s: %s: %s\n", what, covalent_status_name(status), covalent_last_error());
        exit(2);
    }
}

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "counter: check failed: %s\n", what);
        exit(1);
    }
}

// ANCHOR: host
static int host(const char *socket_path) {
    covalent_device device;
    check(covalent_device_attach(socket_path, "counter host", 0, &device), "attach");
    covalent_region region;
    const uint32_t rights = COVALENT_RIGHT_READ | COVALENT_RIGHT_WRITE | COVALENT_RIGHT_ATOMIC;
    check(covalent_region_register(device, "c-counter", REGION_BYTES, rights, &region), "register");
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    uint64_t counter = 0;
    check(covalent_region_load(region, COUNTER_OFFSET, &counter), "load");
    printf("%" PRIu64 "\n", counter);
    check(covalent_region_close(region), "close the region");
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: host

// ANCHOR: take
// Takes up to AT_A_TIME completions, after a wait if none is there. Returns the number of final
// ones.
static uint64_t take(covalent_verb_queue queue, char *seen, uint64_t count) {
    covalent_completion completions[AT_A_TIME];
    size_t taken = 0;
    uint64_t final = 0;
    check(covalent_verb_queue_poll(queue, 20 * SECOND_NS, completions, AT_A_TIME, &taken), "poll");
    for (size_t i = 0; i < taken; i++) {
        const covalent_completion *completion = &completions[i];
        if (completion->outcome == COVALENT_OUTCOME_IN_DOUBT) {
            continue; // the final completion follows
        }
        expect(completion->outcome == COVALENT_OUTCOME_OLD, "an addition returns the old value of the counter");
        expect(completion->user_data < count && !seen[completion->user_data], "each completion arrives once");
        seen[completion->user_data] = 1;
        final++;
    }
    return final;
}
// ANCHOR_END: take

// ANCHOR: client
static int client(const char *socket_path, const char *node, uint64_t count) {
    covalent_device device;
    check(covalent_device_attach(socket_path, "counter client", 0, &device), "attach");
    covalent_verb_queue queue;
    check(covalent_verb_queue_open(device, AT_A_TIME, &queue), "open the queue");
    covalent_remote_region region;
    check(covalent_verb_queue_open_region(queue, node, "c-counter", 20 * SECOND_NS, &region), "open the region");

// ANCHOR_END: client
    // ANCHOR: post
    // Asynchronous: as many verbs as the queue accepts.
    covalent_verb add = {.struct_bytes = sizeof add, .kind = COVALENT_FETCH_ADD, .offset_bytes = COUNTER_OFFSET, .operand = 1};
    char *seen = calloc(count, 1);
    expect(seen != NULL, "there is memory");
    uint64_t posted = 0;
    uint64_t ended = 0;
    while (ended < count) {
        while (posted < count) {
            int status = covalent_verb_queue_post(queue, &region, &add, COVALENT_TWO_PHASE, posted, NULL);
            if (status == COVALENT_FULL) {
                break;
            }
            check(status, "post");
            posted++;
        }
        ended += take(queue, seen, count);
    }
    // ANCHOR_END: post
    free(seen);

    // ANCHOR: words
    // Blocking: a lock, held during the commit of a pair of words.
    uint64_t found = 0;
    int status = covalent_compare_and_swap(queue, &region, LOCK_OFFSET, 0, 77, 20 * SECOND_NS, &found);
    check(status, "take the lock");
    expect(status == COVALENT_OK && found == 0, "the lock was free");
    status = covalent_compare_and_swap(queue, &region, LOCK_OFFSET, 0, 78, 20 * SECOND_NS, &found);
    check(status, "take the lock again");
    expect(status == COVALENT_MISMATCH && found == 77, "a held lock is not taken");
    const covalent_commit_word pair[2] = {
        {.offset_bytes = PAIR_OFFSET, .expected = 0, .desired = 5},
        {.offset_bytes = PAIR_OFFSET + 8, .expected = 0, .desired = 6},
    };
    check(covalent_multi_commit(queue, &region, pair, 2, 20 * SECOND_NS, NULL, NULL), "commit");
    uint32_t index = 9;
    status = covalent_multi_commit(queue, &region, pair, 2, 20 * SECOND_NS, &index, &found);
    expect(status == COVALENT_MISMATCH && index == 0 && found == 5, "a late commit changes nothing");
    uint8_t bytes[16];
    check(covalent_read(queue, &region, PAIR_OFFSET, bytes, sizeof bytes, 20 * SECOND_NS), "read");
    expect(bytes[0] == 5 && bytes[8] == 6, "both words are there");
    memset(bytes, 0, sizeof bytes);
    check(covalent_write(queue, &region, PAIR_OFFSET, bytes, sizeof bytes, 20 * SECOND_NS), "write");
    check(covalent_swap(queue, &region, LOCK_OFFSET, 0, 20 * SECOND_NS, &found), "give the lock back");
    expect(found == 77, "it was held until now");

    // ANCHOR_END: words
    status = covalent_fetch_add(queue, &region, REGION_BYTES, 1, 20 * SECOND_NS, &found);
    expect(status == COVALENT_VERB_REFUSED, "beyond the end nothing is added");
    printf("%" PRIu64 "\n", ended);
    check(covalent_verb_queue_close(queue), "close the queue");
    check(covalent_device_close(device), "close the device");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "host") == 0) {
        return host(argv[2]);
    }
    if (argc == 5 && strcmp(argv[1], "client") == 0) {
        return client(argv[2], argv[3], strtoull(argv[4], NULL, 10));
    }
    fprintf(stderr, "usage: counter host SOCKET | counter client SOCKET NODE N\n");
    return 2;
}
