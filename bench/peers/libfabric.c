/*
 * libfabric's provider `shm`.
 *
 * Configured like fabtests' fi_rdm_pingpong: a reliable datagram endpoint with FI_MSG, one address
 * vector, and one completion queue for both directions without a wait object. Receives are posted
 * ahead with fi_recv. Messages up to the provider's inject_size use fi_inject, which copies and
 * generates no completion; longer ones use fi_send. FI_THREAD_DOMAIN and manual progress: one
 * thread uses it, and reads of the completion queue drive the provider.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "messages.h"
#include "slots.h"

/* Completions read at a time. */
enum { COMPLETIONS = 16 };

struct messenger {
    struct slots slots;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *completions;
    struct fid_ep *endpoint;
    fi_addr_t peer;
    char problem[256];
};

static void version(char *text, size_t room)
{
    uint32_t version = fi_version();

    snprintf(text, room, "API %u.%u", FI_MAJOR(version), FI_MINOR(version));
}

static int fail(struct messenger *this, const char *what, ssize_t error)
{
    snprintf(this->problem, sizeof(this->problem), "%s: %s", what, fi_strerror((int)-error));
    return -1;
}

/* Reads completions, which drives the provider. */
static int work(struct messenger *this)
{
    struct fi_cq_msg_entry entries[COMPLETIONS];
    ssize_t count = fi_cq_read(this->completions, entries, COMPLETIONS);

    if (count == -FI_EAGAIN)
        return 0;
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(this->completions, &error, 0);
        return fail(this, "a completion", -error.err);
    }
    if (count < 0)
        return fail(this, "fi_cq_read", count);
    for (ssize_t at = 0; at < count; at++) {
        if (entries[at].flags & FI_RECV) {
            struct incoming *slot = entries[at].op_context;
            slot->length = entries[at].len;
            slot->arrived = true;
        } else {
            struct outgoing *slot = entries[at].op_context;
            slot->done = true;
        }
    }
    return 0;
}

/* Posts every free buffer. */
static int post(struct messenger *this)
{
    struct incoming *slot;

    while ((slot = slots_next_free(&this->slots)) != NULL) {
        slots_renew(slot);
        ssize_t posted = fi_recv(this->endpoint, slot->bytes, this->slots.bytes_max, NULL, FI_ADDR_UNSPEC, slot);
        if (posted == -FI_EAGAIN)
            return 0;
        if (posted != 0)
            return fail(this, "fi_recv", posted);
        this->slots.posted++;
    }
    return 0;
}

static void close_if_open(struct fid *object)
{
    if (object != NULL)
        fi_close(object);
}

static void close_messenger(struct messenger *this)
{
    close_if_open(this->endpoint ? &this->endpoint->fid : NULL);
    close_if_open(this->completions ? &this->completions->fid : NULL);
    close_if_open(this->addresses ? &this->addresses->fid : NULL);
    close_if_open(this->domain ? &this->domain->fid : NULL);
    close_if_open(this->fabric ? &this->fabric->fid : NULL);
    if (this->info != NULL)
        fi_freeinfo(this->info);
    slots_close(&this->slots);
    free(this);
}

static struct messenger *open_messenger(const char *name, size_t bytes_max, size_t depth, char *problem, size_t room)
{
    struct messenger *this = calloc(1, sizeof(*this));
    struct fi_info *hints = fi_allocinfo();
    const char *what = "allocating";
    int error = -FI_ENOMEM;

    if (this == NULL || hints == NULL || !slots_open(&this->slots, bytes_max, depth))
        goto failed;
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
    hints->fabric_attr->prov_name = strdup("shm");
    what = "fi_getinfo for the provider shm";
    /* A unique name for the shared memory distinguishes leftovers of a killed process. */
    char source[128];
    snprintf(source, sizeof(source), "fi_ns://%s", name);
    if ((error = fi_getinfo(FI_VERSION(1, 17), source, NULL, FI_SOURCE, hints, &this->info)) != 0)
        goto failed;
    what = "fi_fabric";
    if ((error = fi_fabric(this->info->fabric_attr, &this->fabric, NULL)) != 0)
        goto failed;
    what = "fi_domain";
    if ((error = fi_domain(this->fabric, this->info, &this->domain, NULL)) != 0)
        goto failed;
    struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 1};
    what = "fi_av_open";
    if ((error = fi_av_open(this->domain, &av, &this->addresses, NULL)) != 0)
        goto failed;
    struct fi_cq_attr cq = {.size = 2 * depth, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    what = "fi_cq_open";
    if ((error = fi_cq_open(this->domain, &cq, &this->completions, NULL)) != 0)
        goto failed;
    what = "fi_endpoint";
    if ((error = fi_endpoint(this->domain, this->info, &this->endpoint, NULL)) != 0)
        goto failed;
    what = "fi_ep_bind";
    if ((error = fi_ep_bind(this->endpoint, &this->addresses->fid, 0)) != 0 ||
        (error = fi_ep_bind(this->endpoint, &this->completions->fid, FI_TRANSMIT | FI_RECV)) != 0)
        goto failed;
    what = "fi_enable";
    if ((error = fi_enable(this->endpoint)) != 0)
        goto failed;
    what = "posting a receive";
    if (post(this) != 0) {
        error = -FI_EIO;
        goto failed;
    }
    fi_freeinfo(hints);
    return this;

failed:
    snprintf(problem, room, "%s: %s", what, fi_strerror(-error));
    if (hints != NULL)
        fi_freeinfo(hints);
    if (this != NULL)
        close_messenger(this);
    return NULL;
}

static size_t address(struct messenger *this, void *room_for_it, size_t room)
{
    size_t bytes = room;

    return fi_getname(&this->endpoint->fid, room_for_it, &bytes) == 0 ? bytes : 0;
}

static int connect_messenger(struct messenger *this, const void *address, size_t bytes)
{
    (void)bytes;
    int inserted = fi_av_insert(this->addresses, address, 1, &this->peer, 0, NULL);
    return inserted == 1 ? 0 : fail(this, "fi_av_insert", inserted < 0 ? inserted : -FI_EADDRNOTAVAIL);
}

static int send_message(struct messenger *this, const void *bytes, size_t length)
{
    struct outgoing *slot = slots_next_outgoing(&this->slots);
    bool copies = length <= this->info->tx_attr->inject_size;
    ssize_t taken = -FI_EAGAIN;

    if (slot != NULL)
        taken = copies ? fi_inject(this->endpoint, bytes, length, this->peer)
                       : fi_send(this->endpoint, bytes, length, NULL, this->peer, slot);
    if (taken == -FI_EAGAIN)
        return 0;
    if (taken != 0)
        return fail(this, copies ? "fi_inject" : "fi_send", taken);
    slot->done = copies;
    this->slots.begun++;
    return 1;
}

static uint64_t sent(struct messenger *this)
{
    return slots_sent(&this->slots);
}

static int receive(struct messenger *this, void **bytes, size_t *length)
{
    if (post(this) != 0)
        return -1;
    if (slots_next_arrived(&this->slots) == NULL && work(this) != 0)
        return -1;
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

const struct message_library covalent_bench_libfabric = {
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
