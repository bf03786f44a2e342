/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups: open, split, close, and what is done on all ranks from one thread
 */

#include "api/group.h"

#include <stdlib.h>
#include <string.h>

#include "api/comm.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/status.h"
#include "core/native.h"
#include "core/owner.h"
#include "core/submit.h"

#define DEFAULT_SLOTS 2048
#define MIN_SLOTS 16
#define MAX_SLOTS 65536
#define DEFAULT_CLOSE_NS (60 * NS_PER_S)
#define DEFAULT_ABORT_NS (10 * NS_PER_S)

static int group_check(const struct cohort_group *group)
{
	if (!group)
		return error_set(COHORT_INVALID, "group is NULL");
	return process_check();
}

/* ---- options ---------------------------------------------------------- */

void cohort_group_options_init(struct cohort_group_options *options)
{
	*options = (struct cohort_group_options){
		.size = sizeof(*options),
		.name = "cohort",
		.platform = COHORT_PLATFORM_AUTO,
		.recorder_slots = DEFAULT_SLOTS,
		.close_timeout_ns = DEFAULT_CLOSE_NS,
		.abort_timeout_ns = DEFAULT_ABORT_NS,
	};
}

/* The caller's options over the defaults.  An older caller's structure is
 * shorter, a newer one's may be longer if what is beyond asks for nothing. */
static int options_read(const struct cohort_group_options *given,
                        struct cohort_group_options *o)
{
	const unsigned char *bytes = (const unsigned char *)given;
	size_t i;

	cohort_group_options_init(o);
	if (!given)
		return COHORT_OK;
	if (given->size < offsetof(struct cohort_group_options, platform) ||
	    given->size > 4096)
		return error_set(COHORT_INVALID,
		                 "options->size is %zu; was "
		                 "cohort_group_options_init() called?",
		                 given->size);
	for (i = sizeof(*o); i < given->size; i++)
		if (bytes[i])
			return error_set(COHORT_INVALID,
			                 "options asks for something that "
			                 "version %s does not know (byte %zu)",
			                 cohort_version(), i);
#define READ(field)                                                            \
	if (given->size >= offsetof(struct cohort_group_options, field) +      \
	                           sizeof(o->field) &&                         \
	    given->field)                                                      \
		o->field = given->field;
	READ(name)
	READ(platform)
	READ(recorder_slots)
	READ(close_timeout_ns)
	READ(abort_timeout_ns)
#undef READ
	return COHORT_OK;
}

static int options_check(const struct cohort_group_options *o)
{
	if (o->recorder_slots < MIN_SLOTS || o->recorder_slots > MAX_SLOTS ||
	    (o->recorder_slots & (o->recorder_slots - 1)))
		return error_set(COHORT_INVALID,
		                 "options->recorder_slots is %u, not a power "
		                 "of two from %d to %d",
		                 o->recorder_slots, MIN_SLOTS, MAX_SLOTS);
	return COHORT_OK;
}

/* ---- opening ---------------------------------------------------------- */

/* Refuse what NCCL would take with a leak, or find out late. */
static int devices_check(const int *devices, int n, int count)
{
	int i, k;

	for (i = 0; i < n; i++) {
		if (devices[i] < 0 || devices[i] >= count)
			return error_set(COHORT_INVALID,
			                 "devices[%d] is %d, not 0 to %d", i,
			                 devices[i], count - 1);
		for (k = 0; k < i; k++)
			if (devices[k] == devices[i])
				return error_set(COHORT_INVALID,
				                 "devices[%d] is %d, as is "
				                 "devices[%d]",
				                 i, devices[i], k);
	}
	return COHORT_OK;
}

/* The device list to open, in memory of its own. */
static int devices_list(const struct platform *p, const int *devices, int n,
                        int **list_out, int *n_out)
{
	int count, i, *list;
	int rc = native_cuda(p, "cudaGetDeviceCount",
	                     p->cudaGetDeviceCount(&count));

	if (rc != COHORT_OK)
		return rc;
	if (!devices && !n)
		n = count;
	if (n < 1 || n > count)
		return error_set(COHORT_INVALID,
		                 "n is %d, but the %s platform has %d device%s",
		                 n, p->name, count, count == 1 ? "" : "s");
	rc = devices ? devices_check(devices, n, count) : COHORT_OK;
	if (rc != COHORT_OK)
		return rc;
	list = malloc((size_t)n * sizeof(*list));
	if (!list)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks", n);
	for (i = 0; i < n; i++)
		list[i] = devices ? devices[i] : i;
	*list_out = list;
	*n_out = n;
	return COHORT_OK;
}

/* What would change the meaning of NCCL's calls behind our back. */
static int environment_check(void)
{
	static const struct {
		const char *name, *value, *why;
	} refused[] = {
		{ "NCCL_COMM_BLOCKING", "0",
		  "calls would return before they are done" },
		{ "NCCL_LAUNCH_MODE", "GROUP",
		  "ranks would wait for each other where no abort reaches" },
	};
	const char *value;
	size_t i;

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		value = getenv(refused[i].name);
		if (value && strcmp(value, refused[i].value) == 0)
			return error_set(COHORT_INVALID,
			                 "%s is \"%s\" in the environment: %s",
			                 refused[i].name, value,
			                 refused[i].why);
	}
	return COHORT_OK;
}

static int open_clique(const int *devices, int n,
                       const struct cohort_group_options *o,
                       struct clique **out)
{
	const struct clique_options options = {
		.name = o->name,
		.slots = o->recorder_slots,
		.close_timeout_ns = o->close_timeout_ns,
		.abort_timeout_ns = o->abort_timeout_ns,
	};
	const struct platform *platform;
	int *list = NULL, rc;

	rc = environment_check();
	if (rc == COHORT_OK)
		rc = platform_open(o->platform, &platform);
	if (rc == COHORT_OK)
		rc = devices_list(platform, devices, n, &list, &n);
	if (rc != COHORT_OK)
		return rc;
	rc = clique_create(platform, list, n, &options, out);
	free(list);
	return rc;
}

int cohort_group_open(const int *devices, int n,
                      const struct cohort_group_options *options,
                      struct cohort_group **group)
{
	struct cohort_group_options o;
	struct cohort_group *g;
	int rc;

	if (!group)
		return error_set(COHORT_INVALID, "group is NULL");
	process_watch();
	rc = process_check();
	if (rc == COHORT_OK)
		rc = options_read(options, &o);
	if (rc == COHORT_OK)
		rc = options_check(&o);
	if (rc != COHORT_OK)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	rc = open_clique(devices, n, &o, &g->clique);
	if (rc != COHORT_OK) {
		free(g);
		return rc;
	}
	*group = g;
	return COHORT_OK;
}

int cohort_group_split(struct cohort_group *group, struct cohort_comm *comms[])
{
	const struct cohort_cause *cause;
	int i, rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!comms)
		return error_set(COHORT_INVALID, "comms is NULL");
	cause = clique_cause(group->clique);
	if (cause)
		return error_set(COHORT_STATE, "the group has ended: %s",
		                 cause->text);
	if (atomic_exchange(&group->split, true))
		return error_set(COHORT_STATE,
		                 "the group has been split already");
	for (i = 0; i < group->clique->size; i++)
		comms[i] = &group->clique->comms[i];
	return COHORT_OK;
}

/* ---- closing ---------------------------------------------------------- */

static int close_check(struct cohort_group *group)
{
	int i;

	if (atomic_load(&group->running))
		return error_set(COHORT_STATE,
		                 "cohort_group_run() is under way");
	for (i = 0; i < group->clique->size; i++)
		if (atomic_load(&group->clique->comms[i].gate))
			return error_set(COHORT_STATE,
			                 "a thread is inside the communicator "
			                 "of rank %d",
			                 i);
	return COHORT_OK;
}

/* Wait for every rank's last ticket.  COHORT_TIMED_OUT and the rank if one is
 * not done in time. */
static int close_wait(struct cohort_group *group, int *rank)
{
	uint64_t deadline = clock_deadline(group->clique->close_timeout_ns);
	struct clique *q = group->clique;
	int rc = COHORT_OK;

	for (*rank = 0; *rank < q->size && rc == COHORT_OK; ++*rank)
		rc = comm_await_all(&q->comms[*rank], deadline);
	--*rank;
	return rc;
}

/* End the clique one way or the other.  What close answers, but for WEDGED. */
static int close_end(struct cohort_group *group)
{
	struct clique *q = group->clique;
	struct cohort_cause cause = { .status = COHORT_ABORTED };
	int rank, rc = close_wait(group, &rank);

	if (rc == COHORT_OK)
		cause_set_closing(q->end);
	if (rc != COHORT_TIMED_OUT || clique_cause(q))
		return COHORT_OK; /* it was over already, which is no news */
	cause.rank = rank;
	cause.ticket = atomic_load(&q->comms[rank].last);
	rc = error_set(COHORT_ABORTED,
	               "closed after %llu ms with operations of rank %d in "
	               "flight",
	               (unsigned long long)(q->close_timeout_ns / 1000000),
	               rank);
	clique_fire(q, &cause, "%s", cohort_last_error());
	return rc;
}

int cohort_group_close(struct cohort_group *group)
{
	uint64_t deadline;
	struct clique *q;
	int rc;

	if (!group)
		return COHORT_OK;
	rc = process_check();
	if (rc == COHORT_OK)
		rc = close_check(group);
	if (rc != COHORT_OK)
		return rc;
	q = group->clique;
	rc = close_end(group);
	owner_forget(q);
	deadline = clock_deadline(q->abort_timeout_ns);
	clique_await(q, CLIQUE_RECLAIMED, deadline);
	sem_post(&q->unused);
	if (clique_await(q, CLIQUE_RELEASED, deadline) == CLIQUE_RELEASED) {
		clique_destroy(q);
	} else {
		rc = error_set(
			COHORT_WEDGED,
			"the native communicators could not be %s within %llu "
			"ms and are leaked",
			clique_cause(q) ? "aborted" : "destroyed",
			(unsigned long long)(q->abort_timeout_ns / 1000000));
		clique_leak(q);
	}
	free(group);
	return rc;
}

int cohort_group_abort(struct cohort_group *group, const char *reason)
{
	int rc = group_check(group);

	return rc == COHORT_OK ? cause_set_aborted(group->clique->end, reason)
	                       : rc;
}

/* ---- facts ------------------------------------------------------------ */

int cohort_group_size(const struct cohort_group *group)
{
	return group ? group->clique->size : -1;
}

int cohort_group_platform(const struct cohort_group *group)
{
	return group ? group->clique->platform->kind : -1;
}

int cohort_group_devices(const struct cohort_group *group, int *devices)
{
	int i, rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!devices)
		return error_set(COHORT_INVALID, "devices is NULL");
	for (i = 0; i < group->clique->size; i++)
		devices[i] = group->clique->comms[i].device;
	return COHORT_OK;
}

void cause_copy(const struct clique *clique, struct cohort_cause *out)
{
	const struct cohort_cause *cause = clique_cause(clique);

	*out = cause ? *cause : (struct cohort_cause){ .rank = -1 };
}

int cohort_group_cause(const struct cohort_group *group,
                       struct cohort_cause *cause)
{
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!cause)
		return error_set(COHORT_INVALID, "cause is NULL");
	cause_copy(group->clique, cause);
	return COHORT_OK;
}

/* ---- collectives of all ranks ----------------------------------------- */

/* One operation per rank with one tensor each, submitted together.  @op has
 * what they share. */
static int submit_group(struct cohort_group *group, const struct op *shared,
                        const void *const send[], void *const recv[],
                        size_t count, int type, void *const streams[],
                        uint64_t *ticket)
{
	struct clique *q = group->clique;
	struct cohort_tensor *tensors;
	struct op *ops;
	int i, rc;

	tensors = malloc((size_t)q->size * sizeof(*tensors));
	ops = malloc((size_t)q->size * sizeof(*ops));
	for (i = 0; tensors && ops && i < q->size; i++) {
		tensors[i] =
			(struct cohort_tensor){ send[i], recv[i], count, type };
		ops[i] = *shared;
		ops[i].tensors = &tensors[i];
		ops[i].n = 1;
		ops[i].stream = streams ? streams[i] : q->comms[i].stream;
	}
	rc = tensors && ops ? submit(q->comms, q->size, ops, ticket)
	                    : error_set(COHORT_NO_MEMORY, "out of memory");
	free(ops);
	free(tensors);
	return rc;
}

static int submit_group_check(const struct cohort_group *group,
                              const void *send, const void *recv)
{
	int rc = group_check(group);

	if (rc != COHORT_OK)
		return rc;
	if (!send || !recv)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 send ? "recv" : "send");
	if (atomic_load(&group->split))
		return error_set(COHORT_STATE,
		                 "the group was split: each rank speaks for "
		                 "itself");
	return COHORT_OK;
}

int cohort_group_all_reduce(struct cohort_group *group,
                            const void *const send[], void *const recv[],
                            size_t count, int type, int op,
                            void *const streams[], uint64_t *ticket)
{
	const struct op shared = { .kind = OP_ALL_REDUCE, .redop = op };
	int rc = submit_group_check(group, send, recv);

	if (rc != COHORT_OK)
		return rc;
	return submit_group(group, &shared, send, recv, count, type, streams,
	                    ticket);
}

int cohort_group_broadcast(struct cohort_group *group, const void *const send[],
                           void *const recv[], size_t count, int type, int root,
                           void *const streams[], uint64_t *ticket)
{
	const struct op shared = { .kind = OP_BROADCAST, .root = root };
	int rc = submit_group_check(group, send, recv);

	if (rc != COHORT_OK)
		return rc;
	return submit_group(group, &shared, send, recv, count, type, streams,
	                    ticket);
}

int cohort_group_wait(struct cohort_group *group, uint64_t ticket,
                      uint64_t timeout_ns)
{
	uint64_t deadline = clock_deadline(timeout_ns);
	int i, rc = group_check(group);

	for (i = 0; rc == COHORT_OK && i < group->clique->size; i++)
		rc = comm_await(&group->clique->comms[i], ticket, deadline);
	return rc;
}
