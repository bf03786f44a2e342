/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Training with one thread per rank
 *
 * Every rank has its own copy of the weights. A step divides a batch of images
 * into one shard per rank. Every rank computes the gradients of its shard,
 * divided by the size of the whole batch. A reducer sums them over the ranks,
 * and every rank applies the sums, so that the weights stay equal.
 *
 * If the group ends, the supervisor continues in a new generation without the
 * lost ranks, from the state of a rank that is furthest ahead. A rank has done
 * a step once its reduction is done, so ranks are at most one step apart.
 */

#include "cli/demo/demo.h"

#include <pthread.h>
#include <signal.h>

#include <cohort/bootstrap.h>

#include "base/clock.h"
#include "cli/common/cli.h"
#include "cli/common/fork.h"

#define STEP_TIMEOUT_NS (30 * NS_PER_S)

static int copy_out(struct rank *rank, const struct mlp *from)
{
	return cohort_copy(rank->comm, rank->device, from, sizeof(*from),
	                   cohort_comm_stream(rank->comm));
}

static int copy_in(struct rank *rank, struct mlp *to)
{
	int rc = cohort_copy(rank->comm, to, rank->device, sizeof(*to),
	                     cohort_comm_stream(rank->comm));

	return rc == COHORT_OK ? cohort_synchronize(rank->comm, STEP_TIMEOUT_NS)
	                       : rc;
}

/*
 * Broadcast @values from rank @root. Wait for the broadcast before the copy.
 * The copy may block until everything before it in the stream is done, and
 * unlike the wait it has no timeout if a peer never arrives.
 */
static int receive(struct rank *rank, struct mlp *values, int root)
{
	uint64_t ticket;
	int rc = COHORT_OK;

	if (cohort_comm_rank(rank->comm) == root)
		rc = copy_out(rank, values);
	if (rc == COHORT_OK)
		rc = cohort_broadcast(rank->comm, rank->device, rank->device,
		                      MLP_FLOATS, COHORT_F32, root,
		                      cohort_comm_stream(rank->comm), &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(rank->comm, ticket, STEP_TIMEOUT_NS);
	return rc == COHORT_OK ? copy_in(rank, values) : rc;
}

/* Copy the state of the first rank that is furthest ahead. In generation 1,
 * that is rank 0. After an error, the rank's state is unchanged. */
static int catch_up(struct rank *rank)
{
	const int generation = cohort_comm_generation(rank->comm);
	const int size = cohort_comm_size(rank->comm);
	uint64_t steps[COHORT_MAX_RANKS] = { 0 };
	int root = 0, rc = COHORT_OK;

	if (generation > 1)
		rc = cohort_all_gather_host(rank->comm, &rank->step, steps, 1,
		                            COHORT_U64, STEP_TIMEOUT_NS);
	for (int r = 0; r < size; r++)
		if (steps[r] > steps[root])
			root = r;
	rank->received = rank->model;
	if (rc == COHORT_OK)
		rc = receive(rank, &rank->received.weights, root);
	if (rc == COHORT_OK)
		rc = receive(rank, &rank->received.momentum, root);
	if (rc != COHORT_OK)
		return rc;
	rank->model = rank->received;
	rank->step = steps[root];
	rank->generation = generation;
	rank->starts[generation - 1].step = rank->step;
	rank->starts[generation - 1].ranks = size;
	return COHORT_OK;
}

/* Create the reducer. The gradients in device memory have the layout of struct
 * mlp. */
static int create_reducer(struct rank *rank)
{
	struct cohort_parameter parameters[MLP_TENSORS];
	struct cohort_reducer_options options;

	for (int i = 0; i < MLP_TENSORS; i++)
		parameters[i] = (struct cohort_parameter){
			.name = mlp_tensors[i].name,
			.gradient =
				(float *)rank->device + mlp_tensors[i].offset,
			.count = mlp_tensors[i].count,
			.type = COHORT_F32,
		};
	cohort_reducer_options_init(&options);
	options.op = COHORT_SUM; /* the gradients are already scaled */
	return cohort_reducer_create(rank->comm, parameters, MLP_TENSORS,
	                             &options, &rank->reducer);
}

/* Mark the gradients as ready in the order of a backward pass, from the last
 * layer to the first, and wait for their sums. */
static int reduce_gradients(struct rank *rank)
{
	int rc = COHORT_OK;

	for (int i = MLP_TENSORS - 1; i >= 0 && rc == COHORT_OK; i--)
		rc = cohort_reducer_ready(rank->reducer, (size_t)i);
	if (rc == COHORT_OK)
		rc = cohort_reducer_finish(rank->reducer, STEP_TIMEOUT_NS);
	return rc == COHORT_OK ? copy_in(rank, &rank->gradients) : rc;
}

/* The shards are contiguous and differ in size by at most one image. If there
 * are more ranks than images, some shards are empty. */
void train_gradients(const struct demo *d, struct rank *rank, size_t part,
                     size_t parts)
{
	size_t at = (size_t)(rank->step % DEMO_EPOCH_STEPS) * DEMO_BATCH;
	size_t left = DIGITS_TRAIN - at;
	size_t batch = left < DEMO_BATCH ? left : DEMO_BATCH;
	size_t begin = batch * part / parts, end = batch * (part + 1) / parts;

	if (at == 0) {
		rank->loss = (struct mlp_loss){ 0 };
		mlp_shuffle(rank->order, DIGITS_TRAIN,
		            rank->step / DEMO_EPOCH_STEPS);
	}
	mlp_gradients(&rank->model.weights, d->digits->train,
	              rank->order + at + begin, end - begin, batch,
	              &rank->gradients, &rank->loss);
}

/* Make the rank fail once, at the chosen step. For FAULT_MISMATCH, return the
 * status of the mismatched call. */
static int fail_on_purpose(struct demo *d, struct rank *rank)
{
	const struct demo_options *o = &d->options;

	if (o->fault == FAULT_NONE || rank->generation > 1 ||
	    cohort_comm_rank(rank->comm) != o->fault_rank ||
	    rank->step != o->fault_step)
		return COHORT_OK;
	d->shared->fault_ns = clock_now();
	switch (o->fault) {
	case FAULT_STALL:
		d->is_stalled = true;
		while (sem_wait(&d->release))
			;
		break;
	case FAULT_DIE:
		rank->has_died = true;
		pthread_exit(NULL);
	case FAULT_MISMATCH:
		return cohort_all_reduce(rank->comm, rank->device, rank->device,
		                         MLP_FLOATS, COHORT_F32, COHORT_MAX,
		                         cohort_comm_stream(rank->comm), NULL);
	default:
		raise(SIGKILL);
	}
	return COHORT_OK;
}

/* Compute and reduce the gradients, and update the weights. After an error, the
 * step can be repeated. */
static int train_step(struct demo *d, struct rank *rank)
{
	const struct mlp_loss before = rank->loss;
	uint64_t start = clock_now(), computed, called, reduced;
	int rc = cohort_reducer_begin(rank->reducer,
	                              cohort_comm_stream(rank->comm));

	train_gradients(d, rank, (size_t)cohort_comm_rank(rank->comm),
	                (size_t)cohort_comm_size(rank->comm));
	computed = clock_now();
	if (rc == COHORT_OK)
		rc = copy_out(rank, &rank->gradients);
	if (rc == COHORT_OK)
		rc = fail_on_purpose(d, rank);
	called = clock_now();
	if (rc == COHORT_OK)
		rc = reduce_gradients(rank);
	reduced = clock_now();
	rank->comm_ns += reduced - computed;
	if (rc != COHORT_OK) {
		rank->loss = before;
		if (!rank->answered_ns) {
			rank->called_ns = called;
			rank->answered_ns = reduced;
		}
		return rc;
	}
	mlp_update(&rank->model.weights, &rank->model.momentum,
	           &rank->gradients);
	rank->step++;
	rank->compute_ns += computed - start + clock_now() - reduced;
	return COHORT_OK;
}

/*
 * End the group if it has not ended, so that the other ranks are notified of
 * the failure. Then wait for the rank's operations, for at most the abort
 * deadline, because no buffer may be freed while an operation may use it.
 */
static int end_after_failure(struct rank *rank, int rc)
{
	cohort_comm_fail(rank->comm, rc,
	                 rc < 0 ? cohort_last_error() : cohort_status_text(rc));
	return cohort_synchronize(rank->comm, COHORT_FOREVER);
}

static int free_memory(struct rank *rank)
{
	int rc = cohort_reducer_free(rank->reducer);

	if (rc == COHORT_OK)
		rc = cohort_free(rank->comm, rank->device);
	rank->reducer = NULL;
	rank->device = NULL;
	return rc;
}

static int train_worker(struct cohort_comm *comm, void *user)
{
	struct demo *d = user;
	struct rank *rank = &d->shared->ranks[cohort_comm_origin(comm)];
	int rc;

	rank->comm = comm;
	rc = cohort_alloc(comm, sizeof(struct mlp), &rank->device);
	if (rc == COHORT_OK)
		rc = catch_up(rank);
	if (rc == COHORT_OK)
		rc = create_reducer(rank);
	while (rc == COHORT_OK && rank->step < d->steps)
		rc = train_step(d, rank);
	if (rc == COHORT_OK)
		rc = free_memory(rank);
	else if (end_after_failure(rank, rc) != COHORT_WEDGED)
		free_memory(rank);
	if (d->is_stalled && rank == &d->shared->ranks[d->options.fault_rank])
		sem_post(&d->released);
	return rc;
}

/* Record the first failure before a respawn renumbers the ranks. */
static void record(struct demo *d, const struct cohort_cause *cause)
{
	int left[COHORT_MAX_RANKS];
	int n = cohort_group_abandoned(d->group, left, COHORT_MAX_RANKS);

	d->cause = *cause;
	d->returned_ns = d->respawned_ns = clock_now();
	for (int i = 0; i < n; i++)
		d->shared->ranks[left[i]].is_left_behind = true;
}

/* Return whether all ranks of this process are lost. */
static bool is_left_out(const struct demo *d, const int *lost, int n)
{
	struct cohort_process all[MAX_PROCESSES];
	const struct cohort_process *own = &all[d->process];
	int count = 0;

	cohort_group_processes(d->group, all, MAX_PROCESSES);
	for (int i = 0; i < n; i++)
		count += lost[i] >= own->first_rank &&
		         lost[i] < own->first_rank + own->ranks;
	return count == own->ranks;
}

int train(struct demo *d)
{
	int lost[COHORT_MAX_RANKS], n, rc;
	struct cohort_cause cause;

	while ((rc = cohort_group_run(d->group, train_worker, d, &cause))) {
		if (cause.status == COHORT_OK)
			break;
		if (d->cause.status == COHORT_OK)
			record(d, &cause);
		n = cohort_group_lost(d->group, lost, COHORT_MAX_RANKS);
		/* The other processes continue after this one has closed the
		 * group. */
		if (is_left_out(d, lost, n))
			return CLI_OK;
		/* If all ranks are lost, cohort_group_lost() returns none. */
		if (cohort_group_generation(d->group) == MAX_GENERATIONS ||
		    (!n && cohort_group_abandoned(d->group, NULL, 0)))
			return cli_fail("%s", cause.text);
		rc = cohort_group_respawn(d->group, lost, n);
		if (rc != COHORT_OK)
			break;
		if (cohort_group_generation(d->group) == 2)
			d->respawned_ns = clock_now();
	}
	if (rc == COHORT_OK)
		return CLI_OK;
	return cli_fail("%s", cohort_last_error());
}

void train_release(struct demo *d)
{
	int end = demo_first_rank(&d->options, d->process + 1);

	for (int r = demo_first_rank(&d->options, d->process); r < end; r++)
		if (d->shared->ranks[r].has_died)
			free_memory(&d->shared->ranks[r]);
	if (d->is_stalled) {
		sem_post(&d->release);
		sem_wait(&d->released);
	}
}
