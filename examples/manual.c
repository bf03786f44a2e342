/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The examples of the manual pages, run one after the other
 *
 * scripts/manual.py copies each function after an "Example:" comment into the
 * pages that the comment names.
 */

#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <cohort/cohort.h>

#define SECOND UINT64_C(1000000000)

/* Example: cohort_group_options_init, cohort_group_open, cohort_group_close */
static struct cohort_group *open_all_devices(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	int rc;

	cohort_group_options_init(&options);
	options.name = "trainer";
	options.deadlines.join_ns = 30 * SECOND;
	options.deadlines.exec_ns = 30 * SECOND;
	rc = cohort_group_open(NULL, 0, &options, &group);
	if (rc != COHORT_OK) {
		fprintf(stderr, "cannot open the group: %s\n",
		        cohort_last_error());
		return NULL;
	}
	return group; /* to be closed by cohort_group_close() */
}

/* Example: cohort_group_size */
static void *new_array_of_pointers(struct cohort_group *group)
{
	/* Group-level calls take one pointer for each rank. */
	return calloc(cohort_group_size(group), sizeof(void *));
}

/* Example: cohort_all_reduce, cohort_wait, cohort_comm_stream */
static int average(struct cohort_comm *comm, float *gradient, size_t count)
{
	uint64_t ticket;
	int rc;

	rc = cohort_all_reduce(comm, gradient, gradient, count, COHORT_F32,
	                       COHORT_AVG, cohort_comm_stream(comm), &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(comm, ticket, COHORT_FOREVER);
	if (rc != COHORT_OK)
		fprintf(stderr, "no average: %s\n", cohort_last_error());
	return rc;
}

/* Example: cohort_alloc, cohort_copy, cohort_free */
static int average_loss(struct cohort_comm *comm, float *loss)
{
	void *stream = cohort_comm_stream(comm);
	void *memory;
	int rc = cohort_alloc(comm, sizeof(*loss), &memory);

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_copy(comm, memory, loss, sizeof(*loss), stream);
	if (rc == COHORT_OK)
		rc = average(comm, memory, 1);
	if (rc == COHORT_OK)
		rc = cohort_copy(comm, loss, memory, sizeof(*loss), stream);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(comm, COHORT_FOREVER);
	cohort_free(comm, memory);
	return rc;
}

/* Example: cohort_broadcast, cohort_synchronize */
static int copy_weights_of_rank_0(struct cohort_comm *comm, float *weights[],
                                  const size_t counts[], int n)
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++)
		rc = cohort_broadcast(comm, weights[i], weights[i], counts[i],
		                      COHORT_F32, 0, cohort_comm_stream(comm),
		                      NULL);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(comm, COHORT_FOREVER);
	return rc;
}

/* Example: cohort_all_gather, cohort_comm_size */
static int gather_scores(struct cohort_comm *comm, const float *score,
                         float *scores)
{
	uint64_t ticket;
	int rc;

	/* @scores has room for cohort_comm_size(comm) elements. */
	rc = cohort_all_gather(comm, score, scores, 1, COHORT_F32,
	                       cohort_comm_stream(comm), &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

/* Example: cohort_reduce_scatter, cohort_comm_rank */
static int sum_own_block(struct cohort_comm *comm, float *data, size_t count)
{
	/* In place: @data has one block of @count elements for each rank, and
	 * this rank's block becomes the sum of all ranks' blocks. */
	float *block = data + cohort_comm_rank(comm) * count;
	uint64_t ticket;
	int rc;

	rc = cohort_reduce_scatter(comm, data, block, count, COHORT_F32,
	                           COHORT_SUM, cohort_comm_stream(comm),
	                           &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

/* Example: cohort_all_to_all */
static int exchange_blocks(struct cohort_comm *comm, const float *send,
                           float *recv, size_t count)
{
	uint64_t ticket;
	int rc;

	/* Block r of @send goes to rank r; block r of @recv is from rank r. */
	rc = cohort_all_to_all(comm, send, recv, count, COHORT_F32,
	                       cohort_comm_stream(comm), &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

/* Example: cohort_barrier */
static int wait_for_all_ranks(struct cohort_comm *comm)
{
	uint64_t ticket;
	int rc = cohort_barrier(comm, cohort_comm_stream(comm), &ticket);

	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

/* Example: cohort_send, cohort_recv */
static int pass_to_next_rank(struct cohort_comm *comm, const float *send,
                             float *recv, size_t count)
{
	int size = cohort_comm_size(comm);
	int rank = cohort_comm_rank(comm);
	void *stream = cohort_comm_stream(comm);
	uint64_t ticket;
	int rc;

	/* In a batch the send and the receive run at the same time. */
	rc = cohort_batch_begin(comm);
	if (rc != COHORT_OK)
		return rc;
	cohort_send(comm, send, count, COHORT_F32, (rank + 1) % size, stream,
	            NULL);
	cohort_recv(comm, recv, count, COHORT_F32, (rank + size - 1) % size,
	            stream, NULL);
	rc = cohort_batch_end(comm, stream, &ticket); /* with their errors */
	return rc == COHORT_OK ? cohort_wait(comm, ticket, COHORT_FOREVER) : rc;
}

/* Example: cohort_comm_split */
static int average_within_halves(struct cohort_comm *comm, float *data,
                                 size_t count)
{
	int half = cohort_comm_rank(comm) >= cohort_comm_size(comm) / 2;
	struct cohort_comm *child;
	int rc = cohort_comm_split(comm, half, 0, &child);

	if (rc != COHORT_OK)
		return rc;
	rc = average(child, data, count);
	cohort_comm_close(child);
	return rc;
}

/* Example: cohort_comm_abort_handle, cohort_abort_fire, cohort_abort_put */
static struct cohort_abort *handle;

static void on_interrupt(int signal)
{
	(void)signal;
	cohort_abort_fire(handle, "interrupted");
}

static void end_group_on_interrupt(struct cohort_comm *comm)
{
	handle = cohort_comm_abort_handle(comm);
	signal(SIGINT, on_interrupt);
}

static void ignore_interrupts(void)
{
	signal(SIGINT, SIG_IGN);
	cohort_abort_put(handle);
}

/* Example: cohort_last_error */
static void report(const char *what, int rc)
{
	if (rc < 0)
		fprintf(stderr, "%s: %s: %s\n", what, cohort_status_name(rc),
		        cohort_last_error());
}

/* Example: cohort_group_run, cohort_group_lost, cohort_group_respawn */
static int run_until_done(struct cohort_group *group, cohort_worker_fn worker)
{
	int lost[COHORT_MAX_RANKS], n, rc;
	struct cohort_cause cause;

	while ((rc = cohort_group_run(group, worker, NULL, &cause)) < 0) {
		fprintf(stderr, "the group has ended: %s\n", cause.text);
		n = cohort_group_lost(group, lost, COHORT_MAX_RANKS);
		if (n <= 0)
			break; /* no rank is to blame */
		rc = cohort_group_respawn(group, lost, n);
		if (rc != COHORT_OK)
			break;
	}
	return rc;
}

/* Example: cohort_group_abort, cohort_group_cause */
static void stop(struct cohort_group *group)
{
	struct cohort_cause cause;

	cohort_group_abort(group, "stopped by the user");
	if (cohort_group_cause(group, &cause) == COHORT_OK)
		printf("the cause is %s, of rank %d\n",
		       cohort_status_name(cause.status), cause.rank);
}

/*
 * The program that runs the examples
 *
 * The ranks fill and check device memory directly, because on the host platform
 * it is host memory.
 */

#define FILL(array, value)                                                     \
	for (size_t at = 0; at < sizeof(array) / sizeof(*(array)); at++)       \
	(array)[at] = (float)(value)

static int wrong(const char *what, float got, float wanted)
{
	if (got != wanted)
		printf("%s: %g, not %g\n", what, got, wanted);
	return got != wanted;
}

static int try_all(struct cohort_comm *comm)
{
	int rank = cohort_comm_rank(comm), size = cohort_comm_size(comm);
	int half = size / 2, failed = 0;
	struct {
		float one[2], many[2 * 64], other[2 * 64];
	} * memory;
	float loss = (float)rank, *weights[2];
	size_t counts[2] = { 2, 2 };
	void *allocated;

	if (cohort_alloc(comm, sizeof(*memory), &allocated) != COHORT_OK)
		return 1;
	memory = allocated;
	if (average_loss(comm, &loss) != COHORT_OK)
		return 1;
	failed |= wrong("loss", loss, (size - 1) / 2.0f);
	FILL(memory->many, rank);
	weights[0] = memory->many;
	weights[1] = memory->many + 2;
	if (copy_weights_of_rank_0(comm, weights, counts, 2) != COHORT_OK)
		return 1;
	failed |= wrong("weight", weights[1][1], 0);
	memory->one[0] = (float)rank;
	if (gather_scores(comm, memory->one, memory->many) != COHORT_OK)
		return 1;
	failed |= wrong("score", memory->many[1], 1);
	FILL(memory->many, 1);
	if (sum_own_block(comm, memory->many, 2) != COHORT_OK)
		return 1;
	failed |= wrong("block", memory->many[2 * rank], (float)size);
	FILL(memory->many, rank);
	if (exchange_blocks(comm, memory->many, memory->other, 2) != COHORT_OK)
		return 1;
	failed |= wrong("exchanged", memory->other[2 * 1], 1);
	if (wait_for_all_ranks(comm) != COHORT_OK)
		return 1;
	memory->many[0] = (float)rank;
	if (pass_to_next_rank(comm, memory->many, memory->other, 1) !=
	    COHORT_OK)
		return 1;
	failed |= wrong("passed", memory->other[0],
	                (float)((rank + size - 1) % size));
	memory->one[0] = (float)rank;
	if (average_within_halves(comm, memory->one, 1) != COHORT_OK)
		return 1;
	failed |= wrong("half", memory->one[0],
	                rank < half ? (half - 1) / 2.0f
	                            : (half + size - 1) / 2.0f);
	report("cohort_free", cohort_free(comm, memory));
	return failed;
}

static int try_and_fail(struct cohort_comm *comm, void *user)
{
	(void)user;
	if (try_all(comm))
		return 1;
	if (cohort_comm_generation(comm) == 1 && cohort_comm_rank(comm) == 1) {
		end_group_on_interrupt(comm);
		ignore_interrupts();
		return 7;
	}
	return wait_for_all_ranks(comm);
}

int main(void)
{
	struct cohort_group *group;
	void *pointers;
	int rc;

	setenv("COHORT_PLATFORM", "host", 1);
	setenv("COHORT_HOST_DEVICES", "5", 1);
	group = open_all_devices();
	if (!group)
		return 1;
	pointers = new_array_of_pointers(group);
	rc = run_until_done(group, try_and_fail);
	printf("generation %d: %s\n", cohort_group_generation(group),
	       cohort_status_name(rc));
	free(pointers);
	stop(group);
	report("cohort_group_close", cohort_group_close(group));
	return rc;
}
