// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Frames sent and echoed.
//
//   ping echo SOCKET PORT N              sends N frames of EtherType 0x88b6 back, without a copy
//   ping loop SOCKET PORT NODE REGION    the same in an event loop, until SIGTERM. It adds the
//                                        number of frames to the first word of a region of NODE.
//   ping send SOCKET PORT N              sends N frames, 32 at a time, and checks the returned
//                                        frames

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "covalent.h"

// ANCHOR: ours
#define PIPE_BYTES (1024 * 1024)
#define FRAME_BYTES 100
#define AT_A_TIME 32

static const int64_t SECOND_NS = 1000000000;

static const covalent_match OURS = {.struct_bytes = sizeof OURS, .kind = COVALENT_MATCH_ETHERTYPE, .ethertype = 0x88b6};

static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "ping: %s: %s: %s\n", what, covalent_status_name(status), covalent_last_error());
        exit(2);
    }
}

static void expect(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "ping: check failed: %s\n", what);
        exit(1);
    }
}
// ANCHOR_END: ours

// ANCHOR: echo
// Opens a pipe that receives our frames and sends them back, on a device of its own.
static covalent_pipe open_echo(const char *socket_path, const char *port, covalent_device *device) {
    check(covalent_device_attach_for_port(socket_path, "ping", port, device), "attach");
    covalent_pipe pipe;
    check(covalent_pipe_open(*device, COVALENT_PIPE_RX_TX, PIPE_BYTES, port, &pipe), "open");
    check(covalent_pipe_bind(pipe, &OURS), "bind");
    puts("ready");
    fflush(stdout);
    return pipe;
}

static int echo(const char *socket_path, const char *port, unsigned long count) {
    covalent_device device;
    const covalent_pipe pipe = open_echo(socket_path, port, &device);
    for (unsigned long seen = 0; seen < count;) {
        covalent_packet_mut packets[AT_A_TIME];
        size_t received = 0;
        check(covalent_pipe_recv_mut(pipe, 20 * SECOND_NS, packets, AT_A_TIME, &received), "receive");
        for (size_t i = 0; i < received; i++) {
            // Other programs may send frames of this type, too.
            if (packets[i].length_bytes == FRAME_BYTES)
                packets[i].data[FRAME_BYTES - 1] ^= 0xff;
        }
        check(covalent_pipe_send_received(pipe), "send back");
        seen += received;
    }
    // A frame that the port does not have when the pipe closes may be lost.
    check(covalent_pipe_flush(pipe, 20 * SECOND_NS), "flush");
    check(covalent_pipe_close(pipe), "close the pipe");
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: echo

// ANCHOR: loop
static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    expect(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "watch a descriptor");
}

// Sends frames back until SIGTERM, and counts them in the first word of a region of another node.
static int echo_in_a_loop(const char *socket_path, const char *port, const char *node, const char *name) {
    // Blocked, the signal no longer ends the program: it makes the descriptor readable.
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    expect(sigprocmask(SIG_BLOCK, &terminate, NULL) == 0, "block SIGTERM");
    const int signals = signalfd(-1, &terminate, SFD_NONBLOCK), epoll = epoll_create1(0);
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    const struct timespec tick = {.tv_nsec = 10000000};
    const struct itimerspec period = {.it_interval = tick, .it_value = tick};
    expect(timerfd_settime(timer, 0, &period, NULL) == 0, "set the timer");
    covalent_device device;
    const covalent_pipe pipe = open_echo(socket_path, port, &device);
    covalent_verb_queue verbs;
    check(covalent_verb_queue_open(device, 16, &verbs), "open the verb queue");
    covalent_remote_region counter;
    check(covalent_verb_queue_open_region(verbs, node, name, -1, &counter), "open the region");
    int device_fd;
    check(covalent_device_fd(device, &device_fd), "get the descriptor");
    watch(epoll, device_fd);
    watch(epoll, timer);
    watch(epoll, signals);
    uint64_t echoed = 0, counted = 0;
    for (int is_ending = 0;;) {
        check(covalent_device_arm(device), "arm");
        covalent_packet_mut packets[AT_A_TIME];
        size_t received;
        do {
            check(covalent_pipe_recv_mut(pipe, 0, packets, AT_A_TIME, &received), "receive");
            for (size_t i = 0; i < received; i++) {
                if (packets[i].length_bytes == FRAME_BYTES)
                    packets[i].data[FRAME_BYTES - 1] ^= 0xff;
            }
            check(covalent_pipe_send_received(pipe), "send back"); // otherwise received again
            echoed += received;
        } while (received > 0);
        covalent_completion completion;
        size_t taken, outstanding;
        do {
            check(covalent_verb_queue_poll(verbs, 0, &completion, 1, &taken), "poll");
            // Another completion follows one in doubt.
            if (taken > 0 && completion.outcome != COVALENT_OUTCOME_IN_DOUBT)
                expect(completion.outcome == COVALENT_OUTCOME_OLD, "frames are counted");
        } while (taken > 0);
        check(covalent_verb_queue_outstanding(verbs, &outstanding), "ask for verbs in flight");
        if (is_ending && counted == echoed && outstanding == 0) {
            // The pipe is closed only when the port has all frames.
            const int status = covalent_pipe_flush(pipe, 0);
            if (status == COVALENT_OK)
                break;
            if (status != COVALENT_DEADLINE)
                check(status, "flush");
        }
        struct epoll_event event;
        expect(epoll_wait(epoll, &event, 1, -1) == 1, "wait");
        uint64_t expirations;
        struct signalfd_siginfo signal;
        int has_room;
        check(covalent_verb_queue_has_room(verbs, &has_room), "look for room");
        if (read(timer, &expirations, sizeof expirations) > 0 && echoed > counted && has_room) {
            const uint64_t delta = echoed - counted;
            const covalent_verb add = {.struct_bytes = sizeof add, .kind = COVALENT_FETCH_ADD, .operand = delta};
            check(covalent_verb_queue_post(verbs, &counter, &add, COVALENT_TWO_PHASE, 0, NULL), "post");
            counted = echoed;
        }
        if (read(signals, &signal, sizeof signal) > 0) {
            // No more frames arrive. The next turn takes those that are in the pipe.
            check(covalent_pipe_unbind(pipe, &OURS), "unbind");
            is_ending = 1;
        }
    }
    printf("%" PRIu64 "\n", echoed);
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: loop

// ANCHOR: send
static int send_all(const char *socket_path, const char *port, unsigned long count) {
    covalent_device device;
    check(covalent_device_attach_for_port(socket_path, "ping", port, &device), "attach");
    covalent_pipe rx;
    check(covalent_pipe_open(device, COVALENT_PIPE_RX, PIPE_BYTES, port, &rx), "open the RX pipe");
    check(covalent_pipe_bind(rx, &OURS), "bind");
    covalent_pipe tx;
    check(covalent_pipe_open(device, COVALENT_PIPE_TX, PIPE_BYTES, port, &tx), "open the TX pipe");
    size_t longest = 0;
    check(covalent_pipe_frame_bytes_max(tx, &longest), "ask for the longest frame");
    expect(longest >= FRAME_BYTES, "the port carries our frames");
    uint32_t number = 0;
    check(covalent_pipe_number(rx, &number), "ask for the number");

    uint8_t frame[FRAME_BYTES] = {0};
    frame[12] = 0x88;
    frame[13] = 0xb6;
    unsigned long sent = 0;
    unsigned long back = 0;
    while (back < count) {
        for (; sent < count && sent - back < AT_A_TIME; sent++) {
            memcpy(frame + 14, &sent, sizeof sent);
            check(covalent_pipe_push(tx, frame, sizeof frame), "push");
        }
        check(covalent_pipe_publish(tx), "publish");
        uint32_t ready = 0;
        check(covalent_device_next_rx_pipe(device, 20 * SECOND_NS, &ready), "wait");
        expect(ready == number, "there is one pipe only");
        size_t received = 1;
        while (received > 0) {
            covalent_packet packets[AT_A_TIME];
            check(covalent_pipe_recv(rx, 0, packets, AT_A_TIME, &received), "receive");
            for (size_t i = 0; i < received; i++, back++) {
                memcpy(frame + 14, &back, sizeof back);
                frame[FRAME_BYTES - 1] = 0xff;
                expect(packets[i].length_bytes == sizeof frame, "as long as it was sent");
                expect(memcmp(packets[i].data, frame, sizeof frame) == 0, "in order, and changed by the echo only");
                frame[FRAME_BYTES - 1] = 0;
            }
        }
    }
    expect(covalent_pipe_send(tx, frame, 13, 0) == COVALENT_TOO_SHORT, "a runt is refused");
    check(covalent_pipe_flush(tx, 20 * SECOND_NS), "flush");
    printf("%lu\n", back);
    check(covalent_pipe_close(tx), "close the TX pipe");
    check(covalent_pipe_close(rx), "close the RX pipe");
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: send

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "echo") == 0) {
        return echo(argv[2], argv[3], strtoul(argv[4], NULL, 10));
    }
    if (argc == 6 && strcmp(argv[1], "loop") == 0) {
        return echo_in_a_loop(argv[2], argv[3], argv[4], argv[5]);
    }
    if (argc == 5 && strcmp(argv[1], "send") == 0) {
        return send_all(argv[2], argv[3], strtoul(argv[4], NULL, 10));
    }
    fprintf(stderr, "usage: ping echo|send SOCKET PORT N, or ping loop SOCKET PORT\n");
    return 2;
}
