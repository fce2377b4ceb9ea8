/* Turns between lanes and DPDK's interrupt thread, for drivers that count on neither to be in the other's way.
 *
 * net_memif hears in that thread that its peer is gone, and unmaps the rings there, whoever is in the midst of a burst on them. Its stop and close give back
 * the same memory from whatever thread calls them. So DPDK's interrupt thread is held in a callback of ours, and let go for moments in which no thread uses such
 * a device:
 *
 *   interrupt thread:  held, up to 10 ms | waits for the lanes | its work, some microseconds | held
 *   a lane:            burst  burst  burst                     | no frame comes, none goes   | burst
 *
 * Other devices are not guarded; their interrupts, if they have any, come as much later as the thread is held while a guarded one is there. */
#ifndef COVALENT_TURNS_H
#define COVALENT_TURNS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include <rte_config.h>

struct covalent_turn {
	/* The device is guarded. */
	_Alignas(RTE_CACHE_LINE_SIZE) atomic_bool guarded;
	/* A thread uses it, or is about to see whether it may. */
	atomic_bool busy;
};

extern struct covalent_turn covalent_turns[RTE_MAX_ETHPORTS];
/* The interrupt thread does, or may do, its own work. */
extern atomic_bool covalent_let_go;

/* Whether the device may be used now; if so covalent_turn_end must follow soon. One thread at a time for each device. */
static inline bool covalent_turn_begin(uint16_t port)
{
	struct covalent_turn *turn = &covalent_turns[port];

	if (likely(!atomic_load_explicit(&turn->guarded, memory_order_relaxed)))
		return true;
	/* In one order with the keeper's store to `let_go` and its look at `busy`: one of the two sees the other. The keeper pays for the order (`order_all`), for
	 * a barrier here would wait for every frame that the device wrote before. */
	atomic_store_explicit(&turn->busy, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(!atomic_load_explicit(&covalent_let_go, memory_order_acquire)))
		return true;
	atomic_store_explicit(&turn->busy, false, memory_order_release);
	/* That thread may be waiting for this very core. */
	sched_yield();
	return false;
}

static inline void covalent_turn_end(uint16_t port)
{
	struct covalent_turn *turn = &covalent_turns[port];

	if (unlikely(atomic_load_explicit(&turn->guarded, memory_order_relaxed)))
		atomic_store_explicit(&turn->busy, false, memory_order_release);
}

/* As covalent_turn_begin, but waits, a second at most. */
bool covalent_turn_await(uint16_t port);

/* Has the device guarded from now on; 0 or a negative errno. */
int covalent_turns_guard(uint16_t port);
/* The device is gone. */
void covalent_turns_leave(uint16_t port);

/* Returns when the interrupt thread has forgotten what it heard of descriptors that are closed by now: their numbers may be used again. A second at most. */
void covalent_turns_settle(void);

#endif
