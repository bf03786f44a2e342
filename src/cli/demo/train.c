/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Training with one thread per rank
 *
 * Every rank has its own copy of the weights.  Rank 0 initialises its copy, and the
 * others receive the weights by a broadcast.  A step cuts a batch of images into one
 * shard per rank, and every rank computes the gradients of its shard, divided by the
 * size of the whole batch.  A reducer sums them, and every rank makes the same update,
 * so that the weights stay equal.
 */

#include "cli/demo/train.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cli/common/cli.h"

#define STEP_TIMEOUT_NS (30 * UINT64_C(1000000000))

/* ---- plan: what all ranks share --------------------------------------- */

int train_first_rank(const struct demo_options *options, int process)
{
	int each = options->ranks / options->processes;
	int more = options->ranks % options->processes;

	return process * each + (process < more ? process : more);
}

static size_t shared_bytes(const struct demo_options *options)
{
	return sizeof(struct shared) +
	       (size_t)options->ranks *
	               (sizeof(struct rank) +
	                options->epochs * sizeof(struct epoch_score));
}

/* Zeroed memory that processes share once they are forked: struct shared, the ranks,
 * and their scores.  NULL without memory. */
static struct shared *shared_create(const struct demo_options *options)
{
	struct shared *shared =
		mmap(NULL, shared_bytes(options), PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct epoch_score *scores;

	if (shared == MAP_FAILED)
		return NULL;
	scores = (struct epoch_score *)&shared->ranks[options->ranks];
	for (int r = 0; r < options->ranks; r++)
		shared->ranks[r].scores = scores + (size_t)r * options->epochs;
	return shared;
}

void plan_fini(struct plan *plan)
{
	bool wedged = false;

	for (int r = 0; r < plan->options->ranks; r++)
		wedged |= plan->ranks[r].wedged;
	if (!wedged)
		munmap(plan->shared, shared_bytes(plan->options));
	free(plan->now);
	sem_destroy(&plan->release);
	sem_destroy(&plan->released);
}

static uint64_t epoch_steps(const struct demo_options *options)
{
	return (DIGITS_TRAIN + options->batch - 1) / options->batch;
}

uint64_t train_steps(const struct demo_options *options)
{
	return epoch_steps(options) * options->epochs;
}

int plan_init(struct plan *plan, const struct demo_options *options,
              const struct digits *digits)
{
	*plan = (struct plan){ .options = options, .digits = digits };
	plan->epoch_steps = epoch_steps(options);
	plan->steps = train_steps(options);
	plan->own_ranks = options->ranks;
	plan->now_size = options->ranks;
	plan->now = calloc((size_t)options->ranks, sizeof(*plan->now));
	plan->shared = shared_create(options);
	if (!plan->shared || !plan->now) {
		free(plan->now);
		cli_complain("demo", "out of memory");
		return CLI_FAILED;
	}
	sem_init(&plan->release, 0, 0);
	sem_init(&plan->released, 0, 0);
	plan->ranks = plan->shared->ranks;
	for (int r = 0; r < options->ranks; r++)
		plan->now[r] = r;
	mlp_init(&plan->ranks[0].weights, options->seed);
	plan->ranks[0].has_state = true;
	return CLI_OK;
}

/* The images of one step, or a rank's part of them: their begin in the order of
 * the epoch, and their number. */
struct slice {
	size_t begin;
	size_t count;
};

/* The last batch of an epoch may be smaller. */
static struct slice slice_batch(const struct plan *plan, uint64_t step)
{
	size_t batch = plan->options->batch;
	size_t begin = (size_t)(step % plan->epoch_steps) * batch;
	size_t left = DIGITS_TRAIN - begin;

	return (struct slice){ begin, left < batch ? left : batch };
}

/* Shards are contiguous and differ by at most one image; some are empty if
 * there are more ranks than images. */
static struct slice slice_shard(struct slice batch, size_t rank, size_t ranks)
{
	size_t each = batch.count / ranks;
	size_t more = batch.count % ranks;

	return (struct slice){
		batch.begin + rank * each + (rank < more ? rank : more),
		each + (rank < more),
	};
}

/* ---- worker: what a rank's thread does -------------------------------- */

static int copy_out(struct rank *rank, const struct mlp *from)
{
	return cohort_copy(rank->comm, rank->device, from, sizeof(*from),
	                   cohort_comm_stream(rank->comm));
}

/*
 * Wait for the collective, then copy its result.  The wait comes first, because a
 * copy to pageable memory may block until everything before it in the stream is done,
 * and a peer that never comes must end in the timeout of the wait.
 */
static int copy_in(struct rank *rank, uint64_t ticket, struct mlp *to)
{
	int rc = cohort_wait(rank->comm, ticket, STEP_TIMEOUT_NS);

	if (rc == COHORT_OK)
		rc = cohort_copy(rank->comm, to, rank->device, sizeof(*to),
		                 cohort_comm_stream(rank->comm));
	if (rc == COHORT_OK)
		rc = cohort_synchronize(rank->comm, STEP_TIMEOUT_NS);
	return rc;
}

/* Broadcast @values from the rank that has them. */
static int receive(struct rank *rank, struct mlp *values)
{
	uint64_t ticket;
	int rc = COHORT_OK;

	if (cohort_comm_rank(rank->comm) == rank->root)
		rc = copy_out(rank, values);
	if (rc == COHORT_OK)
		rc = cohort_broadcast(rank->comm, rank->device, rank->device,
		                      MLP_FLOATS, COHORT_F32, rank->root,
		                      cohort_comm_stream(rank->comm), &ticket);
	return rc == COHORT_OK ? copy_in(rank, ticket, values) : rc;
}

/* What the ranks of a later generation tell each other. */
struct standing {
	int64_t origin; /* the number in the first generation */
	int64_t ahead; /* how many steps are done, and 1; 0: it has no weights */
	int64_t lost; /* the step whose weights it lost half received; else 0 */
};

/* Choose the rank to receive the state from: the first that is furthest ahead, or, if the
 * weights were lost before the first step, one that makes them again.  The first rank of
 * this process to come here also writes which ranks the generation has. */
static int settle(struct plan *plan, struct rank *rank,
                  const struct standing *all)
{
	int size = cohort_comm_size(rank->comm);
	bool has_begun = false;

	rank->root = 0;
	for (int r = 0; r < size; r++) {
		has_begun |= all[r].lost != 0;
		if (all[r].ahead > all[rank->root].ahead)
			rank->root = r;
	}
	if (!all[rank->root].ahead && has_begun) {
		cohort_comm_fail(rank->comm, COHORT_STATE,
		                 "no rank that has weights is left");
		return COHORT_STATE;
	}
	if (!all[rank->root].ahead &&
	    cohort_comm_rank(rank->comm) == rank->root)
		mlp_init(&rank->weights, plan->options->seed);
	rank->step =
		all[rank->root].ahead ? (uint64_t)all[rank->root].ahead - 1 : 0;
	if (atomic_exchange(&plan->is_settled, true))
		return COHORT_OK;
	for (int r = 0; r < size; r++)
		plan->now[r] = (int)all[r].origin;
	plan->now_size = size;
	plan->first_step = rank->step;
	return COHORT_OK;
}

/* Find out which ranks are there, and which of them has the weights: in the first
 * generation all, and rank 0. */
static int meet(struct plan *plan, struct rank *rank)
{
	const struct standing mine = {
		.origin = cohort_comm_origin(rank->comm),
		.ahead = rank->has_state ? (int64_t)rank->step + 1 : 0,
		.lost = rank->has_state ? 0 : (int64_t)rank->step,
	};
	struct standing *all;
	int rc;

	if (cohort_comm_generation(rank->comm) == 1)
		return COHORT_OK;
	all = calloc((size_t)cohort_comm_size(rank->comm), sizeof(*all));
	if (!all) {
		cohort_comm_fail(rank->comm, COHORT_NO_MEMORY,
		                 "no memory for the other ranks' steps");
		return COHORT_NO_MEMORY;
	}
	rc = cohort_all_gather_host(rank->comm, &mine, all,
	                            sizeof(mine) / sizeof(int64_t), COHORT_I64,
	                            STEP_TIMEOUT_NS);
	if (rc == COHORT_OK)
		rc = settle(plan, rank, all);
	free(all);
	return rc;
}

/* Receive the state with which the generation starts.  After an error a rank that had
 * none, or another one, has none. */
static int receive_state(const struct plan *plan, struct rank *rank)
{
	int rc;

	rank->has_state = cohort_comm_rank(rank->comm) == rank->root;
	rc = receive(rank, &rank->weights);
	if (rc == COHORT_OK)
		rc = receive(rank, &rank->momentum);
	rank->has_state |= rc == COHORT_OK;
	if (rank->step % plan->epoch_steps == 0)
		rank->running = (struct mlp_score){ 0 };
	return rc;
}

/* The gradients have the places in device memory that a struct mlp has, because
 * the callers copy a whole struct. */
static int create_reducer(struct rank *rank)
{
	static const char *const names[MLP_TENSORS] = { "w1", "b1", "w2",
		                                        "b2" };
	struct cohort_parameter parameters[MLP_TENSORS];
	struct cohort_reducer_options options;

	for (int i = 0; i < MLP_TENSORS; i++)
		parameters[i] = (struct cohort_parameter){
			.name = names[i],
			.gradient =
				(float *)rank->device + mlp_tensors[i].offset,
			.count = mlp_tensors[i].count,
			.type = COHORT_F32,
		};
	cohort_reducer_options_init(&options);
	options.op =
		COHORT_SUM; /* gradients are divided by the batch already */
	return cohort_reducer_create(rank->comm, parameters, MLP_TENSORS,
	                             &options, &rank->reducer);
}

/* Mark the gradients in the order of a backward pass, which ends with the first
 * layer. */
static int reduce_gradients(struct rank *rank)
{
	int rc = COHORT_OK;

	for (int i = MLP_TENSORS - 1; i >= 0 && rc == COHORT_OK; i--)
		rc = cohort_reducer_ready(rank->reducer, (size_t)i);
	if (rc == COHORT_OK)
		rc = cohort_reducer_finish(rank->reducer, STEP_TIMEOUT_NS);
	if (rc == COHORT_OK)
		rc = cohort_copy(rank->comm, &rank->gradients, rank->device,
		                 sizeof(rank->gradients),
		                 cohort_comm_stream(rank->comm));
	if (rc == COHORT_OK)
		rc = cohort_synchronize(rank->comm, STEP_TIMEOUT_NS);
	return rc;
}

/* Call something else than the other ranks. */
static int call_otherwise(struct rank *rank)
{
	return cohort_all_reduce(rank->comm, rank->device, rank->device,
	                         MLP_FLOATS, COHORT_F32, COHORT_MAX,
	                         cohort_comm_stream(rank->comm), NULL);
}

/* The means per image of an epoch's scores, over all ranks that took part. */
static void mean_score(const struct plan *plan, size_t epoch, double *loss_out,
                       double *accuracy_out)
{
	double loss = 0.0;
	unsigned correct = 0, count = 0;

	for (int r = 0; r < plan->options->ranks; r++) {
		struct epoch_score *score = &plan->ranks[r].scores[epoch];

		/* Acquire: pairs with the release in publish_score(). */
		loss += atomic_load_explicit(&score->loss,
		                             memory_order_acquire);
		correct += atomic_load_explicit(&score->correct,
		                                memory_order_acquire);
		count += atomic_load_explicit(&score->count,
		                              memory_order_acquire);
	}
	*loss_out = loss / count;
	*accuracy_out = (double)correct / count;
}

/* Called before the last reduction of the epoch, so that a rank behind that
 * reduction finds the scores of all ranks.  Release: pairs with the acquire in
 * mean_score(). */
static void publish_score(struct rank *rank, size_t epoch)
{
	struct epoch_score *score = &rank->scores[epoch];

	atomic_store_explicit(&score->loss, rank->running.loss,
	                      memory_order_release);
	atomic_store_explicit(&score->correct, rank->running.correct,
	                      memory_order_release);
	atomic_store_explicit(&score->count, rank->running.count,
	                      memory_order_release);
}

void train_gradients(const struct plan *plan, struct rank *rank, size_t part,
                     size_t parts)
{
	struct slice batch = slice_batch(plan, rank->step);
	struct slice shard = slice_shard(batch, part, parts);

	if (batch.begin == 0)
		mlp_shuffle(rank->order, DIGITS_TRAIN, plan->options->seed,
		            rank->step / plan->epoch_steps);
	mlp_gradients(&rank->weights, plan->digits->train,
	              rank->order + shard.begin, shard.count, batch.count,
	              &rank->gradients, &rank->running);
}

/* ---- faults: what a rank can be made to do ---------------------------- */

/* Wait in the program until the supervisor releases the rank. */
static void stall(struct plan *plan)
{
	atomic_store(&plan->is_stalled, true);
	while (sem_wait(&plan->release))
		;
}

static void die(struct rank *rank)
{
	rank->has_died = true;
	pthread_exit(NULL);
}

/* Fail once, at the chosen step.  True if the rank is to fail by another call than
 * the others make. */
static bool fail_on_purpose(struct plan *plan, struct rank *rank)
{
	const struct demo_options *options = plan->options;

	if (cohort_comm_generation(rank->comm) > 1 ||
	    cohort_comm_rank(rank->comm) != options->fault_rank ||
	    rank->step != options->fault_step || options->fault == FAULT_NONE)
		return false;
	atomic_store(&plan->shared->fault_ns, demo_ns());
	if (options->fault == FAULT_STALL)
		stall(plan);
	if (options->fault == FAULT_DIE)
		die(rank);
	if (options->fault == FAULT_KILL)
		raise(SIGKILL);
	return options->fault == FAULT_MISMATCH;
}

/* ---- steps ------------------------------------------------------------ */

/* Compute and reduce gradients.  After an error the step is as if it had not
 * begun. */
static int reduce_step(struct plan *plan, struct rank *rank, bool last)
{
	struct mlp_score before = rank->running;
	double start = demo_seconds(), computed;
	uint64_t called_ns;
	int rc = cohort_reducer_begin(rank->reducer,
	                              cohort_comm_stream(rank->comm));

	train_gradients(plan, rank, (size_t)cohort_comm_rank(rank->comm),
	                (size_t)cohort_comm_size(rank->comm));
	if (last)
		publish_score(rank, (size_t)(rank->step / plan->epoch_steps));
	computed = demo_seconds();
	if (rc == COHORT_OK)
		rc = copy_out(rank, &rank->gradients);
	if (fail_on_purpose(plan, rank))
		rc = call_otherwise(rank);
	called_ns = demo_ns();
	if (rc == COHORT_OK)
		rc = reduce_gradients(rank);
	rank->compute_seconds += computed - start;
	rank->comm_seconds += demo_seconds() - computed;
	if (rc == COHORT_OK)
		return COHORT_OK;
	rank->running = before;
	if (!rank->answered_ns) {
		rank->called_ns = called_ns;
		rank->answered_ns = demo_ns();
	}
	return rc;
}

static void show_progress(struct plan *plan, size_t epoch)
{
	size_t epochs = plan->options->epochs;
	double loss, accuracy;
	char text[128];

	if (!progress_is_due(&plan->progress))
		return;
	mean_score(plan, epoch, &loss, &accuracy);
	snprintf(text, sizeof(text), "epoch %zu/%zu  loss %.4f  accuracy %.3f",
	         epoch + 1, epochs, loss, accuracy);
	progress_draw(&plan->progress, epoch + 1, epochs, text);
}

static int train_step(struct plan *plan, struct rank *rank)
{
	bool last = (rank->step + 1) % plan->epoch_steps == 0;
	double start;
	int rc = reduce_step(plan, rank, last);

	if (rc != COHORT_OK)
		return rc;
	start = demo_seconds();
	mlp_update(&rank->weights, &rank->momentum, &rank->gradients,
	           plan->options->lr, plan->options->momentum);
	if (last)
		rank->running = (struct mlp_score){ 0 };
	rank->step++;
	rank->compute_seconds += demo_seconds() - start;
	if (last && cohort_comm_rank(rank->comm) == 0)
		show_progress(plan,
		              (size_t)((rank->step - 1) / plan->epoch_steps));
	return COHORT_OK;
}

/*
 * After a failure no buffer may be freed while an operation may use it.  Abort the
 * communicators, by which the other ranks learn of the failure, and wait until the
 * rank's operations are answered, which the group's abort deadline bounds.  The
 * handle is of this generation; the group may have a later one already.
 */
static void give_up(struct rank *rank, int rc)
{
	struct cohort_abort *handle = cohort_comm_abort_handle(rank->comm);
	char reason[200];

	snprintf(reason, sizeof(reason), "rank %d, step %llu: %s",
	         cohort_comm_rank(rank->comm), (unsigned long long)rank->step,
	         rc < 0 ? cohort_last_error() : cohort_status_text(rc));
	cohort_abort_fire(handle, reason);
	cohort_abort_put(handle);
	rc = cohort_synchronize(rank->comm, COHORT_FOREVER);
	rank->wedged = rc == COHORT_WEDGED;
}

/* Leave the communicator; tell the supervisor if this rank was the one made to
 * stall. */
static void leave(struct plan *plan, struct rank *rank)
{
	rank->reducer = NULL;
	rank->device = NULL;
	rank->comm = NULL;
	if (atomic_load(&plan->is_stalled) &&
	    rank == &plan->ranks[plan->options->fault_rank])
		sem_post(&plan->released);
}

int train_worker(struct cohort_comm *comm, void *user)
{
	struct plan *plan = user;
	struct rank *rank = &plan->ranks[cohort_comm_origin(comm)];
	int rc;

	rank->comm = comm;
	rc = cohort_alloc(comm, sizeof(struct mlp), &rank->device);
	if (rc == COHORT_OK)
		rc = meet(plan, rank);
	if (rc == COHORT_OK)
		rc = receive_state(plan, rank);
	if (rc == COHORT_OK)
		rc = create_reducer(rank);
	while (rc == COHORT_OK && rank->step < plan->steps)
		rc = train_step(plan, rank);

	if (rc != COHORT_OK)
		give_up(rank, rc);
	if (!rank->wedged) {
		int freed = cohort_reducer_free(rank->reducer);

		if (freed == COHORT_OK)
			freed = cohort_free(comm, rank->device);
		rc = rc == COHORT_OK ? freed : rc;
	}
	leave(plan, rank);
	return rc;
}

/* The time at which the last rank inside the library had its answer. */
static uint64_t last_answer(const struct plan *plan, uint64_t cause_ns)
{
	uint64_t last = 0;

	for (int r = 0; r < plan->options->ranks; r++) {
		const struct rank *rank = &plan->ranks[r];

		if (rank->called_ns < cause_ns && rank->answered_ns > last)
			last = rank->answered_ns;
	}
	return last;
}

static void collect_story(const struct plan *plan, struct demo_result *result)
{
	result->fault_ns = atomic_load(&plan->shared->fault_ns);
	result->generation_count = plan->generation_count;
	result->final_ranks = plan->now_size;
	if (result->cause.status == COHORT_OK)
		return;
	result->unblocked_ns = last_answer(plan, result->cause.time_ns);
	result->resumed_step = plan->generations[1].first_step;
	result->resumed_ranks = plan->generations[1].ranks;
	result->abandoned_count = 0;
	for (int r = 0; r < plan->options->ranks; r++)
		if (plan->ranks[r].is_left_behind)
			result->abandoned[result->abandoned_count++] = r;
}

void train_collect(const struct plan *plan, struct demo_result *result)
{
	const struct digits *digits = plan->digits;
	const struct demo_options *options = plan->options;
	double ignored;

	for (size_t i = 0; i < options->epochs; i++)
		mean_score(plan, i, &result->curve[i], &ignored);
	for (int r = 0; r < plan->now_size; r++) {
		const struct rank *rank = &plan->ranks[plan->now[r]];

		result->compute_seconds +=
			rank->compute_seconds / plan->now_size;
		result->comm_seconds += rank->comm_seconds / plan->now_size;
	}
	result->accuracy = mlp_correct(&plan->ranks[plan->now[0]].weights,
	                               digits->held_out, DIGITS_HELD_OUT) /
	                   (double)DIGITS_HELD_OUT;
	result->steps = plan->steps;
	collect_story(plan, result);
}
