/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Training with one thread per rank
 *
 * Every rank has its own copy of the weights, which only rank 0 initialises;
 * the others get them by a broadcast.  A step takes a batch of images, cuts it
 * in one shard per rank, and every rank computes the gradients of its shard,
 * divided by the size of the whole batch.  One all-reduce sums them, and every
 * rank makes the same update, so that the weights stay equal.
 *
 * The comparison does the same with one thread and without the library: it
 * adds the gradients of the shards in rank order, which is the order in which
 * the host platform adds, so that there the weights must agree to the last
 * bit.
 */

#include "train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

#define STEP_TIMEOUT_NS (30 * UINT64_C(1000000000))

/* ---- plan: what all ranks share --------------------------------------- */

static void rank_destroy(struct rank *rank)
{
	if (!rank || rank->wedged)
		return;
	free(rank->scores);
	free(rank);
}

static struct rank *rank_create(size_t epochs)
{
	struct rank *rank = calloc(1, sizeof(*rank));

	if (!rank)
		return NULL;
	rank->scores = calloc(epochs, sizeof(*rank->scores));
	if (!rank->scores) {
		free(rank);
		return NULL;
	}
	return rank;
}

void plan_fini(struct plan *plan)
{
	for (int r = 0; plan->ranks && r < plan->options->ranks; r++)
		rank_destroy(plan->ranks[r]);
	free(plan->ranks);
}

int plan_init(struct plan *plan, const struct demo_options *options,
              const struct digits *digits)
{
	*plan = (struct plan){ .options = options, .digits = digits };
	plan->epoch_steps =
		(DIGITS_TRAIN + options->batch - 1) / options->batch;
	plan->steps = plan->epoch_steps * options->epochs;
	plan->ranks = calloc((size_t)options->ranks, sizeof(*plan->ranks));
	if (!plan->ranks)
		goto no_memory;
	for (int r = 0; r < options->ranks; r++) {
		plan->ranks[r] = rank_create(options->epochs);
		if (!plan->ranks[r])
			goto no_memory;
	}
	mlp_init(&plan->ranks[0]->weights, options->seed);
	return CLI_OK;
no_memory:
	plan_fini(plan);
	cli_complain("demo", "out of memory");
	return CLI_FAILED;
}

/* The images of one step, or a rank's part of them: where they start in the
 * order of the epoch, and how many. */
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
 * Wait for the collective and fetch what it left.  In this order, since a copy
 * to pageable memory may block until all before it in the stream is done, and
 * a peer that never comes must end in the wait's timeout.
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

static int receive_weights(struct rank *rank)
{
	uint64_t ticket;
	int rc = COHORT_OK;

	if (cohort_comm_rank(rank->comm) == 0)
		rc = copy_out(rank, &rank->weights);
	if (rc == COHORT_OK)
		rc = cohort_broadcast(rank->comm, rank->device, rank->device,
		                      MLP_FLOATS, COHORT_F32, 0,
		                      cohort_comm_stream(rank->comm), &ticket);
	return rc == COHORT_OK ? copy_in(rank, ticket, &rank->weights) : rc;
}

static int reduce_gradients(struct rank *rank)
{
	struct cohort_tensor tensors[MLP_TENSORS];
	uint64_t ticket;
	int rc;

	for (int i = 0; i < MLP_TENSORS; i++) {
		float *place = (float *)rank->device + mlp_tensors[i].offset;

		tensors[i] = (struct cohort_tensor){
			.send = place,
			.recv = place,
			.count = mlp_tensors[i].count,
			.type = COHORT_F32,
		};
	}
	rc = copy_out(rank, &rank->gradients);
	if (rc == COHORT_OK)
		rc = cohort_all_reduce_many(rank->comm, tensors, MLP_TENSORS,
		                            COHORT_SUM,
		                            cohort_comm_stream(rank->comm),
		                            &ticket);
	return rc == COHORT_OK ? copy_in(rank, ticket, &rank->gradients) : rc;
}

/* The sum of all ranks' scores of an epoch, as means per image. */
static void mean_score(const struct plan *plan, size_t epoch, double *loss_out,
                       double *accuracy_out)
{
	double loss = 0.0;
	unsigned correct = 0;

	for (int r = 0; r < plan->options->ranks; r++) {
		struct epoch_score *score = &plan->ranks[r]->scores[epoch];

		/* Acquire: pairs with the release in publish_score(). */
		loss += atomic_load_explicit(&score->loss,
		                             memory_order_acquire);
		correct += atomic_load_explicit(&score->correct,
		                                memory_order_acquire);
	}
	*loss_out = loss / DIGITS_TRAIN;
	*accuracy_out = (double)correct / DIGITS_TRAIN;
}

/* Before the last reduction of the epoch, so that a rank that is past that
 * finds the scores of all.  Release: pairs with the acquire in mean_score(). */
static void publish_score(struct rank *rank, size_t epoch)
{
	struct epoch_score *score = &rank->scores[epoch];

	atomic_store_explicit(&score->loss, rank->running.loss,
	                      memory_order_release);
	atomic_store_explicit(&score->correct, rank->running.correct,
	                      memory_order_release);
	rank->running = (struct mlp_score){ 0 };
}

static void compute_gradients(const struct plan *plan, struct rank *rank,
                              size_t rank_number)
{
	struct slice batch = slice_batch(plan, rank->step);
	struct slice shard =
		slice_shard(batch, rank_number, (size_t)plan->options->ranks);

	if (batch.begin == 0)
		mlp_shuffle(rank->order, DIGITS_TRAIN, plan->options->seed,
		            rank->step / plan->epoch_steps);
	mlp_gradients(&rank->weights, plan->digits->train,
	              rank->order + shard.begin, shard.count, batch.count,
	              &rank->gradients, &rank->running);
}

static int train_step(struct plan *plan, struct rank *rank)
{
	int number = cohort_comm_rank(rank->comm);
	size_t epoch = (size_t)(rank->step / plan->epoch_steps);
	bool last = (rank->step + 1) % plan->epoch_steps == 0;
	double start = demo_seconds(), computed, reduced;
	int rc;

	compute_gradients(plan, rank, (size_t)number);
	if (last)
		publish_score(rank, epoch);
	computed = demo_seconds();
	rc = reduce_gradients(rank);
	reduced = demo_seconds();
	rank->comm_seconds += reduced - computed;
	if (rc != COHORT_OK)
		return rc;
	mlp_update(&rank->weights, &rank->momentum, &rank->gradients,
	           plan->options->lr, plan->options->momentum);
	rank->step++;
	rank->compute_seconds += computed - start + demo_seconds() - reduced;

	if (last && number == 0) {
		double loss, accuracy;

		mean_score(plan, epoch, &loss, &accuracy);
		progress_draw(&plan->progress, epoch + 1, plan->options->epochs,
		              loss, accuracy);
	}
	return COHORT_OK;
}

/*
 * After a failure no buffer may be released while an operation may use it: end
 * the group, which is how the other ranks learn of it if they do not know yet,
 * and wait for the rank's operations to be answered.  That is bounded by the
 * group's abort timeout.
 */
static void give_up(struct plan *plan, struct rank *rank, int rc)
{
	char reason[200];

	snprintf(reason, sizeof(reason), "rank %d, step %llu: %s",
	         cohort_comm_rank(rank->comm), (unsigned long long)rank->step,
	         rc < 0 ? cohort_last_error() : cohort_status_text(rc));
	cohort_group_abort(plan->group, reason);
	rc = cohort_synchronize(rank->comm, COHORT_FOREVER);
	rank->wedged = rc == COHORT_WEDGED;
}

int train_worker(struct cohort_comm *comm, void *user)
{
	struct plan *plan = user;
	struct rank *rank = plan->ranks[cohort_comm_rank(comm)];
	int rc;

	rank->comm = comm;
	rc = cohort_alloc(comm, sizeof(struct mlp), &rank->device);
	if (rc == COHORT_OK)
		rc = receive_weights(rank);
	while (rc == COHORT_OK && rank->step < plan->steps)
		rc = train_step(plan, rank);

	if (rc != COHORT_OK)
		give_up(plan, rank, rc);
	if (!rank->wedged) {
		int freed = cohort_free(comm, rank->device);

		rc = rc == COHORT_OK ? freed : rc;
	}
	rank->device = NULL;
	rank->comm = NULL;
	return rc;
}

void train_collect(const struct plan *plan, struct demo_result *result)
{
	const struct digits *digits = plan->digits;
	const struct demo_options *options = plan->options;
	double ignored;

	for (size_t i = 0; i < options->epochs; i++)
		mean_score(plan, i, &result->curve[i], &ignored);
	for (int r = 0; r < options->ranks; r++) {
		const struct rank *rank = plan->ranks[r];

		result->compute_seconds +=
			rank->compute_seconds / options->ranks;
		result->comm_seconds += rank->comm_seconds / options->ranks;
	}
	result->accuracy = mlp_correct(&plan->ranks[0]->weights,
	                               digits->held_out, DIGITS_HELD_OUT) /
	                   (double)DIGITS_HELD_OUT;
	result->steps = plan->steps;
}

/* ---- the same without the library ------------------------------------- */

/* Train @single with the gradients of every shard, added in rank order. */
static void train_single(const struct plan *plan, struct rank *single,
                         struct mlp *sum)
{
	const struct demo_options *options = plan->options;

	mlp_init(&single->weights, options->seed);
	while (single->step < plan->steps) {
		for (int r = 0; r < options->ranks; r++) {
			compute_gradients(plan, single, (size_t)r);
			if (r == 0)
				*sum = single->gradients;
			else
				mlp_add(sum, &single->gradients);
		}
		mlp_update(&single->weights, &single->momentum, sum,
		           options->lr, options->momentum);
		single->step++;
	}
}

int train_compare(const struct plan *plan, double *difference_out)
{
	struct rank *single = rank_create(1);
	struct mlp *sum = malloc(sizeof(*sum));
	double most = 0.0;
	int status = CLI_FAILED;

	if (!single || !sum) {
		cli_complain("demo", "out of memory");
		goto out;
	}
	train_single(plan, single, sum);
	for (int r = 0; r < plan->options->ranks; r++) {
		double d = mlp_difference(&plan->ranks[r]->weights,
		                          &single->weights);

		/* A NaN stays. */
		if (!(d <= most))
			most = d;
		if (isnan(d))
			break;
	}
	*difference_out = most;
	status = CLI_OK;
out:
	free(sum);
	rank_destroy(single);
	return status;
}
