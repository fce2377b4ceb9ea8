/* See turns.h. */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include "turns.h"

/* How long the interrupt thread is held. Each hold costs a wake-up and delays its peer events. */
#define HELD_MS 10
/* The same while a guarded device has no peer: connecting takes about eight messages. */
#define HELD_ALONE_MS 1
/* Longest wait for a turn, and interval between two checks. */
#define PATIENCE_S 1
#define LOOK_US 20

struct covalent_turn covalent_turns[RTE_MAX_ETHPORTS];
atomic_bool covalent_let_go = true;

static struct {
	pthread_mutex_t lock;
	/*
	 * Readable while a device is guarded, so the interrupt thread calls `hold` in every round.
	 */
	int bell;
	/* Ends a hold early. */
	int kick;
	struct rte_intr_handle *handle;
	unsigned int guarded;
	/* Number of holds that have begun. */
	atomic_ulong holds;
} keeper = { .lock = PTHREAD_MUTEX_INITIALIZER, .bell = -1, .kick = -1 };

static void ring(int fd)
{
	uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* It is already readable. */
}

static void silence(int fd)
{
	uint64_t rings;

	if (read(fd, &rings, sizeof(rings)) < 0)
		return; /* It was not readable. */
}

/* A memory barrier in every running thread of the process (membarrier(2)). */
static int order_all(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) < 0 ? -errno : 0;
}

static bool all_have_peers(void)
{
	for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; port++) {
		struct rte_eth_link link = { 0 };

		if (atomic_load(&covalent_turns[port].guarded) && rte_eth_dev_is_valid_port(port) &&
		    (rte_eth_link_get_nowait(port, &link) < 0 || link.link_status != RTE_ETH_LINK_UP))
			return false;
	}
	return true;
}

/* Runs in the interrupt thread. */
static void hold(void *context)
{
	struct pollfd kick = { .fd = keeper.kick, .events = POLLIN };
	int held_ms;
	bool any;

	(void)context;
	pthread_mutex_lock(&keeper.lock);
	any = keeper.guarded > 0;
	if (!any)
		silence(keeper.bell);
	pthread_mutex_unlock(&keeper.lock);
	if (!any)
		return;
	/* Before any thread can have a turn and close a device that is queried here. */
	held_ms = all_have_peers() ? HELD_MS : HELD_ALONE_MS;
	atomic_store(&covalent_let_go, false);
	atomic_fetch_add(&keeper.holds, 1);
	if (poll(&kick, 1, held_ms) > 0)
		silence(keeper.kick);
	atomic_store(&covalent_let_go, true);
	(void)order_all(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; port++)
		/*
		 * Sleep instead of yielding: this thread may have preempted the thread in its turn.
		 * A yielding thread would then wait for a full time slice.
		 */
		while (atomic_load(&covalent_turns[port].busy))
			rte_delay_us_sleep(1);
}

/* The caller holds the lock. */
static int begin(void)
{
	int answer;

	if (keeper.handle != NULL)
		return 0;
	answer = order_all(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	if (answer < 0)
		return answer;
	keeper.bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	keeper.kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	keeper.handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_SHARED);
	answer = keeper.bell < 0 || keeper.kick < 0 ? -EMFILE : keeper.handle == NULL ? -ENOMEM : 0;
	if (answer == 0 && (rte_intr_fd_set(keeper.handle, keeper.bell) < 0 || rte_intr_type_set(keeper.handle, RTE_INTR_HANDLE_EXT) < 0))
		answer = -EINVAL;
	if (answer == 0)
		answer = rte_intr_callback_register(keeper.handle, hold, NULL);
	if (answer == 0)
		return 0;
	rte_intr_instance_free(keeper.handle);
	keeper.handle = NULL;
	if (keeper.bell >= 0)
		close(keeper.bell);
	if (keeper.kick >= 0)
		close(keeper.kick);
	return answer;
}

int covalent_turns_guard(uint16_t port)
{
	int answer = 0;

	pthread_mutex_lock(&keeper.lock);
	if (!atomic_load(&covalent_turns[port].guarded)) {
		answer = begin();
		if (answer == 0) {
			atomic_store(&covalent_turns[port].guarded, true);
			if (keeper.guarded++ == 0)
				ring(keeper.bell);
		}
	}
	pthread_mutex_unlock(&keeper.lock);
	return answer;
}

void covalent_turns_leave(uint16_t port)
{
	pthread_mutex_lock(&keeper.lock);
	if (atomic_exchange(&covalent_turns[port].guarded, false)) {
		atomic_store(&covalent_turns[port].busy, false);
		keeper.guarded--;
	}
	pthread_mutex_unlock(&keeper.lock);
}

/* Deadline by the TSC, not by a count of sleeps: the kernel prolongs each sleep. */
static uint64_t patience(void)
{
	return rte_get_tsc_cycles() + PATIENCE_S * rte_get_tsc_hz();
}

bool covalent_turn_await(uint16_t port)
{
	uint64_t end = patience();

	do {
		if (covalent_turn_begin(port))
			return true;
		rte_delay_us_sleep(LOOK_US);
	} while (rte_get_tsc_cycles() < end);
	return false;
}

void covalent_turns_settle(void)
{
	unsigned long first = atomic_load(&keeper.holds);
	uint64_t end = patience();

	/*
	 * The first hold may begin inside a round that has received an event of a closed descriptor
	 * and not handled it yet. That round has ended before the second hold.
	 */
	while (atomic_load(&keeper.holds) - first < 2 && rte_get_tsc_cycles() < end) {
		ring(keeper.kick);
		rte_delay_us_sleep(LOOK_US);
	}
}
