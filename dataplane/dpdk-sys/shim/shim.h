/* What Covalent uses of DPDK, in words that stay the same from release to release. Sizes are in bytes, results negative errnos unless
 * said otherwise. Threads: what takes a device's queue is for one thread at a time; all else is for the thread that opens ports. */
#ifndef COVALENT_DPDK_SHIM_H
#define COVALENT_DPDK_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;

/* ---- process.c: the environment layer, logs, threads, memory ---- */

/* As rte_eal_init: once for a process. The calling thread is pinned to a core and stays DPDK's main one. */
int covalent_eal_init(int argc, char **argv);
/* The errno of the last call that failed in this thread and says so by other means. */
int covalent_errno(void);
/* Words for a positive errno, DPDK's own among them. */
const char *covalent_strerror(int error);
/* As "DPDK 22.11.11". */
const char *covalent_version(void);

/* One line of DPDK's log: level 1 (emergency) to 8 (debug), text without the end of the line. Called by any thread. */
typedef void (*covalent_log_fn)(uint32_t level, const char *text, size_t bytes);
/* Sends DPDK's log there instead of to the standard error. Once, before covalent_eal_init. */
int covalent_log_to(covalent_log_fn write);

/* Makes the calling thread known to DPDK, for caches of its own: its number, or a negative errno. */
int covalent_thread_register(void);
/* Takes that back. By the same thread. */
void covalent_thread_unregister(void);

/* A pool of `count` buffers for frames of up to `frame_bytes`, null if there is no memory. */
struct rte_mempool *covalent_pool_create(const char *name, uint32_t count, uint32_t cache, uint16_t frame_bytes);
/* Buffers that lie in the pool, those in the caches of the first `threads` threads among them. */
uint32_t covalent_pool_idle(const struct rte_mempool *pool, uint32_t threads);
void covalent_pool_free(struct rte_mempool *pool);
/* Size of the pages that the pool lies in. */
size_t covalent_pool_page_bytes(const struct rte_mempool *pool);

/* ---- burst.c: frames ---- */

/* The frame is in several pieces; `data` is the first. */
#define COVALENT_FRAME_CHAINED 1u
/* The device found an IP, TCP or UDP checksum wrong. */
#define COVALENT_FRAME_BAD_CHECKSUM 2u

/* A received frame: where it lies and what is known of it. */
struct covalent_frame {
	const uint8_t *data;
	uint32_t bytes;
	uint32_t flags;
};

/* Receives up to `max` frames. A VLAN tag that the device took off is in the frame again. The caller has the buffers. */
uint16_t covalent_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, struct covalent_frame *frames, uint16_t max);
/* Gives up to `count` buffers to the device; those that it took are its own. */
uint16_t covalent_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* As covalent_tx_burst, for frames with covalent_ask_checksums. */
uint16_t covalent_tx_prepared_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* Has the device give back buffers of frames that it has sent. Negative if it does so only when it likes. */
int covalent_tx_reclaim(uint16_t port, uint16_t queue);

/* 0, or a negative errno if not all `count` are there. */
int covalent_alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count);
/* Null pointers are passed over. */
void covalent_free(struct rte_mbuf **mbufs, uint32_t count);
/* Copies a frame into an empty buffer, which must have room for it. */
void covalent_fill(struct rte_mbuf *mbuf, const uint8_t *bytes, uint16_t count);
/* Asks for the checksums of the IPv4 header, TCP and UDP of a frame that covalent_fill wrote; for none where the frame ends before those headers do. */
void covalent_ask_checksums(struct rte_mbuf *mbuf);

/* ---- device.c: devices ---- */

/* The device is there, or is made, as DPDK's own tools would name it. */
int covalent_probe(const char *device);
/* The port of the device of that name (without arguments). */
int covalent_find(const char *name, uint16_t *port);
/* Two devices of this process, each of which receives what the other one sends. Their names begin with `net_ring_`. */
int covalent_ring_pair(const char *one, const char *other, uint32_t slots);

/* What a device is. */
struct covalent_device {
	char driver[64];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t queues_max;
	/* Slots of its rings if that many were asked for. */
	uint16_t rx_slots;
	uint16_t tx_slots;
	bool rss;
	bool rx_checksum;
	bool tx_checksum;
};
/* Describes the device as it would be with rings of `slots`. */
int covalent_inspect(uint16_t port, uint32_t slots, struct covalent_device *device);

struct covalent_wish {
	uint16_t queues;
	uint16_t rx_slots;
	uint16_t tx_slots;
	struct rte_mempool *pool;
	const uint8_t *rss_key;
	uint8_t rss_key_bytes;
	bool rx_checksum;
	bool tx_checksum;
};
/* What came of it. */
struct covalent_result {
	/* The step that failed. */
	const char *step;
	bool rx_interrupts;
	bool rss;
};
/* Configures the device and starts it: `queues` to receive on, as many to send on if it has them. A device that could not be started is
 * configured all the same, which `step` tells, and covalent_restart tries again. */
#define COVALENT_STEP_START "starting the device"
int covalent_start(uint16_t port, const struct covalent_wish *wish, struct covalent_result *result);
/* Stops and starts a device that was started before. */
int covalent_restart(uint16_t port);
int covalent_stop(uint16_t port);
/* Stops the device and takes it from the process. */
void covalent_close(uint16_t port);

/* Tells the device to drop its carrier, or to raise it. -ENOTSUP where it cannot. */
int covalent_set_link(uint16_t port, bool up);
/* 1 with a carrier, 0 without, negative when the device is gone. */
int covalent_carrier(uint16_t port);
/* Whether the device has been taken out. */
bool covalent_is_removed(uint16_t port);

/* The descriptor that a queue's receive interrupts make readable, negative if there is none. */
int covalent_rx_interrupt_fd(uint16_t port, uint16_t queue);
int covalent_rx_interrupt(uint16_t port, uint16_t queue, bool on);

/* Frames that the device lost. */
struct covalent_losses {
	uint64_t missed;
	uint64_t no_buffer;
	uint64_t rx_errors;
	uint64_t tx_errors;
};
int covalent_losses(uint16_t port, struct covalent_losses *losses);
#define COVALENT_NAME_BYTES 64
struct covalent_count {
	char name[COVALENT_NAME_BYTES];
	uint64_t value;
};
/* Every count that the device keeps, up to `max`; how many there are, or a negative errno. */
int covalent_counts(uint16_t port, struct covalent_count *counts, uint32_t max);

/* ---- events.c: what a device tells by itself ---- */

enum covalent_event {
	COVALENT_EVENT_LINK,
	COVALENT_EVENT_RESET,
	COVALENT_EVENT_REMOVED,
	COVALENT_EVENT_QUEUE,
	COVALENT_EVENT_RECOVERING,
	COVALENT_EVENT_RECOVERED,
	COVALENT_EVENT_RECOVERY_FAILED,
	COVALENT_EVENTS,
};
/* Who is told, by a thread of DPDK's. It must stay where it is until covalent_events_end has returned. */
struct covalent_listener {
	void (*heard)(void *context, uint32_t event);
	void *context;
};
/* `name` is the device's, for what the bus tells. */
int covalent_events_begin(uint16_t port, const char *name, struct covalent_listener *listener);
void covalent_events_end(uint16_t port, const char *name, struct covalent_listener *listener);

/* ---- flow.c: rules in the device ---- */

/* A rule that has the device drop what matches. Numbers are in the machine's order, addresses in the network's. */
struct covalent_rule {
	/* Of a frame without a VLAN tag; 0 for any. */
	uint16_t ethertype;
	/* -1 for any, else 0 to 4095. */
	int32_t vlan;
	/* 0 for any, 4 or 6. */
	uint8_t ip_version;
	/* 0 for any, 6 (TCP) or 17 (UDP). */
	uint8_t transport;
	/* Bits of the addresses that count: 0 for any. */
	uint8_t source_bits;
	uint8_t destination_bits;
	uint8_t source[16];
	uint8_t destination[16];
	/* -1 for any. */
	int32_t source_port;
	int32_t destination_port;
};
/* The rule in force, or null; then `why` has the driver's words. */
void *covalent_drop_rule(uint16_t port, const struct covalent_rule *rule, char *why, size_t why_bytes);
int covalent_drop_rule_end(uint16_t port, void *rule);

#endif
