/*
 * The part of DPDK that Covalent uses, as an interface that is stable across DPDK releases. Sizes
 * are in bytes. Errors are negative errnos unless stated otherwise. Threads: functions with a queue
 * argument may run in one thread at a time for each queue. All others belong to the thread that
 * opens ports.
 */
#ifndef COVALENT_DPDK_SHIM_H
#define COVALENT_DPDK_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rte_mbuf;
struct rte_mempool;

/* ---- process.c: environment layer, logs, threads, memory ---- */

/* As rte_eal_init, once per process. Pins the calling thread to a core as DPDK's main thread. */
int covalent_eal_init(int argc, char **argv);
/* rte_errno of this thread, for calls that do not return the errno themselves. */
int covalent_errno(void);
/* Message of a positive errno, including DPDK's own. */
const char *covalent_strerror(int error);
/* For example "DPDK 22.11.11". */
const char *covalent_version(void);

/* One line of DPDK's log, without the newline. Level 1 (emergency) to 8 (debug). Any thread. */
typedef void (*covalent_log_fn)(uint32_t level, const char *text, size_t bytes);
/* Redirects DPDK's log from standard error to `write`. Once, before covalent_eal_init. */
int covalent_log_to(covalent_log_fn write);

/* Registers the calling thread, which gets its own caches. Returns its number or an errno. */
int covalent_thread_register(void);
/* Unregisters the calling thread. */
void covalent_thread_unregister(void);

/* A pool of `count` buffers for frames of up to `frame_bytes`. NULL without memory. */
struct rte_mempool *covalent_pool_create(const char *name, uint32_t count, uint32_t cache, uint16_t frame_bytes);
/* Free buffers, including those in the caches of the first `threads` threads. */
uint32_t covalent_pool_idle(const struct rte_mempool *pool, uint32_t threads);
void covalent_pool_free(struct rte_mempool *pool);
/* Page size of the pool's memory. */
size_t covalent_pool_page_bytes(const struct rte_mempool *pool);

/* ---- burst.c: frames ---- */

/* The frame has several segments; `data` is the first. */
#define COVALENT_FRAME_CHAINED 1u
/* The device found an invalid IP, TCP or UDP checksum. */
#define COVALENT_FRAME_BAD_CHECKSUM 2u

/* A received frame. */
struct covalent_frame {
	const uint8_t *data;
	uint32_t bytes;
	uint32_t flags;
};

/* Receives up to `max` frames, whose buffers the caller owns. Reinserts stripped VLAN tags. */
uint16_t covalent_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, struct covalent_frame *frames, uint16_t max);
/* Passes up to `count` buffers to the device. It owns those that it accepted. */
uint16_t covalent_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* As covalent_tx_burst, for frames prepared by covalent_ask_checksums. */
uint16_t covalent_tx_prepared_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count);
/* Frees buffers of transmitted frames. Negative if the driver cannot do so on request. */
int covalent_tx_reclaim(uint16_t port, uint16_t queue);

/* Allocates all `count` buffers or none. 0 or a negative errno. */
int covalent_alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count);
/* Ignores null pointers. */
void covalent_free(struct rte_mbuf **mbufs, uint32_t count);
/* Copies a frame into an empty buffer. The frame must fit. */
void covalent_fill(struct rte_mbuf *mbuf, const uint8_t *bytes, uint16_t count);
/*
 * Requests checksum offload (IPv4 header, TCP, UDP) for a frame that covalent_fill wrote. Does
 * nothing if the frame ends within these headers.
 */
void covalent_ask_checksums(struct rte_mbuf *mbuf);

/* ---- device.c: devices ---- */

/* Probes or creates the device, named as in DPDK's own tools. */
int covalent_probe(const char *device);
/* Returns the port of the device with this name (without arguments). */
int covalent_find(const char *name, uint16_t *port);
/* Creates two connected devices in this process. Their names must begin with `net_ring_`. */
int covalent_ring_pair(const char *one, const char *other, uint32_t slots);

/* Description of a device. */
struct covalent_device {
	char driver[64];
	uint8_t mac[6];
	uint16_t mtu;
	uint16_t queues_max;
	/* Ring sizes that the device would use for the requested number of slots. */
	uint16_t rx_slots;
	uint16_t tx_slots;
	bool rss;
	bool rx_checksum;
	bool tx_checksum;
};
/* Describes the device as it would be with rings of `slots` slots. */
int covalent_inspect(uint16_t port, uint32_t slots, struct covalent_device *device);

/* Requested configuration. */
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
/* Result of covalent_start. */
struct covalent_result {
	/* The step that failed. */
	const char *step;
	bool rx_interrupts;
	bool rss;
};
/*
 * Configures and starts the device with `queues` receive queues, and as many transmit queues if it
 * has them. If only the start fails (`step` is COVALENT_STEP_START), the device stays configured
 * and covalent_restart tries again.
 */
#define COVALENT_STEP_START "starting the device"
int covalent_start(uint16_t port, const struct covalent_wish *wish, struct covalent_result *result);
/* Starts a configured device that was stopped, or whose start failed. */
int covalent_restart(uint16_t port);
int covalent_stop(uint16_t port);
/* Stops the device and removes it from the process. */
void covalent_close(uint16_t port);

/* Drops or raises the carrier. -ENOTSUP if the device cannot. */
int covalent_set_link(uint16_t port, bool up);
/* 1 with a carrier, 0 without, negative if the device is gone. */
int covalent_carrier(uint16_t port);
/* Whether the device was removed. */
bool covalent_is_removed(uint16_t port);

/* File descriptor that a queue's receive interrupt makes readable; negative if there is none. */
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
/* Reads up to `max` extended statistics. Returns their number or a negative errno. */
int covalent_counts(uint16_t port, struct covalent_count *counts, uint32_t max);

/* ---- events.c: asynchronous events of a device ---- */

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
/*
 * Receiver of events, called by a DPDK thread. Must stay in place until covalent_events_end
 * returns.
 */
struct covalent_listener {
	void (*on_event)(void *context, uint32_t event);
	void *context;
};
/* `name` is the device's name, for events of its bus. */
int covalent_events_begin(uint16_t port, const char *name, struct covalent_listener *listener);
void covalent_events_end(uint16_t port, const char *name, struct covalent_listener *listener);

/* ---- flow.c: rules in the device ---- */

/* A rule that drops matching frames. Numbers are in host byte order, addresses in network order. */
struct covalent_rule {
	/* EtherType of a frame without a VLAN tag; 0 for any. */
	uint16_t ethertype;
	/* -1 for any, else 0 to 4095. */
	int32_t vlan;
	/* 0 for any, 4 or 6. */
	uint8_t ip_version;
	/* 0 for any, 6 (TCP) or 17 (UDP). */
	uint8_t transport;
	/* Prefix lengths of the addresses: 0 for any. */
	uint8_t source_bits;
	uint8_t destination_bits;
	uint8_t source[16];
	uint8_t destination[16];
	/* -1 for any. */
	int32_t source_port;
	int32_t destination_port;
};
/* Installs the rule. On failure returns NULL and writes the driver's message to `why`. */
void *covalent_drop_rule(uint16_t port, const struct covalent_rule *rule, char *why, size_t why_bytes);
int covalent_drop_rule_end(uint16_t port, void *rule);

#endif
