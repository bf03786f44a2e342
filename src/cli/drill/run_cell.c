/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs one cell of the drill: makes its group's options, runs it in its place, and
 * judges the outcome
 */

#include "cli/drill/drill.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cohort/sim.h>

#include "base/clock.h"
#include "cli/common/cli.h"

/* A deadline that must not pass. */
#define LONG_NS (10 * NS_PER_S)

/* ---- the group's options ---------------------------------------------- */

/* Keep a verdict of the group, as the callback on_verdict. */
static int keep_verdict(const struct cohort_verdict *told, void *user)
{
	struct drill_run *run = user;

	if (told->stage == COHORT_STAGE_WARNING) {
		if (told->kind == COHORT_VERDICT_NOT_STARTED)
			atomic_store(&run->shared->is_stuck, 1);
		return 0;
	}
	/* The verdict by which the first generation ends before a respawn. */
	if (run->place == AT_RESPAWN && told->generation == 1)
		return 0;
	if (told->kind == COHORT_VERDICT_WEDGED)
		drill_complain(run, "wedged: %s", told->text);
	drill_note(run,
	           (struct drill_verdict){ told->kind, told->world_rank,
	                                   told->since_ns, told->deadline_ns,
	                                   told->time_ns },
	           told->text, false);
	return 0;
}

/* True if the call that must expire connects ranks, which may take until the init
 * deadline. */
static bool call_connects(const struct drill_run *run)
{
	return run->trouble == BY_REMOTE && !drill_warms_up(run);
}

static bool is_stuck_split(const struct drill_run *run)
{
	return run->place == AT_SPLIT && run->trouble == BY_STUCK;
}

/* True if the group is opened with the deadline that must later expire. */
static bool opens_by_deadline(const struct drill_run *run)
{
	return run->place == AT_RESPAWN || call_connects(run) ||
	       is_stuck_split(run);
}

static void set_deadlines(struct drill_run *run)
{
	struct cohort_deadlines *d = &run->group_options.deadlines;
	const uint64_t usual_ns = run->options->deadline_ns;
	uint64_t ns = run->cell->bound == BY_DEADLINE ||
	                              run->trouble == BY_PAUSED_PARENT
	                      ? run->deadline_ns
	              : run->trouble == BY_LATE ? 5 * usual_ns
	                                        : LONG_NS;

	d->init_ns = d->join_ns = d->exec_ns = LONG_NS;
	d->close_ns = d->abort_ns = LONG_NS;
	if (run->place == AT_OPEN || opens_by_deadline(run))
		d->init_ns = ns;
	if (run->place == AT_CLOSE && run->trouble != BY_STUCK)
		d->close_ns = ns;
	else if (run->place == AT_CLOSE)
		d->exec_ns = ns;
	else if (run->place == AT_ABORT && run->trouble == BY_TOO_LATE)
		d->abort_ns = usual_ns;
	else if (run->place == AT_ABORT && run->trouble == BY_STUCK)
		d->exec_ns = 5 * usual_ns;
	else if (run->place != AT_OPEN && run->place != AT_RESPAWN &&
	         run->place != AT_ABORT && !is_stuck_split(run))
		d->join_ns = d->exec_ns = ns;
	/* It waits for the end of the process's former generations, too. */
	if (run->place == AT_RESPAWN && run->trouble == BY_STOP) {
		d->abort_ns = usual_ns;
		d->init_ns -= 2 * usual_ns;
	}
}

/* ---- the run ---------------------------------------------------------- */

/* Zeroed memory that processes share once they are forked; NULL without memory. */
static struct drill_shared *create_shared(unsigned meeting)
{
	struct drill_shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attributes;

	if (shared == MAP_FAILED)
		return NULL;
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->ready, &attributes, meeting);
	pthread_barrierattr_destroy(&attributes);
	for (int i = 0; i < DRILL_MOST_RANKS; i++)
		shared->outcomes[i].verdict.rank = -1;
	return shared;
}

static struct drill_run *create(const struct drill_options *options,
                                enum place place, enum trouble trouble)
{
	struct drill_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->shared =
		create_shared((unsigned)(options->ranks + options->processes));
	if (!run->shared) {
		free(run);
		return NULL;
	}
	run->own = &run->shared->outcomes[0];
	run->own_n = options->ranks;
	run->options = options;
	run->cell = drill_cell(place, trouble, options->processes);
	run->bootstrap = (struct cohort_bootstrap){
		.size = sizeof(run->bootstrap),
		.kind = COHORT_BOOTSTRAP_ENV,
	};
	run->place = place;
	run->trouble = trouble;
	run->n = options->ranks;
	run->deadline_ns =
		options->deadline_ns * (opens_by_deadline(run) ? 5 : 1);
	pthread_mutex_init(&run->lock, NULL);
	cohort_group_options_init(&run->group_options);
	run->group_options.log = "none";
	run->group_options.name = "drill";
	run->group_options.platform = options->platform;
	run->group_options.on_verdict = keep_verdict;
	run->group_options.user = run;
	run->group_options.stack_signal = CLI_STACK_SIGNAL;
	/* The close must find a call in flight in which nobody waits. */
	if (run->place == AT_CLOSE && run->trouble == BY_ABSENCE)
		run->group_options.launch = COHORT_LAUNCH_AHEAD;
	/* A wait has a timeout, but a call that waits for all ranks has none. */
	if (run->trouble == BY_TIMEOUT)
		run->group_options.launch = COHORT_LAUNCH_AHEAD;
	/* A rank that joins by NCCL's own functions, or never, connects as NCCL
	 * does. */
	if (trouble == BY_REMOTE || place == AT_OPEN)
		run->group_options.connect = COHORT_CONNECT_NONE;
	set_deadlines(run);
	return run;
}

/* Free the run, unless it has threads left. */
static void destroy(struct drill_run *run)
{
	if (!run)
		return;
	cohort_abort_put(run->handle);
	if (run->is_hung)
		return;
	munmap(run->shared, sizeof(*run->shared));
	pthread_mutex_destroy(&run->lock);
	free(run);
}

void drill_run_here(struct drill_run *run, const struct drill_memory *memory)
{
	run->memory = memory;
	for (int r = run->first; r < run->first + run->own_n; r++)
		run->ranks[r].tensors = memory->tensors[r];
	switch (run->place) {
	case AT_OPEN:
		drill_at_open(run);
		break;
	case AT_GROUP:
		drill_at_group(run);
		break;
	case AT_RESPAWN:
		drill_at_respawn(run);
		break;
	default:
		drill_by_ranks(run);
	}
	cohort_sim_faults_clear();
}

void drill_run(const struct drill_options *options,
               const struct drill_memory *memory, enum place place,
               enum trouble trouble, struct drill_result *result)
{
	struct drill_run *run = create(options, place, trouble);
	struct drill_run *warm_up = NULL;

	*result = (struct drill_result){
		.place = place,
		.trouble = trouble,
		.ranks = options->ranks,
	};
	if (options->processes > 1)
		warm_up = create(options, AT_CALL, BY_NOTHING);
	if (!run || (options->processes > 1 && !warm_up)) {
		snprintf(result->got, sizeof(result->got), "out of memory");
	} else {
		if (warm_up)
			drill_run_forked(run, warm_up);
		else
			drill_run_here(run, memory);
		drill_judge(run, result);
	}
	destroy(warm_up);
	destroy(run);
}
