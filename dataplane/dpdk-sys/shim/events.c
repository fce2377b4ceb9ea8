/* Asynchronous events of a device, from its driver and from its bus. */
#define ALLOW_EXPERIMENTAL_API
#include <rte_dev.h>
#include <rte_ethdev.h>
#include "shim.h"

static const struct {
	enum rte_eth_event_type theirs;
	enum covalent_event ours;
} KNOWN[] = {
	{ RTE_ETH_EVENT_INTR_LSC, COVALENT_EVENT_LINK },
	{ RTE_ETH_EVENT_INTR_RESET, COVALENT_EVENT_RESET },
	{ RTE_ETH_EVENT_INTR_RMV, COVALENT_EVENT_REMOVED },
	{ RTE_ETH_EVENT_QUEUE_STATE, COVALENT_EVENT_QUEUE },
	{ RTE_ETH_EVENT_ERR_RECOVERING, COVALENT_EVENT_RECOVERING },
	{ RTE_ETH_EVENT_RECOVERY_SUCCESS, COVALENT_EVENT_RECOVERED },
	{ RTE_ETH_EVENT_RECOVERY_FAILED, COVALENT_EVENT_RECOVERY_FAILED },
};

static int by_driver(uint16_t port, enum rte_eth_event_type type, void *listener, void *ignored)
{
	const struct covalent_listener *to = listener;

	(void)port;
	(void)ignored;
	for (size_t i = 0; i < RTE_DIM(KNOWN); i++)
		if (KNOWN[i].theirs == type)
			to->on_event(to->context, KNOWN[i].ours);
	return 0;
}

static void by_bus(const char *device, enum rte_dev_event_type type, void *listener)
{
	const struct covalent_listener *to = listener;

	(void)device;
	if (type == RTE_DEV_EVENT_REMOVE)
		to->on_event(to->context, COVALENT_EVENT_REMOVED);
}

int covalent_events_begin(uint16_t port, const char *name, struct covalent_listener *listener)
{
	for (size_t i = 0; i < RTE_DIM(KNOWN); i++) {
		int answer = rte_eth_dev_callback_register(port, KNOWN[i].theirs, by_driver, listener);

		if (answer < 0)
			return answer;
	}
	return rte_dev_event_callback_register(name, by_bus, listener);
}

void covalent_events_end(uint16_t port, const char *name, struct covalent_listener *listener)
{
	for (size_t i = 0; i < RTE_DIM(KNOWN); i++)
		while (rte_eth_dev_callback_unregister(port, KNOWN[i].theirs, by_driver, listener) == -EAGAIN)
			rte_pause();
	while (rte_dev_event_callback_unregister(name, by_bus, listener) == -EAGAIN)
		rte_pause();
}
