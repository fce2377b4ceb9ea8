/* Drop rules in the device. */
#include <stdio.h>
#include <string.h>
#include <rte_byteorder.h>
#include <rte_flow.h>
#include "shim.h"

static void mask_bits(uint8_t *mask, size_t bytes, unsigned int bits)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned int here = bits > 8 * i ? bits - 8 * i : 0;

		mask[i] = here >= 8 ? 0xff : (uint8_t)(0xff00u >> here);
	}
}

void *covalent_drop_rule(uint16_t port, const struct covalent_rule *rule, char *why, size_t why_bytes)
{
	struct rte_flow_item_eth eth = { 0 }, eth_mask = { 0 };
	struct rte_flow_item_vlan vlan = { 0 }, vlan_mask = { 0 };
	struct rte_flow_item_ipv4 ip4 = { 0 }, ip4_mask = { 0 };
	struct rte_flow_item_ipv6 ip6 = { 0 }, ip6_mask = { 0 };
	struct rte_flow_item_udp l4 = { 0 }, l4_mask = { 0 };
	/* UDP and TCP have their ports at the same offset. Each item is as long as its header. */
	struct rte_flow_item_tcp tcp = { 0 }, tcp_mask = { 0 };
	struct rte_flow_item items[5];
	struct rte_flow_action actions[] = { { .type = RTE_FLOW_ACTION_TYPE_DROP }, { .type = RTE_FLOW_ACTION_TYPE_END } };
	struct rte_flow_attr attr = { .ingress = 1 };
	struct rte_flow_error error = { 0 };
	struct rte_flow *flow;
	size_t n = 0;

	memset(items, 0, sizeof(items));
	items[n].type = RTE_FLOW_ITEM_TYPE_ETH;
	if (rule->ethertype != 0 && rule->vlan < 0) {
		eth.hdr.ether_type = rte_cpu_to_be_16(rule->ethertype);
		eth_mask.hdr.ether_type = RTE_BE16(0xffff);
		items[n].spec = &eth;
		items[n].mask = &eth_mask;
	}
	n++;
	if (rule->vlan >= 0) {
		vlan.hdr.vlan_tci = rte_cpu_to_be_16((uint16_t)rule->vlan);
		vlan_mask.hdr.vlan_tci = RTE_BE16(0x0fff);
		items[n++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_VLAN, .spec = &vlan, .mask = &vlan_mask };
	}
	if (rule->ip_version == 4) {
		memcpy(&ip4.hdr.src_addr, rule->source, 4);
		memcpy(&ip4.hdr.dst_addr, rule->destination, 4);
		mask_bits((uint8_t *)&ip4_mask.hdr.src_addr, 4, rule->source_bits);
		mask_bits((uint8_t *)&ip4_mask.hdr.dst_addr, 4, rule->destination_bits);
		items[n++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ip4, .mask = &ip4_mask };
	} else if (rule->ip_version == 6) {
		memcpy(&ip6.hdr.src_addr, rule->source, 16);
		memcpy(&ip6.hdr.dst_addr, rule->destination, 16);
		mask_bits((uint8_t *)&ip6_mask.hdr.src_addr, 16, rule->source_bits);
		mask_bits((uint8_t *)&ip6_mask.hdr.dst_addr, 16, rule->destination_bits);
		items[n++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &ip6, .mask = &ip6_mask };
	}
	if (rule->source_port >= 0) {
		l4.hdr.src_port = tcp.hdr.src_port = rte_cpu_to_be_16((uint16_t)rule->source_port);
		l4_mask.hdr.src_port = tcp_mask.hdr.src_port = RTE_BE16(0xffff);
	}
	if (rule->destination_port >= 0) {
		l4.hdr.dst_port = tcp.hdr.dst_port = rte_cpu_to_be_16((uint16_t)rule->destination_port);
		l4_mask.hdr.dst_port = tcp_mask.hdr.dst_port = RTE_BE16(0xffff);
	}
	if (rule->transport == 6)
		items[n++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_TCP, .spec = &tcp, .mask = &tcp_mask };
	else if (rule->transport == 17)
		items[n++] = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &l4, .mask = &l4_mask };
	items[n].type = RTE_FLOW_ITEM_TYPE_END;

	flow = rte_flow_create(port, &attr, items, actions, &error);
	if (flow == NULL)
		snprintf(why, why_bytes, "%s", error.message != NULL ? error.message : "its driver has no such rule");
	return flow;
}

int covalent_drop_rule_end(uint16_t port, void *rule)
{
	struct rte_flow_error error;

	return rte_flow_destroy(port, rule, &error);
}
