/* Frames: wrappers of DPDK functions that are inline in its headers. */
#include <string.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_net.h>
#include "shim.h"
#include "turns.h"

/* Flags that describe the buffer itself, not the frame in it. */
#define BUFFER_FLAGS (RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT)
#define CHECKSUM_FLAGS (RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK)

/* RX_*_CKSUM_NONE and _UNKNOWN do not count as bad. */
static bool bad_checksum(uint64_t flags)
{
	return (flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD ||
	       (flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD;
}

static uint32_t look_closer(struct rte_mbuf **mbuf)
{
	uint32_t flags = 0;

	if ((*mbuf)->nb_segs != 1)
		flags |= COVALENT_FRAME_CHAINED;
	if (bad_checksum((*mbuf)->ol_flags))
		flags |= COVALENT_FRAME_BAD_CHECKSUM;
	/* Fails only without headroom, which our buffers have. The frame then stays untagged. */
	if ((*mbuf)->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)
		(void)rte_vlan_insert(mbuf);
	return flags;
}

uint16_t covalent_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, struct covalent_frame *frames, uint16_t max)
{
	uint16_t count;

	if (!covalent_turn_begin(port))
		return 0;
	count = rte_eth_rx_burst(port, queue, mbufs, max);
	covalent_turn_end(port);
	for (uint16_t i = 0; i < count; i++) {
		uint32_t flags = 0;

		if (i + 4 < count)
			rte_prefetch0(rte_pktmbuf_mtod(mbufs[i + 4], void *));
		if (unlikely(mbufs[i]->nb_segs != 1 || mbufs[i]->ol_flags != 0)) {
			if (mbufs[i]->nb_segs != 1 || (mbufs[i]->ol_flags & (RTE_MBUF_F_RX_VLAN_STRIPPED | CHECKSUM_FLAGS)))
				flags = look_closer(&mbufs[i]);
			mbufs[i]->ol_flags &= BUFFER_FLAGS;
		}
		frames[i].data = rte_pktmbuf_mtod(mbufs[i], const uint8_t *);
		frames[i].bytes = mbufs[i]->pkt_len;
		frames[i].flags = flags;
	}
	return count;
}

uint16_t covalent_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t taken;

	if (!covalent_turn_begin(port))
		return 0;
	taken = rte_eth_tx_burst(port, queue, mbufs, count);
	covalent_turn_end(port);
	return taken;
}

/* The TCP or UDP checksum field of a frame; NULL if its offload was not requested. */
static uint8_t *l4_sum(struct rte_mbuf *mbuf)
{
	uint8_t *header = rte_pktmbuf_mtod(mbuf, uint8_t *) + mbuf->l2_len + mbuf->l3_len;
	uint64_t asked = mbuf->ol_flags & RTE_MBUF_F_TX_L4_MASK;

	if (asked == RTE_MBUF_F_TX_TCP_CKSUM)
		return header + offsetof(struct rte_tcp_hdr, cksum);
	if (asked == RTE_MBUF_F_TX_UDP_CKSUM)
		return header + offsetof(struct rte_udp_hdr, dgram_cksum);
	return NULL;
}

/* Reverts covalent_ask_checksums: restores the frame that covalent_fill wrote. */
static void unask_checksums(struct rte_mbuf *mbuf)
{
	uint8_t *sum = l4_sum(mbuf);
	uint16_t old_l4 = (uint16_t)mbuf->hash.usr;

	if (sum)
		memcpy(sum, &old_l4, sizeof(old_l4));
	if (mbuf->ol_flags & RTE_MBUF_F_TX_IP_CKSUM)
		rte_pktmbuf_mtod_offset(mbuf, struct rte_ipv4_hdr *, mbuf->l2_len)->hdr_checksum = mbuf->hash.usr >> 16;
	mbuf->ol_flags &= BUFFER_FLAGS;
}

uint16_t covalent_tx_prepared_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t count)
{
	uint16_t fit = rte_eth_tx_prepare(port, queue, mbufs, count);

	if (fit == 0 && count > 0) {
		/* The device cannot offload the first frame: send it unchanged. */
		unask_checksums(mbufs[0]);
		fit = 1;
	}
	return covalent_tx_burst(port, queue, mbufs, fit);
}

int covalent_tx_reclaim(uint16_t port, uint16_t queue)
{
	int answer;

	if (!covalent_turn_begin(port))
		return 0;
	answer = rte_eth_tx_done_cleanup(port, queue, 0);
	covalent_turn_end(port);
	return answer;
}

int covalent_alloc(struct rte_mempool *pool, struct rte_mbuf **mbufs, uint32_t count)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, count);
}

void covalent_free(struct rte_mbuf **mbufs, uint32_t count)
{
	rte_pktmbuf_free_bulk(mbufs, count);
}

void covalent_fill(struct rte_mbuf *mbuf, const uint8_t *bytes, uint16_t count)
{
	rte_memcpy(rte_pktmbuf_mtod(mbuf, void *), bytes, count);
	mbuf->data_len = count;
	mbuf->pkt_len = count;
}

void covalent_ask_checksums(struct rte_mbuf *mbuf)
{
	struct rte_net_hdr_lens lengths = { 0 };
	uint32_t type = rte_net_get_ptype(mbuf, &lengths, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK);
	uint32_t l4 = type & RTE_PTYPE_L4_MASK;
	uint8_t *l3 = rte_pktmbuf_mtod(mbuf, uint8_t *) + lengths.l2_len;
	uint64_t flags = 0;
	/*
	 * DPDK trusts the lengths in the frame, even beyond its end. Writes below must stay in it.
	 */
	uint32_t needed = lengths.l2_len + lengths.l3_len;
	uint8_t *sum;
	uint16_t pseudo, old_ip = 0, old_l4 = 0;

	if (l4 == RTE_PTYPE_L4_TCP) {
		flags = RTE_MBUF_F_TX_TCP_CKSUM;
		needed += sizeof(struct rte_tcp_hdr);
	} else if (l4 == RTE_PTYPE_L4_UDP) {
		flags = RTE_MBUF_F_TX_UDP_CKSUM;
		needed += sizeof(struct rte_udp_hdr);
	}
	if (needed > mbuf->data_len || lengths.l3_len >= 1 << RTE_MBUF_L3_LEN_BITS)
		return;
	mbuf->l2_len = lengths.l2_len;
	mbuf->l3_len = lengths.l3_len;
	mbuf->l4_len = lengths.l4_len;
	if (RTE_ETH_IS_IPV4_HDR(type)) {
		struct rte_ipv4_hdr *header = (struct rte_ipv4_hdr *)l3;

		if (lengths.l3_len < sizeof(*header))
			return;
		flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
		old_ip = header->hdr_checksum;
		header->hdr_checksum = 0;
		pseudo = rte_ipv4_phdr_cksum(header, flags);
	} else if (RTE_ETH_IS_IPV6_HDR(type)) {
		if (flags == 0 || lengths.l3_len < sizeof(struct rte_ipv6_hdr))
			return;
		flags |= RTE_MBUF_F_TX_IPV6;
		pseudo = rte_ipv6_phdr_cksum((struct rte_ipv6_hdr *)l3, flags);
	} else {
		return;
	}
	mbuf->ol_flags |= flags;
	/* The device adds the sum of the payload to the pseudo header's checksum. */
	sum = l4_sum(mbuf);
	if (sum) {
		memcpy(&old_l4, sum, sizeof(old_l4));
		memcpy(sum, &pseudo, sizeof(pseudo));
	}
	/*
	 * No driver reads the hash of a transmitted frame. It keeps the old checksums, in case the
	 * device refuses the offload.
	 */
	mbuf->hash.usr = (uint32_t)old_ip << 16 | old_l4;
}
