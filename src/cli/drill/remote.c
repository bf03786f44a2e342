/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Cells in which the missing rank belongs to another process
 *
 * The simulated devices connect ranks of one process only.  Therefore the victim joins
 * by NCCL's own functions, and the library knows as little of it as of a rank in another
 * process.  The other ranks join by id, and one thread calls for all of them.
 */

#include "cli/drill/drill.h"

#include "api/join.h"
#include "base/clock.h"
#include "base/thread.h"

/* The rank that stands for one of another process. */
struct stranger {
	const struct platform *platform;
	ncclUniqueId id;
	ncclComm_t comm;
	cudaStream_t stream;
	float *tensor;
};

struct joiner {
	struct drill_rank *rank;
	const struct cohort_unique_id *id;
};

/* ---- joining ---------------------------------------------------------- */

static void *join_main(void *arg)
{
	struct joiner *j = arg;
	struct drill_rank *k = j->rank;
	struct drill_run *run = k->run;

	drill_must(run,
	           cohort_comm_join(j->id, run->n, k->number, k->number,
	                            &run->group_options, &k->comm),
	           "join");
	return NULL;
}

/* Connect all ranks, which takes until the last one has come. */
static bool connect(struct drill_run *run, struct stranger *s)
{
	const struct platform *p = s->platform;
	int victim = drill_victim(run);

	if (p->cudaSetDevice(victim) == cudaSuccess &&
	    p->cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) ==
	            cudaSuccess &&
	    p->ncclCommInitRank(&s->comm, run->n, s->id, victim) == ncclSuccess)
		return true;
	drill_complain(run, "the rank of another process cannot join");
	return false;
}

static bool join_all(struct drill_run *run, struct stranger *s)
{
	struct joiner joiners[DRILL_MOST_RANKS];
	struct cohort_unique_id id;
	bool connected;
	int r, n;

	if (!drill_must(run, cohort_unique_id(&id), "an id"))
		return false;
	s->id = join_native_id(&id, &s->platform);
	for (n = 0; n < run->n - 1; n++) {
		struct drill_rank *k = &run->ranks[n];

		k->run = run;
		k->number = n;
		joiners[n] = (struct joiner){ k, &id };
		if (thread_start(&k->thread, join_main, &joiners[n], "drill/%d",
		                 n)) {
			drill_complain(run, "a thread could not be started");
			break;
		}
	}
	connected = connect(run, s);
	for (r = 0; r < n; r++)
		pthread_join(run->ranks[r].thread, NULL);
	for (r = 0; r < run->n - 1; r++)
		connected &= run->ranks[r].comm != NULL;
	return connected;
}

/* ---- calls ------------------------------------------------------------ */

static int reduce(struct drill_rank *k, uint64_t *ticket)
{
	float *t = drill_tensor(k, 0);

	return cohort_all_reduce(k->comm, t, t, DRILL_COUNT, COHORT_F32,
	                         COHORT_SUM,
	                         ticket ? cohort_comm_stream(k->comm) : NULL,
	                         ticket);
}

static int call_batch(struct drill_rank *k, uint64_t *ticket)
{
	int ended, rc = cohort_batch_begin(k->comm);

	if (rc != COHORT_OK)
		return rc;
	rc = reduce(k, NULL);
	if (rc == COHORT_OK)
		rc = reduce(k, NULL);
	ended = cohort_batch_end(k->comm, cohort_comm_stream(k->comm), ticket);
	return rc != COHORT_OK ? rc : ended;
}

/* Make the call of the place. */
static int call(struct drill_rank *k, uint64_t *ticket)
{
	struct drill_run *run = k->run;

	switch (run->place) {
	case AT_BATCH:
		return call_batch(k, ticket);
	case AT_TRANSFER:
		if (k->number < drill_victim(run) - 1)
			return COHORT_OK;
		return cohort_send(k->comm, drill_tensor(k, 0), DRILL_COUNT,
		                   COHORT_F32, drill_victim(run),
		                   cohort_comm_stream(k->comm), ticket);
	default:
		return reduce(k, ticket);
	}
}

/* The calls of all ranks but the stranger, each in a thread of its own. */
struct calls {
	struct caller {
		struct drill_rank *k;
		int (*call)(struct drill_rank *k, uint64_t *ticket);
		uint64_t ticket; /* 0: none */
	} of[DRILL_MOST_RANKS];
	int n; /* threads that run */
};

static void *call_main(void *arg)
{
	struct caller *c = arg;
	int rc = c->call(c->k, &c->ticket);

	/* NCCL may connect, and wait for the stranger, inside the first call. */
	if (rc != COHORT_STALLED)
		drill_must(c->k->run, rc, "call");
	return NULL;
}

static void begin_calls(struct drill_run *run, struct calls *calls,
                        int (*make)(struct drill_rank *k, uint64_t *ticket))
{
	for (calls->n = 0; calls->n < run->n - 1; calls->n++) {
		struct drill_rank *k = &run->ranks[calls->n];

		calls->of[calls->n] = (struct caller){ k, make, 0 };
		if (thread_start(&k->thread, call_main, &calls->of[calls->n],
		                 "drill/%d", calls->n)) {
			drill_complain(run, "a thread could not be started");
			break;
		}
	}
}

static void end_calls(struct calls *calls)
{
	int r;

	for (r = 0; r < calls->n; r++)
		pthread_join(calls->of[r].k->thread, NULL);
}

/* Make a first collective with all ranks, which may have until the init deadline
 * to connect them.  The stranger calls while the others do: NCCL may connect the
 * ranks inside the call. */
static bool warm_up(struct drill_run *run, struct stranger *s)
{
	struct calls calls;
	int r, rc = COHORT_OK;

	if (run->place == AT_FIRST || run->place == AT_TRANSFER)
		return true;
	begin_calls(run, &calls, reduce);
	if (s->platform->ncclAllReduce(s->tensor, s->tensor, DRILL_COUNT,
	                               ncclFloat32, ncclSum, s->comm,
	                               s->stream) != ncclSuccess)
		drill_complain(run, "the rank of another process cannot call");
	end_calls(&calls);
	for (r = 0; r < calls.n && rc == COHORT_OK; r++)
		rc = cohort_wait(run->ranks[r].comm, calls.of[r].ticket,
		                 DRILL_LIMIT_NS);
	return drill_must(run, rc, "warm up");
}

/* All ranks but the stranger call, and must have the right answers. */
static void call_all(struct drill_run *run)
{
	struct cohort_cause cause = { .status = COHORT_OK };
	struct calls calls;
	int r, rc;

	atomic_store(&run->own->began_ns, clock_now());
	begin_calls(run, &calls, call);
	end_calls(&calls);
	for (r = 0; r < calls.n; r++) {
		if (!calls.of[r].ticket)
			continue;
		rc = cohort_wait(run->ranks[r].comm, calls.of[r].ticket,
		                 DRILL_LIMIT_NS);
		if (rc != COHORT_STALLED)
			drill_complain(run, "the call of rank %d returned %s",
			               r, cohort_status_text(rc));
	}
	cohort_comm_cause(run->ranks[0].comm, &cause);
	if (cause.status != COHORT_OK)
		drill_keep(run, &cause);
}

/* ---- the whole -------------------------------------------------------- */

/* Destroy the stranger's communicator, which is freed when the last of all ranks
 * is. */
static void leave(struct stranger *s)
{
	if (s->comm)
		s->platform->ncclCommAbort(s->comm);
	if (s->stream)
		s->platform->cudaStreamDestroy(s->stream);
}

/* Close a communicator, which must return the cause. */
static void close_rank(struct drill_run *run, struct cohort_comm *comm)
{
	int rc = cohort_comm_close(comm);

	if (rc != COHORT_STALLED)
		drill_must(run, rc, "close");
}

void drill_with_remote(struct drill_run *run)
{
	struct stranger s = { .tensor = run->ranks[drill_victim(run)].tensors };
	int r;

	if (join_all(run, &s) && warm_up(run, &s))
		call_all(run);
	leave(&s);
	for (r = 0; r < run->n - 1; r++)
		if (run->ranks[r].comm)
			close_rank(run, run->ranks[r].comm);
}
