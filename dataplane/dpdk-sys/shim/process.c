/* Environment layer (EAL), logs, threads and memory. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>
#include "shim.h"

int covalent_eal_init(int argc, char **argv)
{
	return rte_eal_init(argc, argv) < 0 ? -rte_errno : 0;
}

int covalent_errno(void)
{
	return rte_errno;
}

const char *covalent_strerror(int error)
{
	return rte_strerror(error);
}

const char *covalent_version(void)
{
	return rte_version();
}

static covalent_log_fn write_log;

static ssize_t take_log(void *cookie, const char *text, size_t bytes)
{
	size_t whole = bytes;
	int level = rte_log_cur_msg_loglevel();

	(void)cookie;
	while (whole > 0 && text[whole - 1] == '\n')
		whole--;
	if (whole > 0)
		write_log(level < 0 ? RTE_LOG_INFO : (uint32_t)level, text, whole);
	return bytes;
}

int covalent_log_to(covalent_log_fn write)
{
	cookie_io_functions_t functions = { .write = take_log };
	FILE *stream = fopencookie(NULL, "w", functions);

	if (stream == NULL)
		return -ENOMEM;
	setlinebuf(stream);
	write_log = write;
	return rte_openlog_stream(stream);
}

int covalent_thread_register(void)
{
	if (rte_thread_register() < 0)
		return -rte_errno;
	return (int)rte_lcore_id();
}

void covalent_thread_unregister(void)
{
	rte_thread_unregister();
}

static uint16_t room(uint16_t frame_bytes)
{
	return RTE_PKTMBUF_HEADROOM + frame_bytes;
}

struct rte_mempool *covalent_pool_create(const char *name, uint32_t count, uint32_t cache, uint16_t frame_bytes)
{
	return rte_pktmbuf_pool_create(name, count, cache, 0, room(frame_bytes), SOCKET_ID_ANY);
}

uint32_t covalent_pool_idle(const struct rte_mempool *pool, uint32_t threads)
{
	uint32_t idle = rte_mempool_get_ops(pool->ops_index)->get_count(pool);

	if (pool->cache_size > 0)
		for (uint32_t thread = 0; thread < threads && thread < RTE_MAX_LCORE; thread++)
			idle += pool->local_cache[thread].len;
	return idle;
}

void covalent_pool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

size_t covalent_pool_page_bytes(const struct rte_mempool *pool)
{
	return pool->mz->hugepage_sz;
}
