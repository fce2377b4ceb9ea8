// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Lines of text over UDP, read as one contiguous stream.
//
//   logs read SOCKET PORT N    prints the first N lines that arrive on UDP port 514, regardless of
//                              datagram boundaries
//   logs send SOCKET PORT      sends standard input to that port, split into datagrams regardless
//                              of line boundaries
//
// A line longer than LINE_BYTES_MAX is skipped and counted, so that an endless line cannot stop the
// reader.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "covalent.h"

#define PIPE_BYTES (1024 * 1024)
#define LINE_BYTES_MAX 1024
#define PAYLOAD_BYTES 700
#define HEADER_BYTES 42
#define FRAME_BYTES_MIN 60
#define SYSLOG_PORT 514

static const int64_t SECOND_NS = 1000000000;

static void check(int status, const char *what) {
    if (status < 0) {
        fprintf(stderr, "logs: %s: %s: %s\n", what, covalent_status_name(status), covalent_last_error());
        exit(2);
    }
}

// State of the reader between two receives.
struct reader {
    unsigned long printed;
    unsigned long too_long;
    // Inside a line that is too long: bytes up to its end are skipped.
    int skipping;
};

// ANCHOR: lines
// Prints the complete lines at the start of `data`, up to `count` in all. Returns the bytes
// consumed.
static size_t print_lines(struct reader *reader, unsigned long count, const uint8_t *data, size_t length) {
    size_t done = 0;
    while (reader->printed < count) {
        covalent_message line;
        check(covalent_next_delimited(data + done, length - done, '\n', LINE_BYTES_MAX, &line), "look for a line");
        if (line.state == COVALENT_MESSAGE_PART) {
            break;
        }
        if (line.state == COVALENT_MESSAGE_BROKEN) {
            // No examined byte ends the line.
            reader->too_long += !reader->skipping;
            reader->skipping = 1;
            done += (size_t)line.claimed_bytes;
            continue;
        }
        if (!reader->skipping) {
            fwrite(data + done + line.offset_bytes, 1, line.length_bytes, stdout);
            putchar('\n');
            reader->printed++;
        }
        reader->skipping = 0;
        done += line.total_bytes;
    }
    return done;
}
// ANCHOR_END: lines

// ANCHOR: read
static int read_lines(const char *socket_path, const char *port, unsigned long count) {
    covalent_device device;
    check(covalent_device_attach_for_port(socket_path, "logs read", port, &device), "attach");
    covalent_pipe pipe;
    check(covalent_pipe_open(device, COVALENT_PIPE_BYTES, PIPE_BYTES, port, &pipe), "open");
    const covalent_match syslog = {.struct_bytes = sizeof syslog, .kind = COVALENT_MATCH_PORT, .transport = COVALENT_UDP, .dst_port = SYSLOG_PORT};
    check(covalent_pipe_bind(pipe, &syslog), "bind");
    puts("ready");
    fflush(stdout);
    struct reader reader = {0};
    size_t looked_at = 0;
    while (reader.printed < count) {
        const uint8_t *data = NULL;
        size_t length = 0;
        check(covalent_pipe_recv_bytes(pipe, looked_at, 20 * SECOND_NS, &data, &length), "receive");
        size_t done = print_lines(&reader, count, data, length);
        // The rest is the beginning of a line: wait for more bytes than that.
        looked_at = length - done;
        check(covalent_pipe_free(pipe, done), "free");
    }
    covalent_pipe_counters counters = {.struct_bytes = sizeof counters};
    check(covalent_pipe_read_counters(pipe, &counters), "ask for the counters");
    fflush(stdout);
    fprintf(stderr, "logs: %lu lines too long, %" PRIu64 " datagrams lost because the pipe was full\n", reader.too_long,
            counters.full);
    check(covalent_pipe_close(pipe), "close the pipe");
    check(covalent_device_close(device), "close the device");
    return 0;
}
// ANCHOR_END: read

static void put_u16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

// Writes Ethernet, IPv4 and UDP headers. The UDP checksum is optional over IPv4 and stays 0.
static void write_headers(uint8_t *frame, size_t payload_bytes) {
    static const uint8_t FIXED[HEADER_BYTES] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x00, // broadcast, IPv4
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    };
    memcpy(frame, FIXED, sizeof FIXED);
    put_u16(frame + 16, (unsigned)payload_bytes + 28);
    uint32_t sum = 0;
    for (size_t i = 14; i < 34; i += 2) {
        sum += (uint32_t)frame[i] << 8 | frame[i + 1];
    }
    sum = (sum & 0xffff) + (sum >> 16);
    put_u16(frame + 24, ~((sum & 0xffff) + (sum >> 16)) & 0xffff);
    put_u16(frame + 34, 40000);
    put_u16(frame + 36, SYSLOG_PORT);
    put_u16(frame + 38, (unsigned)payload_bytes + 8);
}

static int send_input(const char *socket_path, const char *port) {
    covalent_device device;
    check(covalent_device_attach_for_port(socket_path, "logs send", port, &device), "attach");
    covalent_pipe pipe;
    check(covalent_pipe_open(device, COVALENT_PIPE_TX, PIPE_BYTES, port, &pipe), "open");
    // Limit the rate, so that a burst does not overflow the reader's pipe.
    const covalent_pipe_tuning pace = {.struct_bytes = sizeof pace, .rate_unit = COVALENT_RATE_PACKETS, .rate_per_second = 20000, .burst_us = 1000};
    check(covalent_pipe_tune(pipe, &pace), "tune");
    uint8_t payload[PAYLOAD_BYTES];
    size_t length;
    while ((length = fread(payload, 1, sizeof payload, stdin)) > 0) {
        size_t frame_bytes = HEADER_BYTES + length < FRAME_BYTES_MIN ? FRAME_BYTES_MIN : HEADER_BYTES + length;
        // Build the frame in place, in the pipe.
        uint8_t *frame = NULL;
        int status = covalent_pipe_reserve(pipe, frame_bytes, &frame);
        if (status == COVALENT_FULL) {
            check(covalent_pipe_flush(pipe, 20 * SECOND_NS), "wait for room");
            status = covalent_pipe_reserve(pipe, frame_bytes, &frame);
        }
        check(status, "reserve");
        memset(frame, 0, frame_bytes);
        write_headers(frame, length);
        memcpy(frame + HEADER_BYTES, payload, length);
        check(covalent_pipe_commit(pipe), "commit");
        check(covalent_pipe_publish(pipe), "publish");
    }
    check(covalent_pipe_flush(pipe, 20 * SECOND_NS), "flush");
    check(covalent_pipe_close(pipe), "close the pipe");
    check(covalent_device_close(device), "close the device");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "read") == 0) {
        return read_lines(argv[2], argv[3], strtoul(argv[4], NULL, 10));
    }
    if (argc == 4 && strcmp(argv[1], "send") == 0) {
        return send_input(argv[2], argv[3]);
    }
    fprintf(stderr, "usage: logs read SOCKET PORT N | logs send SOCKET PORT\n");
    return 2;
}
