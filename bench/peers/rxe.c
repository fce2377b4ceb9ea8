/*
 * Compare-and-swap between two RDMA devices of this machine, over one reliable connection.
 *
 * Configured like perftest's ib_atomic_lat: an RC queue pair at each end, signaled
 * IBV_WR_ATOMIC_CMP_AND_SWP, completions polled. Both ends are in one process, so no addresses are
 * exchanged. At the far end only the device works. The caller sets the acknowledgment timeout and
 * the number of retries. When these are exhausted the connection is broken until the caller
 * reconnects.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

enum { PORT = 1, PACKET_SEQUENCE = 1, RECEIVER_NOT_READY_TIMER = 12, HOPS = 64, GIDS_MAX = 64, TAKEN_MAX = 64 };

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint64_t *words;
    union ibv_gid gid;
    uint8_t gid_index;
    enum ibv_mtu mtu;
    /* Atomics that one queue pair may have in flight. */
    uint8_t atomics_max;
};

struct pair {
    struct end near, far;
    uint32_t depth;
    uint8_t timeout, retries;
    /* Swaps posted and swaps completed, with or without success, on this connection. */
    uint64_t begun, ended;
    /* A swap failed on this connection. */
    bool broken;
};

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

/* Returns NULL, or the step that failed. */
static const char *end_open(struct end *end, const char *name, uint32_t depth)
{
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    struct ibv_device_attr device;
    struct ibv_port_attr port;

    for (int at = 0; devices != NULL && at < count; at++)
        if (strcmp(ibv_get_device_name(devices[at]), name) == 0)
            end->context = ibv_open_device(devices[at]);
    if (devices != NULL)
        ibv_free_device_list(devices);
    if (end->context == NULL)
        return "opening the device";
    if (ibv_query_port(end->context, PORT, &port) != 0)
        return "asking for its port";
    if (ibv_query_device(end->context, &device) != 0)
        return "asking for its bounds";
    end->mtu = port.active_mtu;
    end->atomics_max = device.max_qp_rd_atom < UINT8_MAX ? (uint8_t)device.max_qp_rd_atom : UINT8_MAX;
    for (int at = 0; at < port.gid_tbl_len && at < GIDS_MAX; at++)
        if (ibv_query_gid(end->context, PORT, at, &end->gid) == 0 && is_ipv4(&end->gid)) {
            end->gid_index = (uint8_t)at;
            break;
        }
    if (!is_ipv4(&end->gid))
        return "looking for its IPv4 address";
    end->pd = ibv_alloc_pd(end->context);
    end->cq = end->pd == NULL ? NULL : ibv_create_cq(end->context, (int)depth + 1, NULL, NULL, 0);
    end->words = aligned_alloc(4096, (depth * sizeof(uint64_t) + 4095) / 4096 * 4096);
    if (end->cq == NULL || end->words == NULL)
        return "making its queue of completions";
    memset(end->words, 0, depth * sizeof(uint64_t));
    end->mr = ibv_reg_mr(end->pd, end->words, depth * sizeof(uint64_t),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    if (end->mr == NULL)
        return "registering its memory";
    struct ibv_qp_init_attr wanted = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    end->qp = ibv_create_qp(end->pd, &wanted);
    return end->qp == NULL ? "making its queue pair" : NULL;
}

static void end_close(struct end *end)
{
    if (end->qp != NULL)
        ibv_destroy_qp(end->qp);
    if (end->mr != NULL)
        ibv_dereg_mr(end->mr);
    if (end->cq != NULL)
        ibv_destroy_cq(end->cq);
    if (end->pd != NULL)
        ibv_dealloc_pd(end->pd);
    if (end->context != NULL)
        ibv_close_device(end->context);
    free(end->words);
}

static const char *end_connect(struct end *end, const struct end *other, uint8_t timeout, uint8_t retries)
{
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RESET};

    if (ibv_modify_qp(end->qp, &attributes, IBV_QP_STATE) != 0)
        return "resetting its queue pair";
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_INIT,
        .port_num = PORT,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
    };
    if (ibv_modify_qp(end->qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
        return "initializing its queue pair";
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = end->mtu < other->mtu ? end->mtu : other->mtu,
        .dest_qp_num = other->qp->qp_num,
        .rq_psn = PACKET_SEQUENCE,
        .max_dest_rd_atomic = end->atomics_max,
        .min_rnr_timer = RECEIVER_NOT_READY_TIMER,
        .ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.dgid = other->gid, .sgid_index = end->gid_index, .hop_limit = HOPS}},
    };
    if (ibv_modify_qp(end->qp, &attributes,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                          IBV_QP_MIN_RNR_TIMER) != 0)
        return "having its queue pair receive";
    attributes = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = timeout,
        .retry_cnt = retries,
        .rnr_retry = retries,
        .sq_psn = PACKET_SEQUENCE,
        .max_rd_atomic = end->atomics_max,
    };
    if (ibv_modify_qp(end->qp, &attributes,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        return "having its queue pair send";
    return NULL;
}

/*
 * Connects, or reconnects. Swaps in flight on the old connection never complete. Returns NULL, or
 * the step that failed.
 */
const char *covalent_bench_rxe_connect(struct pair *pair)
{
    struct ibv_wc taken[TAKEN_MAX];
    const char *problem = end_connect(&pair->far, &pair->near, pair->timeout, pair->retries);

    if (problem == NULL)
        problem = end_connect(&pair->near, &pair->far, pair->timeout, pair->retries);
    while (ibv_poll_cq(pair->near.cq, TAKEN_MAX, taken) > 0)
        continue;
    pair->begun = pair->ended = 0;
    pair->broken = false;
    return problem;
}

void covalent_bench_rxe_close(struct pair *pair)
{
    end_close(&pair->near);
    end_close(&pair->far);
    free(pair);
}

/*
 * Opens a connection between two devices by name, with up to `depth` swaps in flight. On failure
 * returns NULL and sets `problem` to the step that failed. The acknowledgment timeout is
 * 4.096 µs * 2^timeout.
 */
struct pair *covalent_bench_rxe_open(const char *near, const char *far, uint32_t depth, uint8_t timeout, uint8_t retries, const char **problem)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    *problem = "memory";
    if (pair == NULL)
        return NULL;
    pair->depth = depth;
    pair->timeout = timeout;
    pair->retries = retries;
    *problem = end_open(&pair->near, near, depth);
    if (*problem == NULL)
        *problem = end_open(&pair->far, far, depth);
    if (*problem == NULL)
        *problem = covalent_bench_rxe_connect(pair);
    if (*problem == NULL)
        return pair;
    covalent_bench_rxe_close(pair);
    return NULL;
}

/*
 * Posts a swap of `expected` for `desired` in word `number % depth` of the far end. 1: posted, 0:
 * no room, -1: refused.
 */
int covalent_bench_rxe_swap(struct pair *pair, uint64_t number, uint64_t expected, uint64_t desired)
{
    uint64_t at = number % pair->depth;
    struct ibv_sge place = {
        .addr = (uintptr_t)&pair->near.words[at],
        .length = sizeof(uint64_t),
        .lkey = pair->near.mr->lkey,
    };
    struct ibv_send_wr wanted = {
        .wr_id = number,
        .sg_list = &place,
        .num_sge = 1,
        .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.atomic = {
            .remote_addr = (uintptr_t)&pair->far.words[at],
            .compare_add = expected,
            .swap = desired,
            .rkey = pair->far.mr->rkey,
        },
    };
    struct ibv_send_wr *refused = NULL;

    if (pair->begun - pair->ended >= pair->depth)
        return 0;
    if (ibv_post_send(pair->near.qp, &wanted, &refused) != 0)
        return -1;
    pair->begun++;
    return 1;
}

/*
 * Returns the count of completed swaps, at most `room`, with the number and the found value of
 * each. -1: a swap failed and the connection is broken.
 */
int covalent_bench_rxe_poll(struct pair *pair, uint64_t *numbers, uint64_t *found, int room)
{
    struct ibv_wc taken[TAKEN_MAX];
    int count = pair->broken ? -1 : ibv_poll_cq(pair->near.cq, room < TAKEN_MAX ? room : TAKEN_MAX, taken);

    for (int at = 0; at < count; at++) {
        pair->ended++;
        if (taken[at].status != IBV_WC_SUCCESS) {
            pair->broken = true;
            return at == 0 ? -1 : at;
        }
        numbers[at] = taken[at].wr_id;
        found[at] = pair->near.words[taken[at].wr_id % pair->depth];
    }
    return count;
}
