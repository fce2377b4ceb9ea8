// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A chat room: all members print the same lines in the same order, including lines from before they
// joined.
//
//   chat SOCKET FOUNDERS   joins the group "c-chat", or founds it with FOUNDERS others (0: only
//                          joins). Multicasts each line of standard input, prints the lines of all
//                          members, and leaves at the end of the input.

#define _POSIX_C_SOURCE 200809L // for poll

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "covalent.h"

// The application's state: all lines of the room.
static uint8_t *room;
static size_t room_bytes;

// The state transfer in progress. One at a time is enough: another new member requests it again.
static uint8_t *given;
static size_t given_bytes, given_done;
static uint64_t given_to;

// Exits with the library's error message if a call failed.
static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "chat: %s: %s: %s\n", what, covalent_status_name(status), covalent_last_error());
        exit(2);
    }
}

// Copies the bytes of an event, which are valid only until the next event.
static void print_message(const uint8_t *data, size_t length) {
    if (length == 0) {
        return;
    }
    uint8_t *longer = realloc(room, room_bytes + length);
    if (longer == NULL) {
        fprintf(stderr, "chat: no memory for %zu bytes\n", room_bytes + length);
        exit(2);
    }
    room = longer;
    memcpy(room + room_bytes, data, length);
    room_bytes += length;
    fwrite(data, 1, length, stdout);
    fflush(stdout);
}

static void begin_to_give(uint64_t to) {
    free(given);
    given = malloc(room_bytes + 1);
    if (given == NULL) {
        fprintf(stderr, "chat: no memory for %zu bytes\n", room_bytes);
        exit(2);
    }
    if (room_bytes > 0) {
        memcpy(given, room, room_bytes);
    }
    given_bytes = room_bytes;
    given_done = 0;
    given_to = to;
}

// ANCHOR: give
// Sends as many parts of the state as there is room for now.
static void go_on_giving(covalent_group group) {
    while (given != NULL) {
        size_t length = given_bytes - given_done;
        const bool last = length <= COVALENT_STATE_BYTES_MAX;
        if (!last) {
            length = COVALENT_STATE_BYTES_MAX;
        }
        const int status = covalent_group_send_snapshot(group, given_to, given + given_done, length, last);
        if (status == COVALENT_FULL) {
            return;
        }
        if (status != COVALENT_STOPPED) { // else no member waits for it any more
            check(status, "give the state");
        }
        given_done += length;
        if (last || status == COVALENT_STOPPED) {
            free(given);
            given = NULL;
        }
    }
}
// ANCHOR_END: give

// Reads the available standard input and multicasts its complete lines. False at the end.
static bool multicast_line(covalent_group group) {
    static char line[1024];
    static size_t length;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        char *end = memchr(line, '\n', length);
        if (end == NULL && length == sizeof line) {
            end = line + length - 1; // split a longer line
        }
        if (end != NULL) {
            const size_t bytes = (size_t)(end - line) + 1;
            const int status = covalent_group_multicast(group, (const uint8_t *)line, bytes, NULL);
            if (status == COVALENT_FULL) {
                return true; // retry after the next event; the line stays buffered
            }
            check(status, "multicast");
            length -= bytes;
            memmove(line, end + 1, length);
            continue;
        }
        if (poll(&input, 1, 0) <= 0) {
            return true;
        }
        const ssize_t got = read(STDIN_FILENO, line + length, sizeof line - length);
        if (got <= 0) {
            return false;
        }
        length += (size_t)got;
    }
}

// ANCHOR: chat
int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: chat SOCKET FOUNDERS\n");
        return 2;
    }
    covalent_device device;
    check(covalent_device_attach(argv[1], "chat", 0, &device), "attach");
    covalent_group_options options = {.struct_bytes = sizeof options, .founders = (uint8_t)strtoul(argv[2], NULL, 10)};
    covalent_group group;
    check(covalent_group_join(device, "c-chat", &options, &group), "join");
    bool is_in = false, leaves = false;
    for (;;) {
        if (is_in && !leaves && !multicast_line(group)) {
            check(covalent_group_leave(group), "leave");
            leaves = true;
        }
        go_on_giving(group);
        covalent_group_event event = {.struct_bytes = sizeof event};
        const int status = covalent_group_next(group, 5000000, &event);
        if (status == COVALENT_DEADLINE) {
            continue; // check standard input again
        }
        check(status, "take an event");
        // ANCHOR: events
        switch (event.kind) {
        case COVALENT_GROUP_VIEW: {
            size_t members;
            check(covalent_group_read_view(group, NULL, NULL, 0, &members), "ask for the members");
            printf("# view %" PRIu64 ": %zu members\n", event.view, members);
            fflush(stdout);
            is_in = true;
            break;
        }
        case COVALENT_GROUP_DELIVERED:
        case COVALENT_GROUP_STATE:
            print_message(event.data, event.length_bytes);
            break;
        case COVALENT_GROUP_STATE_WANTED:
            begin_to_give(event.sender_incarnation);
            break;
        case COVALENT_GROUP_STATE_VOID:
            room_bytes = 0;
            break;
        case COVALENT_GROUP_STOPPED:
            if (event.why != COVALENT_STOP_MINORITY) {
                // The other members continued without this one: take their state.
                room_bytes = 0;
                check(covalent_group_rejoin(group), "join again");
                is_in = false;
            }
            break;
        case COVALENT_GROUP_LEFT:
            check(covalent_group_close(group), "close the group");
            check(covalent_device_close(device), "close the device");
            free(room);
            return 0;
        default:
            break;
        }
        // ANCHOR_END: events
    }
}
// ANCHOR_END: chat
