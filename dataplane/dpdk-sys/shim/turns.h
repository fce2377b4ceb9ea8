/*
 * Mutual exclusion ("turns") between lanes and DPDK's interrupt thread, for drivers without locking
 * of their own.
 *
 * net_memif handles the disconnection of its peer in that thread and unmaps the rings there, even
 * during a burst on them. Its stop and close release the same memory in the calling thread.
 * Therefore a callback of ours holds DPDK's interrupt thread, and releases it only while no thread
 * uses such a device:
 *
 *   interrupt thread:  held, up to 10 ms | waits for the lanes | its work (microseconds) | held
 *   a lane:            burst  burst  burst                     | no receive, no send     | burst
 *
 * Other devices are not guarded. While a guarded device exists, their interrupts are delayed by the
 * time that the thread is held.
 */
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
	/* A thread uses the device, or is checking whether it may. */
	atomic_bool busy;
};

extern struct covalent_turn covalent_turns[RTE_MAX_ETHPORTS];
/* The interrupt thread is released: it does, or may do, its own work. */
extern atomic_bool covalent_let_go;

/*
 * Whether the caller may use the device now. If so, it must call covalent_turn_end soon. One thread
 * at a time for each device.
 */
static inline bool covalent_turn_begin(uint16_t port)
{
	struct covalent_turn *turn = &covalent_turns[port];

	if (likely(!atomic_load_explicit(&turn->guarded, memory_order_relaxed)))
		return true;
	/*
	 * This store and the load below are ordered against the keeper's store to `let_go` and its
	 * load of `busy`: one of the two sees the other. The keeper provides the barrier
	 * (`order_all`). A barrier here would wait for all earlier writes of frames.
	 */
	atomic_store_explicit(&turn->busy, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(!atomic_load_explicit(&covalent_let_go, memory_order_acquire)))
		return true;
	atomic_store_explicit(&turn->busy, false, memory_order_release);
	/* The interrupt thread may be waiting for this core. */
	sched_yield();
	return false;
}

static inline void covalent_turn_end(uint16_t port)
{
	struct covalent_turn *turn = &covalent_turns[port];

	if (unlikely(atomic_load_explicit(&turn->guarded, memory_order_relaxed)))
		atomic_store_explicit(&turn->busy, false, memory_order_release);
}

/* As covalent_turn_begin, but waits up to one second. */
bool covalent_turn_await(uint16_t port);

/* Guards the device from now on. 0 or a negative errno. */
int covalent_turns_guard(uint16_t port);
/* Ends the guard of a device that is gone. */
void covalent_turns_leave(uint16_t port);

/*
 * Waits until the interrupt thread holds no more events of closed file descriptors. Their numbers
 * may then be reused. Up to one second.
 */
void covalent_turns_settle(void);

#endif
