// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A program that forks.
//
//   fork SOCKET exit   the child exits, and the parent's pipe still sends
//   fork SOCKET stay   both run until the end of their input

#define _POSIX_C_SOURCE 200809L

#include <covalent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int32_t status, int32_t expected, const char *what)
{
    if (status != expected) {
        printf("%s: %s, expected %s: %s\n", what, covalent_status_name(status), covalent_status_name(expected), covalent_last_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const uint8_t frame[64];
    covalent_device device, own;
    covalent_pipe pipe, late;
    covalent_region region;
    uint64_t word;
    int stays, ended;
    pid_t child;

    if (argc != 3)
        return 2;
    stays = strcmp(argv[2], "stay") == 0;
    must(covalent_device_attach(argv[1], "fork", 0, &device), COVALENT_OK, "attach");
    must(covalent_pipe_open(device, COVALENT_PIPE_TX, 1 << 16, "p0", &pipe), COVALENT_OK, "open");
    must(covalent_region_register(device, "forked", 4096, COVALENT_RIGHT_READ | COVALENT_RIGHT_WRITE, &region), COVALENT_OK, "register");
    must(covalent_device_check_process(device), COVALENT_OK, "check");
    child = fork();
    if (child < 0)
        return 2;
    if (child == 0) {
        must(covalent_device_check_process(device), COVALENT_FORKED, "check in the child");
        must(covalent_pipe_send(pipe, frame, sizeof frame, 0), COVALENT_FORKED, "send in the child");
        must(covalent_pipe_open(device, COVALENT_PIPE_TX, 1 << 16, "p0", &late), COVALENT_FORKED, "open in the child");
        must(covalent_region_load(region, 0, &word), COVALENT_FORKED, "load in the child");
        must(covalent_device_attach(argv[1], "child", 0, &own), COVALENT_OK, "attach in the child");
        must(covalent_device_close(own), COVALENT_OK, "close in the child");
        if (stays)
            return getchar() != EOF;
        // Close one handle explicitly. The exit closes the others.
        covalent_pipe_close(pipe);
        return 0;
    }
    if (stays) {
        puts("stays");
        fflush(stdout);
        return getchar() != EOF;
    }
    if (waitpid(child, &ended, 0) != child || !WIFEXITED(ended) || WEXITSTATUS(ended) != 0)
        return 1;
    must(covalent_pipe_send(pipe, frame, sizeof frame, 0), COVALENT_OK, "send in the parent");
    must(covalent_region_store(region, 0, 7), COVALENT_OK, "store in the parent");
    puts("sent");
    fflush(stdout);
    return getchar() != EOF;
}
