// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Lines of text, sent as messages from one node to another.
//
//   messages recv SOCKET N      registers the receive queue "c-messages", receives N messages and
//                               prints them
//   messages send SOCKET NODE   sends each line of standard input to that queue, and prints how
//                               often it was full

#define _POSIX_C_SOURCE 200809L // for nanosleep

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "covalent.h"

// A small queue that senders can fill: four messages of a hundred bytes.
#define QUEUE_BYTES 544

static const int64_t SECOND_NS = 1000000000;

// Exits with the library's error message if a call failed.
static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "messages: %s: %s: %s\n", what, covalent_status_name(status), covalent_last_error());
        exit(2);
    }
}

// ANCHOR: receive
static int receive(const char *socket_path, uint64_t count) {
    covalent_device device;
    check(covalent_device_attach(socket_path, "messages recv", 0, &device), "attach");
    covalent_receive_queue queue;
    check(covalent_receive_queue_open(device, "c-messages", QUEUE_BYTES, &queue), "open the queue");
    puts("ready");
    fflush(stdout);
    for (uint64_t taken = 0; taken < count; taken++) {
        covalent_received message;
        check(covalent_receive_queue_recv(queue, 20 * SECOND_NS, &message), "receive");
        // The bytes are valid until the queue's next call.
        fwrite(message.data, 1, message.length_bytes, stdout);
        putchar('\n');
    }
    check(covalent_receive_queue_close(queue), "close the queue");
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: receive

// ANCHOR: send
static int transmit(const char *socket_path, const char *node) {
    covalent_device device;
    check(covalent_device_attach(socket_path, "messages send", 0, &device), "attach");
    covalent_verb_queue verbs;
    check(covalent_verb_queue_open(device, 16, &verbs), "open the verb queue");
    covalent_remote_region queue;
    check(covalent_verb_queue_open_region(verbs, node, "c-messages", 20 * SECOND_NS, &queue), "open the queue");
    char line[COVALENT_MESSAGE_BYTES_MAX + 2];
    uint64_t full = 0;
    while (fgets(line, sizeof line, stdin) != NULL) {
        const size_t length = strcspn(line, "\n");
        if (length == 0) {
            continue; // messages cannot be empty
        }
        for (;;) {
            const int status = covalent_send(verbs, &queue, (const uint8_t *)line, (uint32_t)length, 20 * SECOND_NS);
            if (status != COVALENT_FULL) {
                check(status, "send"); // on success the message is in the queue
                break;
            }
            // The queue is full and nothing was sent: retry the same line.
            full++;
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    }
    printf("%" PRIu64 "\n", full);
    check(covalent_verb_queue_close(verbs), "close the verb queue");
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: send

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "recv") == 0) {
        return receive(argv[2], strtoull(argv[3], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "send") == 0) {
        return transmit(argv[2], argv[3]);
    }
    fprintf(stderr, "usage: messages recv SOCKET N | messages send SOCKET NODE\n");
    return 2;
}
