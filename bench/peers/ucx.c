/*
 * UCX tag matching over shared memory.
 *
 * Configured like ucx_perftest's tag_lat and tag_bw: one worker in mode SINGLE, progressed by the
 * thread that uses it; ucp_tag_send_nbx and ucp_tag_recv_nbx with one tag; receives posted ahead.
 * UCX_TLS is posix,cma,self: messages up to about 8 KiB are copied through POSIX shared memory.
 * Longer ones are read with process_vm_readv after a rendezvous.
 */
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "messages.h"
#include "slots.h"

enum { TAG = 1 };

/* Progress calls of a close for canceled requests before it gives up. */
enum { ROUNDS_TO_CLOSE = 10000 };

struct messenger {
    struct slots slots;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h peer;
    /* Requests of posted receives, for cancellation. */
    void **receiving;
    char problem[256];
};

static void version(char *text, size_t room)
{
    snprintf(text, room, "%s", ucp_get_version_string());
}

static int fail(struct messenger *this, const char *what, ucs_status_t status)
{
    snprintf(this->problem, sizeof(this->problem), "%s: %s", what, ucs_status_string(status));
    return -1;
}

static void has_arrived(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct incoming *slot = user_data;

    ucp_request_free(request);
    if (status == UCS_ERR_CANCELED)
        return;
    slot->failed = status != UCS_OK;
    slot->length = status == UCS_OK ? info->length : 0;
    slot->arrived = true;
}

static void has_been_sent(void *request, ucs_status_t status, void *user_data)
{
    struct outgoing *slot = user_data;

    (void)status;
    ucp_request_free(request);
    slot->done = true;
}

/* Posts every free buffer. */
static int post(struct messenger *this)
{
    struct incoming *slot;

    while ((slot = slots_next_free(&this->slots)) != NULL) {
        ucp_tag_recv_info_t info;
        ucp_request_param_t param = {
            .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO,
            .cb.recv = has_arrived,
            .user_data = slot,
            .recv_info.tag_info = &info,
        };
        void **receiving = &this->receiving[this->slots.posted % this->slots.depth];
        slots_renew(slot);
        ucs_status_ptr_t request = ucp_tag_recv_nbx(this->worker, slot->bytes, this->slots.bytes_max, TAG, ~0ULL, &param);
        if (UCS_PTR_IS_ERR(request))
            return fail(this, "ucp_tag_recv_nbx", UCS_PTR_STATUS(request));
        *receiving = request;
        if (request == NULL) {
            /* Completed immediately: no callback follows. */
            slot->length = info.length;
            slot->arrived = true;
        }
        this->slots.posted++;
    }
    return 0;
}

/*
 * Waits for a request, up to ROUNDS_TO_CLOSE rounds. A worker that is destroyed while it reads from
 * the other process aborts.
 */
static void settle(struct messenger *this, ucs_status_ptr_t request)
{
    for (int round = 0; round < ROUNDS_TO_CLOSE && UCS_PTR_IS_PTR(request); round++) {
        ucp_worker_progress(this->worker);
        if (ucp_request_check_status(request) != UCS_INPROGRESS)
            break;
    }
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

static void close_messenger(struct messenger *this)
{
    if (this->worker != NULL) {
        for (uint64_t at = this->slots.lent; at < this->slots.posted; at++) {
            struct incoming *slot = &this->slots.incoming[at % this->slots.depth];
            void *request = this->receiving[at % this->slots.depth];
            if (!slot->arrived && request != NULL)
                ucp_request_cancel(this->worker, request);
        }
        ucp_request_param_t flush = {0};
        settle(this, ucp_worker_flush_nbx(this->worker, &flush));
        if (this->peer != NULL) {
            ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                .flags = UCP_EP_CLOSE_FLAG_FORCE,
            };
            settle(this, ucp_ep_close_nbx(this->peer, &param));
        }
        ucp_worker_destroy(this->worker);
    }
    if (this->context != NULL)
        ucp_cleanup(this->context);
    slots_close(&this->slots);
    free(this->receiving);
    free(this);
}

static struct messenger *open_messenger(const char *name, size_t bytes_max, size_t depth, char *problem, size_t room)
{
    struct messenger *this = calloc(1, sizeof(*this));
    ucp_config_t *config = NULL;
    const char *what;
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    /* UCX shared memory has no name: the other side opens it through /proc. */
    (void)name;
    if (this == NULL || !slots_open(&this->slots, bytes_max, depth) ||
        (this->receiving = calloc(depth, sizeof(*this->receiving))) == NULL) {
        what = "allocating";
        goto failed;
    }
    what = "ucp_config_read";
    if ((status = ucp_config_read(NULL, NULL, &config)) != UCS_OK)
        goto failed;
    what = "ucp_config_modify TLS";
    if ((status = ucp_config_modify(config, "TLS", "posix,cma,self")) != UCS_OK)
        goto failed;
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
        .features = UCP_FEATURE_TAG,
        .estimated_num_eps = 1,
    };
    what = "ucp_init";
    if ((status = ucp_init(&params, config, &this->context)) != UCS_OK)
        goto failed;
    ucp_config_release(config);
    config = NULL;
    ucp_worker_params_t worker = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    what = "ucp_worker_create";
    if ((status = ucp_worker_create(this->context, &worker, &this->worker)) != UCS_OK)
        goto failed;
    what = "posting a receive";
    if (post(this) != 0) {
        status = UCS_ERR_IO_ERROR;
        goto failed;
    }
    return this;

failed:
    snprintf(problem, room, "%s: %s", what, ucs_status_string(status));
    if (config != NULL)
        ucp_config_release(config);
    if (this != NULL)
        close_messenger(this);
    return NULL;
}

static size_t address(struct messenger *this, void *room_for_it, size_t room)
{
    ucp_address_t *mine;
    size_t bytes;

    if (ucp_worker_get_address(this->worker, &mine, &bytes) != UCS_OK)
        return 0;
    if (bytes <= room)
        memcpy(room_for_it, mine, bytes);
    ucp_worker_release_address(this->worker, mine);
    return bytes <= room ? bytes : 0;
}

static int connect_messenger(struct messenger *this, const void *address, size_t bytes)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = address,
    };
    (void)bytes;
    ucs_status_t status = ucp_ep_create(this->worker, &params, &this->peer);
    return status == UCS_OK ? 0 : fail(this, "ucp_ep_create", status);
}

static int send_message(struct messenger *this, const void *bytes, size_t length)
{
    struct outgoing *slot = slots_next_outgoing(&this->slots);
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = has_been_sent,
        .user_data = slot,
    };

    if (slot == NULL)
        return 0;
    ucs_status_ptr_t request = ucp_tag_send_nbx(this->peer, bytes, length, TAG, &param);
    if (UCS_PTR_IS_ERR(request))
        return fail(this, "ucp_tag_send_nbx", UCS_PTR_STATUS(request));
    if (request == NULL)
        slot->done = true;
    this->slots.begun++;
    return 1;
}

static int work(struct messenger *this)
{
    ucp_worker_progress(this->worker);
    return 0;
}

static uint64_t sent(struct messenger *this)
{
    return slots_sent(&this->slots);
}

static int receive(struct messenger *this, void **bytes, size_t *length)
{
    if (post(this) != 0)
        return -1;
    if (slots_next_arrived(&this->slots) == NULL)
        ucp_worker_progress(this->worker);
    return slots_lend(&this->slots, bytes, length, this->problem, sizeof(this->problem));
}

static int answer(struct messenger *this)
{
    struct incoming *lent = slots_lent(&this->slots);

    if (lent == NULL || lent->answer != 0) {
        snprintf(this->problem, sizeof(this->problem), "there is no message to send back");
        return -1;
    }
    int taken = send_message(this, lent->bytes, lent->length);
    if (taken == 1)
        lent->answer = this->slots.begun;
    return taken;
}

static const char *problem_of(struct messenger *this)
{
    return this->problem;
}

const struct message_library covalent_bench_ucx = {
    .version = version,
    .open = open_messenger,
    .address = address,
    .connect = connect_messenger,
    .send = send_message,
    .sent = sent,
    .work = work,
    .receive = receive,
    .answer = answer,
    .problem = problem_of,
    .close = close_messenger,
};
