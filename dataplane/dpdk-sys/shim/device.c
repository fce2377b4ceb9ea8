/* Devices: probe, describe, configure, start, query. */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>
#include "shim.h"
#include "turns.h"

#define RX_CHECKSUMS (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)
#define TX_CHECKSUMS (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM)
#define RSS_OF (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP)

/* Drivers that handle peer events in DPDK's interrupt thread and modify data that lanes use. */
static bool needs_turns(uint16_t port)
{
	struct rte_eth_dev_info info;

	return rte_eth_dev_info_get(port, &info) == 0 && strcmp(info.driver_name, "net_memif") == 0;
}

static bool is_guarded(uint16_t port)
{
	return atomic_load(&covalent_turns[port].guarded);
}

int covalent_probe(const char *device)
{
	return rte_dev_probe(device);
}

int covalent_find(const char *name, uint16_t *port)
{
	return rte_eth_dev_get_port_by_name(name, port);
}

#define RING_PREFIX "net_ring_"

/* DPDK adds the prefix itself. */
static const char *without_prefix(const char *name)
{
	size_t bytes = strlen(RING_PREFIX);

	return strncmp(name, RING_PREFIX, bytes) == 0 ? name + bytes : NULL;
}

int covalent_ring_pair(const char *one, const char *other, uint32_t slots)
{
	char name[RTE_RING_NAMESIZE];
	struct rte_ring *there, *back;
	int port;

	one = without_prefix(one);
	other = without_prefix(other);
	if (one == NULL || other == NULL)
		return -EINVAL;
	snprintf(name, sizeof(name), "%s_there", one);
	there = rte_ring_create(name, slots, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	snprintf(name, sizeof(name), "%s_back", one);
	back = rte_ring_create(name, slots, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	if (there == NULL || back == NULL)
		goto failed;
	port = rte_eth_from_rings(one, &back, 1, &there, 1, 0);
	if (port < 0)
		goto failed;
	if (rte_eth_from_rings(other, &there, 1, &back, 1, 0) < 0) {
		covalent_close(port);
		goto failed;
	}
	return 0;
failed:
	port = rte_errno > 0 ? -rte_errno : -EINVAL;
	rte_ring_free(there);
	rte_ring_free(back);
	return port;
}

int covalent_inspect(uint16_t port, uint32_t slots, struct covalent_device *device)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	uint16_t rx = slots > UINT16_MAX ? UINT16_MAX : (uint16_t)slots, tx = rx;
	int result = rte_eth_dev_info_get(port, &info);

	if (result < 0)
		return result;
	memset(device, 0, sizeof(*device));
	snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
	result = rte_eth_macaddr_get(port, &mac);
	if (result < 0)
		return result;
	memcpy(device->mac, mac.addr_bytes, sizeof(device->mac));
	result = rte_eth_dev_get_mtu(port, &device->mtu);
	if (result < 0)
		return result;
	result = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
	if (result < 0)
		return result;
	device->rx_slots = rx;
	device->tx_slots = tx;
	device->queues_max = info.max_rx_queues;
	device->rss = (info.flow_type_rss_offloads & RSS_OF) != 0;
	device->rx_checksum = (info.rx_offload_capa & RX_CHECKSUMS) == RX_CHECKSUMS;
	device->tx_checksum = (info.tx_offload_capa & TX_CHECKSUMS) == TX_CHECKSUMS;
	return 0;
}

static int set_up_queues(uint16_t port, const struct covalent_wish *wish, uint16_t senders, struct covalent_result *result)
{
	int answer = 0;

	result->step = "setting up a receive queue";
	for (uint16_t queue = 0; queue < wish->queues && answer >= 0; queue++)
		answer = rte_eth_rx_queue_setup(port, queue, wish->rx_slots, SOCKET_ID_ANY, NULL, wish->pool);
	if (answer < 0)
		return answer;
	result->step = "setting up a transmit queue";
	for (uint16_t queue = 0; queue < senders && answer >= 0; queue++)
		answer = rte_eth_tx_queue_setup(port, queue, wish->tx_slots, SOCKET_ID_ANY, NULL);
	if (answer < 0)
		return answer;
	result->step = COVALENT_STEP_START;
	return rte_eth_dev_start(port);
}

static int start(uint16_t port, const struct covalent_wish *wish, struct covalent_result *result)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = { 0 };
	uint16_t senders;
	int answer;

	result->step = "asking about the device";
	answer = rte_eth_dev_info_get(port, &info);
	if (answer < 0)
		return answer;
	senders = RTE_MIN(wish->queues, info.max_tx_queues);
	if (wish->queues > 1 && (info.flow_type_rss_offloads & RSS_OF)) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & RSS_OF;
		/* A device with another key length keeps its own key. */
		if (info.hash_key_size == 0 || info.hash_key_size == wish->rss_key_bytes) {
			conf.rx_adv_conf.rss_conf.rss_key = (uint8_t *)wish->rss_key;
			conf.rx_adv_conf.rss_conf.rss_key_len = wish->rss_key_bytes;
		}
		result->rss = true;
	}
	if (wish->rx_checksum)
		conf.rxmode.offloads |= RX_CHECKSUMS;
	if (wish->tx_checksum)
		conf.txmode.offloads |= TX_CHECKSUMS;
	if (info.dev_flags != NULL) {
		conf.intr_conf.lsc = !!(*info.dev_flags & RTE_ETH_DEV_INTR_LSC);
		conf.intr_conf.rmv = !!(*info.dev_flags & RTE_ETH_DEV_INTR_RMV);
	}
	/* Only a request shows whether a device has receive interrupts. */
	conf.intr_conf.rxq = 1;
	for (;;) {
		result->step = "configuring the device";
		answer = rte_eth_dev_configure(port, wish->queues, senders, &conf);
		if (answer >= 0)
			answer = set_up_queues(port, wish, senders, result);
		if (answer >= 0 || conf.intr_conf.rxq == 0)
			break;
		conf.intr_conf.rxq = 0;
	}
	if (answer < 0)
		return answer;
	/* Some drivers accept the request although they have none. */
	result->rx_interrupts = conf.intr_conf.rxq && rte_eth_dev_rx_intr_enable(port, 0) == 0;
	if (result->rx_interrupts)
		(void)rte_eth_dev_rx_intr_disable(port, 0);
	/* A device without this mode always has it, or refuses and receives only its own frames. */
	(void)rte_eth_promiscuous_enable(port);
	(void)rte_eth_allmulticast_enable(port);
	(void)rte_eth_stats_reset(port);
	(void)rte_eth_xstats_reset(port);
	return 0;
}

/*
 * Takes no turn, like `restart`. A stopped device has no peer, so the interrupt thread does not use
 * it. Starting a device that connects to a peer may take as long as the peer takes.
 */
int covalent_start(uint16_t port, const struct covalent_wish *wish, struct covalent_result *result)
{
	int answer = needs_turns(port) ? covalent_turns_guard(port) : 0;

	result->step = "taking turns with DPDK's interrupt thread";
	return answer < 0 ? answer : start(port, wish, result);
}

int covalent_restart(uint16_t port)
{
	return rte_eth_dev_start(port);
}

int covalent_stop(uint16_t port)
{
	int answer;

	if (!covalent_turn_await(port))
		return -EBUSY;
	answer = rte_eth_dev_stop(port);
	covalent_turn_end(port);
	if (is_guarded(port))
		covalent_turns_settle();
	return answer;
}

/*
 * Whether this is net_memif as the server. A peer may have reconnected while the device was
 * stopped, and stopping a stopped device would not disconnect it.
 */
static bool answers(const struct rte_eth_dev_info *info)
{
	const struct rte_devargs *arguments = info->device == NULL ? NULL : rte_dev_devargs(info->device);

	return arguments != NULL && arguments->args != NULL &&
	       (strstr(arguments->args, "role=server") != NULL || strstr(arguments->args, "role=master") != NULL);
}

void covalent_close(uint16_t port)
{
	struct rte_eth_dev_info info = { 0 };
	bool known = rte_eth_dev_info_get(port, &info) == 0, guarded;

	/* The interrupt thread also walks devices that were never started. */
	if (needs_turns(port))
		(void)covalent_turns_guard(port);
	guarded = is_guarded(port);
	/* Without the turn, leave the device open: another thread may be using it. */
	if (!covalent_turn_await(port))
		return;
	if (guarded && known && answers(&info))
		(void)rte_eth_dev_start(port);
	(void)rte_eth_dev_stop(port);
	(void)rte_eth_dev_close(port);
	if (known && info.device != NULL)
		(void)rte_dev_remove(info.device);
	covalent_turn_end(port);
	if (guarded)
		covalent_turns_settle();
	covalent_turns_leave(port);
}

int covalent_set_link(uint16_t port, bool up)
{
	return up ? rte_eth_dev_set_link_up(port) : rte_eth_dev_set_link_down(port);
}

int covalent_carrier(uint16_t port)
{
	struct rte_eth_link link;
	int answer = rte_eth_link_get_nowait(port, &link);

	return answer < 0 ? answer : link.link_status == RTE_ETH_LINK_UP;
}

bool covalent_is_removed(uint16_t port)
{
	return rte_eth_dev_is_removed(port) != 0;
}

int covalent_rx_interrupt_fd(uint16_t port, uint16_t queue)
{
	return rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue);
}

int covalent_rx_interrupt(uint16_t port, uint16_t queue, bool on)
{
	return on ? rte_eth_dev_rx_intr_enable(port, queue) : rte_eth_dev_rx_intr_disable(port, queue);
}

int covalent_losses(uint16_t port, struct covalent_losses *losses)
{
	struct rte_eth_stats stats = { 0 };
	int answer = rte_eth_stats_get(port, &stats);

	if (answer < 0)
		return answer;
	losses->missed = stats.imissed;
	losses->no_buffer = stats.rx_nombuf;
	losses->rx_errors = stats.ierrors;
	losses->tx_errors = stats.oerrors;
	return 0;
}

int covalent_counts(uint16_t port, struct covalent_count *counts, uint32_t max)
{
	int have = rte_eth_xstats_get(port, NULL, 0);

	if (have <= 0)
		return have;
	{
		struct rte_eth_xstat values[have];
		struct rte_eth_xstat_name names[have];
		uint32_t count = 0;

		if (rte_eth_xstats_get_names(port, names, have) != have || rte_eth_xstats_get(port, values, have) != have)
			return -EAGAIN;
		for (int i = 0; i < have && count < max; i++) {
			if (values[i].id >= (uint64_t)have)
				continue;
			snprintf(counts[count].name, sizeof(counts[count].name), "%s", names[values[i].id].name);
			counts[count].value = values[i].value;
			count++;
		}
		return (int)count;
	}
}
