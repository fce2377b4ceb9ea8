// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// One event loop for messages, completions and a timer.
//
//   events SOCKET NODE REGION N    receives N messages in the queue "c-messages". Meanwhile it adds
//                                  1 to the first word of a region of NODE every 10 ms, once the
//                                  region is there.

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "covalent.h"

#define QUEUE_BYTES 65536
#define PERIOD_NS 10000000

// Exits with the library's error message if a call failed.
static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "events: %s: %s: %s\n", what, covalent_status_name(status), covalent_last_error());
        exit(2);
    }
}

static void check_system(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(2);
    }
}

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    check_system(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

// User data of the verbs.
enum { LOOKUP, ADDITION };

// ANCHOR: open
// A region of another node that is opened by an event loop: no call waits for that node.
struct opening {
    const char *node, *name;
    covalent_remote_region region;
    int is_open, in_flight;
};

// Posts a lookup, unless one is in flight or the region is open. Call it at each tick. Returns the
// number of verbs posted.
static int look(struct opening *opening, covalent_device device, covalent_verb_queue verbs) {
    int has_room;
    check(covalent_verb_queue_has_room(verbs, &has_room), "look for room");
    if (opening->is_open || opening->in_flight || !has_room)
        return 0;
    uint64_t node_guid;
    int status = covalent_device_find_node(device, opening->node, &node_guid);
    if (status == COVALENT_NO_SUCH_NODE)
        return 0; // the daemon does not know the node yet: the next tick asks again
    check(status, "find the node");
    check(covalent_verb_queue_post_lookup(verbs, node_guid, opening->name, LOOKUP, NULL), "post the lookup");
    opening->in_flight = 1;
    return 1;
}

// Takes a completion of the lookup.
static void looked_up(struct opening *opening, const covalent_completion *completion) {
    if (completion->outcome == COVALENT_OUTCOME_IN_DOUBT)
        return; // another completion follows
    // Refused as COVALENT_REFUSAL_UNKNOWN_REGION: it is not registered yet. The next tick looks
    // again, after any other outcome too, because a lookup changes nothing.
    opening->in_flight = 0;
    if (completion->outcome == COVALENT_OUTCOME_REGION) {
        check(covalent_completion_region(completion, &opening->region), "take the region");
        opening->is_open = 1;
    }
}
// ANCHOR_END: open

// ANCHOR: loop
static void serve(const char *socket_path, const char *node, const char *name, uint64_t count) {
    covalent_device device;
    check(covalent_device_attach(socket_path, "events", 0, &device), "attach");
    covalent_receive_queue queue;
    check(covalent_receive_queue_open(device, "c-messages", QUEUE_BYTES, &queue), "open the receive queue");
    covalent_verb_queue verbs;
    check(covalent_verb_queue_open(device, 16, &verbs), "open the verb queue");
    struct opening words = {.node = node, .name = name};
    int device_fd;
    check(covalent_device_fd(device, &device_fd), "get the descriptor");
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), epoll = epoll_create1(0);
    check_system(timer, "timerfd_create");
    check_system(epoll, "epoll_create1");
    struct itimerspec period = {.it_interval = {.tv_nsec = PERIOD_NS}, .it_value = {.tv_nsec = PERIOD_NS}};
    check_system(timerfd_settime(timer, 0, &period, NULL), "timerfd_settime");
    watch(epoll, device_fd);
    watch(epoll, timer);
    puts("ready");
    fflush(stdout);
    uint64_t messages = 0, additions = 0, posted = 0, ended = 0, turns = 0;
    for (;;) {
        turns++;
        // First announce the sleep, then take everything: nothing can arrive unnoticed between.
        check(covalent_device_arm(device), "arm");
        covalent_received message;
        do {
            check(covalent_receive_queue_recv(queue, 0, &message), "receive");
            messages += message.data != NULL;
        } while (message.data != NULL);
        covalent_completion completion;
        for (;;) {
            size_t taken;
            check(covalent_verb_queue_poll(verbs, 0, &completion, 1, &taken), "poll");
            if (taken == 0)
                break;
            if (completion.user_data == LOOKUP)
                looked_up(&words, &completion);
            additions += completion.outcome == COVALENT_OUTCOME_OLD;
            // A verb in doubt has another completion later.
            ended += completion.outcome != COVALENT_OUTCOME_IN_DOUBT;
        }
        if (messages >= count && ended == posted)
            break;
        struct epoll_event event;
        check_system(epoll_wait(epoll, &event, 1, -1), "epoll_wait");
        uint64_t expirations;
        if (event.data.fd != timer || read(timer, &expirations, sizeof expirations) <= 0)
            continue;
        posted += look(&words, device, verbs);
        // Without room the node is far behind: this tick adds nothing.
        int has_room;
        check(covalent_verb_queue_has_room(verbs, &has_room), "look for room");
        if (words.is_open && has_room) {
            covalent_verb add = {.struct_bytes = sizeof add, .kind = COVALENT_FETCH_ADD, .operand = 1};
            check(covalent_verb_queue_post(verbs, &words.region, &add, COVALENT_TWO_PHASE, ADDITION, NULL), "post");
            posted++;
        }
    }
    printf("%" PRIu64 " messages, %" PRIu64 " additions, %" PRIu64 " turns\n", messages, additions, turns);
    check(covalent_device_close(device), "close the device");
}
// ANCHOR_END: loop

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: events SOCKET NODE REGION N\n");
        return 2;
    }
    serve(argv[1], argv[2], argv[3], strtoull(argv[4], NULL, 10));
    return 0;
}
