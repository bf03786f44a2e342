/* SPDX-License-Identifier: Apache-2.0 */

/* The demo's results, as text and as JSON */

#include "cli/demo/demo.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/common/cli.h"

struct summary {
	int generations;
	int ranks;                /* number of ranks in the last generation */
	const struct rank *final; /* the first rank of that generation */
	double compute_seconds;   /* mean time over those ranks */
	double comm_seconds;
	double accuracy; /* accuracy on the held-out images */
	double loss;     /* mean loss over the images of the last epoch */
	/* largest difference from training by one thread, or NaN without
	 * --verify */
	double difference;
	int abandoned; /* number of ranks whose threads were abandoned */

	/* time at which the last call that waited in the library returned */
	uint64_t answered_ns;
};

static int ranks_at(const struct rank *rank, uint64_t step)
{
	int g = rank->generation - 1;

	while (g && (rank->starts[g].step > step || !rank->starts[g].ranks))
		g--;
	return rank->starts[g].ranks;
}

/*
 * Train again with one thread and without the library, adding the gradients of
 * the shards in rank order. The host platform adds in the same order, so its
 * weights must be identical.
 */
static const struct mlp *train_single(const struct demo *d,
                                      const struct rank *final)
{
	static struct rank single;
	static struct mlp sum;

	mlp_init(&single.model.weights);
	for (; single.step < d->steps; single.step++) {
		size_t ranks = (size_t)ranks_at(final, single.step);

		memset(&sum, 0, sizeof(sum));
		for (size_t r = 0; r < ranks; r++) {
			train_gradients(d, &single, r, ranks);
			mlp_add(&sum, &single.gradients);
		}
		mlp_update(&single.model.weights, &single.model.momentum, &sum);
	}
	return &single.model.weights;
}

/* Return the largest difference between the weights of the final ranks and the
 * weights of training with one thread. */
static double compare(const struct demo *d, const struct summary *s)
{
	const struct mlp *single = train_single(d, s->final);
	const struct rank *ranks = d->shared->ranks, *rank;
	double most = 0.0;

	for (rank = ranks; rank < ranks + d->options.ranks; rank++)
		if (rank->generation == s->generations)
			most = fmax(most, mlp_difference(&rank->model.weights,
			                                 single));
	return most;
}

static struct summary summarize(const struct demo *d)
{
	const struct rank *ranks = d->shared->ranks, *rank;
	struct summary s = { 0 };
	unsigned images = 0;

	for (rank = ranks; rank < ranks + d->options.ranks; rank++) {
		s.abandoned += rank->is_left_behind;
		if (rank->called_ns < d->cause.time_ns &&
		    rank->answered_ns > s.answered_ns)
			s.answered_ns = rank->answered_ns;
		if (rank->generation > s.generations) {
			s.generations = rank->generation;
			s.final = rank;
			s.ranks = 0;
			s.compute_seconds = s.comm_seconds = s.loss = 0.0;
			images = 0;
		}
		if (rank->generation == s.generations) {
			s.ranks++;
			s.loss += rank->loss.sum;
			images += rank->loss.images;
			s.compute_seconds += (double)rank->compute_ns * 1e-9;
			s.comm_seconds += (double)rank->comm_ns * 1e-9;
		}
	}
	s.compute_seconds /= s.ranks;
	s.comm_seconds /= s.ranks;
	s.accuracy = mlp_correct(&s.final->model.weights, d->digits->held_out,
	                         DIGITS_HELD_OUT) /
	             (double)DIGITS_HELD_OUT;
	s.loss /= images;
	s.difference = d->options.verify ? compare(d, &s) : NAN;
	return s;
}

enum { TEXT_COLUMN = 10 };

__attribute__((format(printf, 3, 4))) static void
print_when(const struct demo *d, uint64_t time_ns, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("%8.3f  ", cli_ms_between(d->start_ns, time_ns) * 1e-3);
	cli_print_wrapped(TEXT_COLUMN, text);
}

static void print_fault(const struct demo *d)
{
	static const char *const did[] = {
		[FAULT_STALL] = "rank %d blocks in the program",
		[FAULT_DIE] = "the thread of rank %d exits",
		[FAULT_MISMATCH] = "rank %d makes a different call",
		[FAULT_KILL] = "process %d is killed",
	};
	const struct demo_options *o = &d->options;
	char what[80];

	if (!d->shared->fault_ns)
		return;
	snprintf(what, sizeof(what), did[o->fault],
	         o->fault == FAULT_KILL ? o->fault_process : o->fault_rank);
	print_when(d, d->shared->fault_ns, "%s, at step %llu", what,
	           (unsigned long long)o->fault_step);
}

static void print_detection(const struct demo *d)
{
	const struct cohort_cause *cause = &d->cause;

	if (cause->deadline_ns)
		print_when(d, cause->time_ns,
		           "the watchdog reports, %.1f ms after the deadline "
		           "of %.0f ms:",
		           cli_ms_between(cause->since_ns + cause->deadline_ns,
		                          cause->time_ns),
		           (double)cause->deadline_ns * 1e-6);
	else if (d->shared->fault_ns)
		print_when(d, cause->time_ns, "the group ends, %.2f ms later:",
		           cli_ms_between(d->shared->fault_ns, cause->time_ns));
	else
		print_when(d, cause->time_ns, "the group ends:");
	cli_print_block(stdout, TEXT_COLUMN, cause->details);
}

static void print_recovery(const struct demo *d, const struct summary *s)
{
	if (s->answered_ns)
		print_when(d, s->answered_ns,
		           "the call of the last waiting rank has returned");
	print_when(d, d->returned_ns,
	           "the run has returned; abandoned threads: %d%s",
	           s->abandoned, s->abandoned ? " (abort deadline 2 s)" : "");
	print_when(d, d->respawned_ns,
	           "generation 2: %d rank%s from the weights of step %llu",
	           s->final->starts[1].ranks,
	           s->final->starts[1].ranks == 1 ? " continues" : "s continue",
	           (unsigned long long)s->final->starts[1].step);
	print_when(d, d->end_ns, "the training is complete");
}

static void print_text(const struct demo *d, const struct summary *s)
{
	const struct demo_options *o = &d->options;

	printf("platform  %s, %d rank%s on device%s 0",
	       cli_platform_name(d->platform), o->ranks,
	       o->ranks == 1 ? "" : "s", o->ranks == 1 ? "" : "s");
	if (o->ranks > 1)
		printf("-%d", o->ranks - 1);
	if (o->processes > 1)
		printf(", in %d processes", o->processes);
	printf("\naccuracy  %.4f on %d held-out images\n", s->accuracy,
	       DIGITS_HELD_OUT);
	printf("loss      %.5g after %zu epoch%s, %llu steps\n", s->loss,
	       o->epochs, o->epochs == 1 ? "" : "s",
	       (unsigned long long)d->steps);
	printf("time      %.2f s: %.2f s in compute, %.2f s in communication\n",
	       cli_ms_between(d->start_ns, d->end_ns) * 1e-3,
	       s->compute_seconds, s->comm_seconds);
	if (o->verify)
		printf("verify    largest difference from a single run: %g\n",
		       s->difference);
	if (d->cause.status == COHORT_OK)
		return;
	printf("verdict   %s\n", cohort_verdict_text(d->cause.kind));
	printf(" seconds\n");
	print_fault(d);
	print_detection(d);
	print_recovery(d, s);
}

/* Write the time between two events, or null unless both have happened. */
static void json_ms(struct json *json, const char *key, uint64_t from_ns,
                    uint64_t to_ns)
{
	json_double(json, key,
	            from_ns && to_ns ? cli_ms_between(from_ns, to_ns) : NAN);
}

/* Write the events. Ranks are numbered as in generation 1. */
static void json_story(struct json *json, const struct demo *d,
                       const struct summary *s)
{
	const struct cohort_cause *cause = &d->cause;
	bool ended = cause->status != COHORT_OK;

	json_string(json, "fault", demo_faults[d->options.fault]);
	if (ended && cause->rank >= 0)
		json_int(json, "stalled_rank", cause->rank);
	else
		json_null(json, "stalled_rank");
	json_string(json, "verdict_kind",
	            ended ? cohort_verdict_text(cause->kind) : NULL);
	json_string(json, "verdict_text", ended ? cause->text : NULL);
	json_uint(json, "join_deadline_ms",
	          d->options.join_deadline_ns / 1000000);
	json_ms(json, "detected_ms", d->shared->fault_ns, cause->time_ns);
	json_ms(json, "overshoot_ms",
	        cause->deadline_ns ? cause->since_ns + cause->deadline_ns : 0,
	        cause->time_ns);
	json_ms(json, "unblock_ms", cause->time_ns, s->answered_ns);
	json_int(json, "generations", s->generations);
	json_int(json, "final_ranks", s->ranks);
	json_open(json, "abandoned", '[');
	for (int r = 0; r < d->options.ranks; r++)
		if (d->shared->ranks[r].is_left_behind)
			json_int(json, NULL, r);
	json_close(json, ']');
}

static void print_json(const struct demo *d, const struct summary *s)
{
	const struct demo_options *o = &d->options;
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_string(&json, "platform", cli_platform_name(d->platform));
	json_int(&json, "ranks", o->ranks);
	json_int(&json, "processes", o->processes);
	json_open(&json, "devices", '[');
	for (int i = 0; i < o->ranks; i++)
		json_int(&json, NULL, i);
	json_close(&json, ']');
	json_uint(&json, "epochs", o->epochs);
	json_uint(&json, "held_out", DIGITS_HELD_OUT);
	json_double(&json, "accuracy", s->accuracy);
	json_double(&json, "loss", s->loss);
	json_uint(&json, "steps", d->steps);
	json_double(&json, "seconds",
	            cli_ms_between(d->start_ns, d->end_ns) * 1e-3);
	json_double(&json, "compute_seconds", s->compute_seconds);
	json_double(&json, "comm_seconds", s->comm_seconds);
	json_double(&json, "max_abs_diff_vs_single", s->difference);
	json_story(&json, d, s);
	json_close(&json, '}');
	putchar('\n');
}

void report(const struct demo *d)
{
	const struct summary s = summarize(d);

	if (d->options.json)
		print_json(d, &s);
	else
		print_text(d, &s);
}
