/* SPDX-License-Identifier: Apache-2.0 */

/* Functions that the drill uses for cells at every place */

#include "cli/drill/drill.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cohort/bootstrap.h>
#include <cohort/sim.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "cli/common/cli.h"

/* Guards the outcome of this process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void drill_record_error(struct drill_run *run, const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&lock);
	va_start(args, format);
	if (!*run->own->complaint)
		vsnprintf(run->own->complaint, sizeof(run->own->complaint),
		          format, args);
	va_end(args);
	pthread_mutex_unlock(&lock);
}

bool drill_check_ok(struct drill_run *run, int status, const char *what)
{
	if (status == COHORT_OK)
		return true;
	drill_record_error(run, "%s: %s", what, cohort_last_error());
	return false;
}

void drill_record_verdict(struct drill_run *run,
                          const struct cohort_cause *verdict, bool replaces)
{
	pthread_mutex_lock(&lock);
	if (replaces || run->own->verdict.kind == COHORT_VERDICT_NONE)
		run->own->verdict = *verdict;
	pthread_mutex_unlock(&lock);
}

bool drill_cause(struct drill_run *run, struct cohort_cause *cause)
{
	const struct drill_rank *k = &run->ranks[run->first];
	const int rc = run->group && !k->parent
	                       ? cohort_group_cause(run->group, cause)
	                       : cohort_comm_cause(k->comm, cause);

	return rc == COHORT_OK && cause->status != COHORT_OK;
}

void drill_keep_cause(struct drill_run *run)
{
	struct cohort_cause cause;

	if (!drill_cause(run, &cause))
		return;
	/* For a rank of a stopped process, the library knows only the rank's
	 * number in the child communicator. */
	if (run->place == AT_CHILD && cause.world_rank < 0 && cause.rank >= 0)
		cause.world_rank = run->n - 1 - cause.rank;
	drill_record_verdict(run, &cause, true);
}

void drill_mark_fault(struct drill_run *run)
{
	atomic_store(&run->shared->fault_ns, clock_now());
}

static uint64_t lateness(const struct drill_run *run)
{
	return run->options->deadline_ns / 2;
}

int drill_struck_rank(const struct drill_run *run)
{
	/* In a split, one thread connects all ranks, and rank 0 has the
	 * scripted fault. */
	const bool is_split = run->place == AT_SPLIT &&
	                      !drill_is_asked_for(run) &&
	                      drill_script(run->place, run->trouble);

	return is_split || run->place == AT_RESPAWN ? 0 : drill_victim(run);
}

/* Return the number of the native call that has the fault. */
static uint64_t struck_operation(const struct drill_run *run)
{
	/* The fault is in the first call of the group or, for AT_RESPAWN, of
	 * the next generation. */
	if (run->place == AT_OPEN || run->place == AT_FIRST ||
	    run->place == AT_RESPAWN)
		return 0;
	/* The fault is in the first native call after the warm-up. In a batch,
	 * an error that the prober must find is in the batch's last call. */
	return 1 + (run->place == AT_BATCH && drill_is_asked_for(run));
}

void drill_arm(struct drill_run *run)
{
	const struct drill_script *script =
		drill_script(run->place, run->trouble);
	const int rank = drill_struck_rank(run);
	struct cohort_fault fault;

	if (!script)
		return;
	fault = (struct cohort_fault){
		.rank = run->place == AT_CHILD ? run->n - 1 - rank : rank,
		.operation = struck_operation(run),
		.kind = script->kind,
		.value = script->value == DRILL_LATENESS ? lateness(run)
		                                         : script->value,
	};
	/* Use an error that the end of another process cannot cause. */
	if (run->trouble == BY_ASYNC_ERROR && run->options->processes > 1)
		fault.value = 3;
	if (run->options->is_nvidia)
		drill_record_error(run, "NVIDIA's NCCL has no scripted faults");
	drill_check_ok(run, cohort_sim_fault_add(&fault), "fault");
}

void drill_delay(const struct drill_run *run)
{
	const uint64_t ns = lateness(run);
	const struct timespec t = clock_timespec(ns);

	nanosleep(&t, NULL);
}

bool drill_await_count(struct drill_run *run, const atomic_int *count, int n,
                       const char *what)
{
	const uint64_t deadline = clock_deadline(DRILL_LIMIT_NS);
	struct backoff b = BACKOFF;

	while (count ? atomic_load(count) < n
	             : !cohort_abort_fired(run->handle)) {
		if (clock_now() >= deadline) {
			drill_record_error(run, "waited too long: %s", what);
			return false;
		}
		backoff_wait(&b, deadline);
	}
	return true;
}

bool drill_await_cause(struct drill_run *run)
{
	return drill_await_count(run, NULL, 0, "the group has not ended");
}

/* Atomic; the run whose abort handle the signal handler fires */
static struct drill_run *_Atomic firing;

static void fire_once(struct drill_run *run)
{
	const int rc = run->handle ? cohort_abort_fire(run->handle, "drill")
	                           : cohort_group_abort(run->group, "drill");

	if (rc == COHORT_OK)
		atomic_fetch_add(&run->shared->fired, 1);
	atomic_fetch_add(&run->shared->fires, 1);
}

static void handle_signal(int signal)
{
	(void)signal;
	fire_once(atomic_load(&firing));
}

void drill_fire(struct drill_run *run, pthread_t thread)
{
	const struct sigaction action = { .sa_handler = handle_signal };
	const int fires = atomic_load(&run->shared->fires);

	if (run->trouble != BY_SIGNAL) {
		fire_once(run);
		if (run->trouble == BY_TWO_ABORTS)
			fire_once(run);
		return;
	}
	atomic_store(&firing, run);
	sigaction(DRILL_SIGNAL, &action, NULL);
	pthread_kill(thread, DRILL_SIGNAL);
	drill_await(run, fires, fires + 1);
}

bool drill_memory_open(struct drill_memory *m,
                       const struct drill_options *drill, int first, int n)
{
	const size_t size = 2 * DRILL_COUNT * sizeof(float);
	struct cohort_group_options options;
	int devices[DRILL_MOST_RANKS];
	int rc;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "keeper";
	options.platform = drill->platform;
	*m = (struct drill_memory){ .keeper = NULL };
	for (int r = 0; r < n; r++)
		devices[r] = first + r;
	rc = cohort_group_open(devices, n, &options, &m->keeper);
	if (rc == COHORT_OK)
		rc = cohort_group_split(m->keeper, m->comms);
	if (rc == COHORT_OK)
		rc = cohort_group_alloc(m->keeper, size, m->tensors);
	if (rc != COHORT_OK)
		cli_error("%s", cohort_last_error());
	return rc == COHORT_OK;
}

void drill_memory_close(struct drill_memory *m)
{
	if (m->tensors[0])
		cohort_group_free(m->keeper, m->tensors);
	if (m->keeper)
		cohort_group_close(m->keeper);
}

int drill_copy(struct cohort_comm *comm, void *to, const void *from,
               size_t size)
{
	const int rc =
		cohort_copy(comm, to, from, size, cohort_comm_stream(comm));

	return rc == COHORT_OK ? cohort_synchronize(comm, DRILL_LIMIT_NS) : rc;
}

/* Return a stream of a group that was closed. The stream was on the victim's
 * device. */
static void *destroyed_stream(struct drill_run *run)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	const int device = drill_victim(run);
	struct cohort_comm *comm;
	void *stream = NULL;

	cohort_group_options_init(&options);
	options.log = "none";
	options.platform = run->options->platform;
	if (!drill_check_ok(run,
	                    cohort_group_open(&device, 1, &options, &group),
	                    "open of another group"))
		return NULL;
	if (drill_check_ok(run, cohort_group_split(group, &comm), "split"))
		stream = cohort_comm_stream(comm);
	drill_check_ok(run, cohort_group_close(group),
	               "close of another group");
	return stream;
}

void *drill_bad_stream(struct drill_run *run, int rank)
{
	if (rank != drill_victim(run))
		return NULL;
	/* Use rank 0's stream, because rank 0 is never the victim. */
	if (run->trouble == BY_STREAM)
		return cohort_comm_stream(run->memory->comms[0]);
	return run->trouble == BY_DEAD_STREAM ? destroyed_stream(run) : NULL;
}

int drill_open_quietly(struct drill_run *run)
{
	static const struct cohort_bootstrap bootstrap = {
		.size = sizeof(bootstrap),
		.kind = COHORT_BOOTSTRAP_ENV,
	};
	int devices[DRILL_MOST_RANKS];

	for (int i = 0; i < run->own_n; i++)
		devices[i] = run->first + i;
	if (run->options->processes > 1)
		run->group_options.bootstrap = &bootstrap;
	return cohort_group_open(devices, run->own_n, &run->group_options,
	                         &run->group);
}

bool drill_open(struct drill_run *run)
{
	return drill_check_ok(run, drill_open_quietly(run), "open");
}

bool drill_split(struct drill_run *run, struct cohort_comm **comms)
{
	if (!drill_check_ok(run, cohort_group_split(run->group, comms),
	                    "split"))
		return false;
	if (!run->handle)
		run->handle = cohort_comm_abort_handle(comms[0]);
	return true;
}

void drill_close(struct drill_run *run, int status)
{
	int rc;

	if (!run->group)
		return;
	rc = cohort_group_close(run->group);
	if (rc != status)
		drill_record_error(run, "close returned %s, %s",
		                   cohort_status_text(rc),
		                   rc < 0 ? cohort_last_error() : "");
	run->group = NULL;
}
