/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stresses processes that watch each other while their groups end
 *
 * Three threads stand for processes, each with two ranks of one group. In every
 * generation they make sums until one or two of them abort the group, fail a
 * rank, or fall silent. If one falls silent, the others stall and query it.
 * Then all respawn. Checks that all processes have a cause, that only those
 * that ended the group have their own cause, that every respawn succeeds, and
 * that every generation computes right sums.
 */

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cohort/bootstrap.h>

#include "base/clock.h"
#include "support/crew.h"
#include "support/ranks.h"
#include "support/stress.h"

#define PROCESSES 3
#define PER_PROCESS 2
#define RANKS (PROCESSES * PER_PROCESS)
#define GENERATIONS 3
#define MS UINT64_C(1000000)

/* ---- a table in memory ------------------------------------------------- */

#define EXCHANGES 4
#define RECORD 4096

struct hall {
	atomic_int came[EXCHANGES];
	char bytes[EXCHANGES][PROCESSES][RECORD];
};

struct member {
	struct hall *hall;
	int process, exchange;
	void *recv;
	size_t bytes;
};

static int gather(void *send, void *recv, size_t bytes, void *info,
                  void **request)
{
	struct member *m = info;

	if (bytes > RECORD || m->exchange == EXCHANGES)
		stress_fail("exchange %d of %zu bytes", m->exchange, bytes);
	m->recv = recv;
	m->bytes = bytes;
	memcpy(m->hall->bytes[m->exchange][m->process], send, bytes);
	atomic_fetch_add(&m->hall->came[m->exchange], 1);
	*request = m;
	return 0;
}

static int test(void *request)
{
	struct member *m = request;
	int i;

	if (atomic_load(&m->hall->came[m->exchange]) < PROCESSES)
		return 1;
	for (i = 0; i < PROCESSES; i++)
		memcpy((char *)m->recv + (size_t)i * m->bytes,
		       m->hall->bytes[m->exchange][i], m->bytes);
	m->exchange++;
	return 0;
}

static int release(void *request)
{
	(void)request;
	return 0;
}

/* ---- a process --------------------------------------------------------- */

enum end { GOES_ON, ABORTS, FAILS, IS_SILENT };

struct round {
	struct hall hall;

	/* Action of each process in each generation, and the sum during which
	 * it acts. */
	enum end end[GENERATIONS][PROCESSES];
	int sums[GENERATIONS][PROCESSES];
};

struct process {
	struct round *round;
	struct cohort_group *group;
	int number, generation;
};

static int await_cause(struct cohort_comm *c)
{
	const uint64_t deadline = clock_deadline(RANKS_SOON);
	struct cohort_cause cause;

	do {
		sched_yield();
		cohort_comm_cause(c, &cause);
	} while (cause.status == COHORT_OK && clock_now() < deadline);
	return cause.status;
}

static int sum(struct cohort_comm *c)
{
	int32_t value = cohort_comm_rank(c);
	int rc = ranks_sum_wait(c, &value);

	if (rc == COHORT_OK && value != RANKS * (RANKS - 1) / 2)
		stress_fail("the sum is %d", value);
	return rc;
}

static int worker(struct cohort_comm *c, void *user)
{
	const struct process *p = user;
	const int g = p->generation, n = p->number;
	int i, rc = COHORT_OK;

	for (i = 0; rc == COHORT_OK; i++) {
		if (p->round->end[g][n] == GOES_ON ||
		    i < p->round->sums[g][n]) {
			rc = sum(c);
			continue;
		}
		if (p->round->end[g][n] == ABORTS)
			cohort_group_abort(p->group, "stress");
		else if (p->round->end[g][n] == FAILS)
			return cohort_comm_fail(c, 7, "stress");
		rc = await_cause(c);
	}
	return rc;
}

/* Run one generation to its end. */
static void live(struct process *p)
{
	struct cohort_cause cause;
	int rc;

	rc = cohort_group_run(p->group, worker, p, NULL);
	/* Another process may have ended the group before. */
	if (rc != COHORT_ABORTED && rc != COHORT_WORKER &&
	    rc != COHORT_STALLED && rc != COHORT_STATE)
		stress_fail("process %d: run: %d: %s", p->number, rc,
		            cohort_last_error());
	cohort_group_cause(p->group, &cause);
	if (cause.status == COHORT_OK || !*cause.text)
		stress_fail("process %d: no cause", p->number);
	if (p->round->end[p->generation][p->number] != ABORTS &&
	    strncmp(cause.text, "aborted: stress", 15) == 0)
		stress_fail("process %d: %s", p->number, cause.text);
}

static void process_main(void *arg, int i)
{
	struct round *round = arg;
	struct member member = { .hall = &round->hall, .process = i };
	const struct cohort_bootstrap table = {
		.size = sizeof(table),
		.kind = COHORT_BOOTSTRAP_TABLE,
		.process = i,
		.processes = PROCESSES,
		.allgather = gather,
		.req_test = test,
		.req_free = release,
		.info = &member,
	};
	const int devices[PER_PROCESS] = { PER_PROCESS * i,
		                           PER_PROCESS * i + 1 };
	struct process p = { .round = round, .number = i };
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.bootstrap = &table;
	o.recorder_slots = 64;
	o.deadlines.join_ns = o.deadlines.exec_ns = 200 * MS;
	ranks_must(cohort_group_open(devices, PER_PROCESS, &o, &p.group),
	           "open");
	for (p.generation = 0; p.generation < GENERATIONS; p.generation++) {
		live(&p);
		ranks_must(cohort_group_respawn(p.group, NULL, 0), "respawn");
		if (cohort_group_generation(p.group) != p.generation + 2)
			stress_fail("generation %d",
			            cohort_group_generation(p.group));
	}
	cohort_group_close(p.group);
}

/* Choose one or two processes to end each generation. */
static void plan(struct round *round, uint64_t *seed)
{
	int g, k, n, i;

	memset(round, 0, sizeof(*round));
	for (g = 0; g < GENERATIONS; g++) {
		n = 1 + stress_random(seed) % 2;
		for (k = 0; k < n; k++) {
			i = stress_random(seed) % PROCESSES;
			round->end[g][i] =
				stress_random(seed) % 8
					? ABORTS + stress_random(seed) % 2
					: IS_SILENT;
			round->sums[g][i] = stress_random(seed) % 8;
		}
	}
}

int main(int argc, char **argv)
{
	static struct crew crew;
	static struct round round;
	unsigned long rounds;
	uint64_t seed = 1;

	place_need_one_process("groups of several processes in one");
	place_open(RANKS);
	crew_start(&crew, PROCESSES, process_main);
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		plan(&round, &seed);
		crew_begin(&crew, &round);
		crew_end(&crew);
	}
	printf("%lu rounds\n", rounds);
	return 0;
}
