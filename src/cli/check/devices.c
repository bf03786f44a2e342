/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Devices and the paths between them, tried for real
 *
 * Each device by itself, then each pair: a copy each way, and an all-reduce of two ranks.
 * Jobs without a device in common are tried at the same time.
 *
 *	pair ----> the copies, the all-reduce --------------------> told
 *	             |                  |                            ^
 *	             | they fail        | fails, on a direct path    |
 *	             v                  v                            |
 *	           the all-reduce    the all-reduce with ------------+
 *	           alone             NCCL_P2P_DISABLE=1
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/check/check.h"
#include "cli/check/trial.h"
#include "cli/common/cli.h"

#define DEVICE "device"
#define COPIES "peer-copy"
#define SUMS "all-reduce"

/* A device or, if @b is not @a, a pair of them; by index. */
struct job {
	int a, b;
	bool is_started;
};

/* Where a job is tried. */
struct slot {
	struct job *job; /* NULL if there is none */
	unsigned plan;   /* of a pair */
	struct pair_facts facts;
	char subject[32];
	char fault[TRIAL_TEXT + 256]; /* of the all-reduce, or "" */
};

struct field {
	struct check *c;
	int n;
	bool is_bad[COHORT_MAX_RANKS];  /* by index: failed, or not tried */
	bool is_busy[COHORT_MAX_RANKS]; /* by index */
	struct job *jobs;
	size_t count;
	uint64_t until_ns;

	struct slot slots[TRIALS];
	struct trial trials[TRIALS];
	unsigned slot_count;

	/* The library opens no group, whatever the devices. */
	bool is_refused;
	/* Jobs without a process for them; and others. */
	size_t no_process, tried;
	size_t summed, bad_copies, bad_sums, indirect;
};

static int device_at(const struct field *f, int index)
{
	return f->c->devices ? f->c->devices[index] : index;
}

/* ---- what is told ------------------------------------------------------------- */

static bool is_copy(const struct trial *t)
{
	return t->step == try_there || t->step == try_back;
}

/* Why a trial has not succeeded. */
static void explain(const struct trial *t, char *text, size_t size)
{
	const bool is_there = t->step == try_there;
	char copy[64];

	if (t->end != TRIAL_HUNG) {
		text_copy(text, size, t->text);
		return;
	}
	snprintf(copy, sizeof(copy), "a copy from device %d to device %d",
	         is_there ? t->a : t->b, is_there ? t->b : t->a);
	snprintf(text, size, "%s does not finish within %.3g s%s",
	         is_copy(t) ? copy : t->step, (double)t->step_ns / 1e9,
	         t->is_left ? "; its process is inside the driver, and cannot "
	                      "be ended"
	                    : "");
}

static void tell_no_process(struct field *f, const char *check,
                            const struct trial *t)
{
	if (!f->no_process++)
		check_error(f->c, check, "not tried",
		            "Raise the limits of threads and memory.",
		            "There is no process for a trial: %s.", t->text);
}

static void tell_device(struct field *f, const struct slot *s,
                        const struct trial *t)
{
	char text[TRIAL_TEXT + 256];

	explain(t, text, sizeof(text));
	check_error(f->c, DEVICE, s->subject,
	            "End what else runs on it, leave it out "
	            "(CUDA_VISIBLE_DEVICES), or reset it (nvidia-smi -r), and "
	            "see what the kernel's log says of NVRM.",
	            "%s%s", t->end == TRIAL_HUNG ? "On the device " : "", text);
}

static void tell_copies(struct field *f, const struct slot *s,
                        const struct trial *t)
{
	char text[TRIAL_TEXT + 256];

	f->bad_copies++;
	explain(t, text, sizeof(text));
	/* What fails before a copy is no fault of the path's. */
	if (s->facts.is_direct && is_copy(t))
		check_error(f->c, COPIES, s->subject,
		            "Turn off access control (ACS) in the PCI bridges "
		            "and the IOMMU, update the driver, and see "
		            "nvidia-smi topo -p2p p.  Until then set "
		            "NCCL_P2P_DISABLE=1.",
		            "%s, although CUDA says that the devices reach "
		            "each other: the path is advertised and %s.",
		            text, t->end == TRIAL_HUNG ? "dead" : "broken");
	else
		check_error(f->c, COPIES, s->subject,
		            "See what the kernel's log (dmesg) says of NVRM.",
		            "%s", text);
}

static void tell_sum(struct field *f, const struct slot *s, bool is_relieved)
{
	f->bad_sums++;
	check_error(f->c, SUMS, s->subject,
	            is_relieved
	                    ? "Set NCCL_P2P_DISABLE=1 until the path is mended."
	                    : "NCCL_DEBUG=INFO shows which way NCCL takes.",
	            "%s%s", s->fault,
	            is_relieved ? "; with NCCL_P2P_DISABLE=1 it works"
	            : s->plan & TRY_AVOIDS
	                    ? "; nor does it work with NCCL_P2P_DISABLE=1"
	                    : "");
}

static void tell_rest(struct field *f, const char *check, const char *what,
                      size_t wanted)
{
	const size_t left = wanted - f->tried - f->no_process;

	if (left)
		check_warn(f->c, check, "not tried",
		           "Name fewer devices (--devices), or give it more "
		           "time (--limit).",
		           "%zu of %zu %s were not tried within %.3g s.", left,
		           wanted, what, (double)f->c->limit_ns / 1e9);
}

/* ---- one job ------------------------------------------------------------------ */

static bool begin(struct field *f, struct slot *s, unsigned plan)
{
	struct trial *t = &f->trials[s - f->slots];

	*t = (struct trial){
		.check = f->c,
		.run = s->job->a == s->job->b ? try_device : try_pair,
		.plan = plan,
		.a = device_at(f, s->job->a),
		.b = device_at(f, s->job->b),
		.size = sizeof(struct pair_facts),
	};
	if (!trial_start(t))
		return false;
	s->plan = plan;
	snprintf(s->subject, sizeof(s->subject), "%d", t->a);
	if (t->b != t->a)
		text_append(s->subject, sizeof(s->subject), "-%d", t->b);
	return true;
}

static bool disables_p2p(void)
{
	const char *value = getenv("NCCL_P2P_DISABLE");

	return value && strcmp(value, "1") == 0;
}

/* A trial of a pair has ended: returns what is to be tried then, or 0. */
static unsigned next_of_pair(struct field *f, struct slot *s,
                             const struct trial *t)
{
	const struct pair_facts *facts =
		(const struct pair_facts *)t->shared->data;
	const bool is_done = t->end == TRIAL_DONE;

	if (s->plan & TRY_COPIES) {
		f->tried++;
		s->facts = *facts;
		f->indirect += !facts->is_direct && facts->has_copied;
		if (!is_done && !facts->has_copied) {
			tell_copies(f, s, t);
			return f->is_refused ? 0 : s->plan & TRY_SUMS;
		}
	}
	if (facts->is_refused) {
		if (!f->is_refused)
			check_error(f->c, SUMS, NULL,
			            "Correct the setting, or raise the limit.",
			            "No group opens: %s.", t->text);
		f->is_refused = true;
		return 0;
	}
	f->summed += (s->plan & TRY_SUMS) && !(s->plan & TRY_AVOIDS);
	if (is_done || s->plan & TRY_AVOIDS)
		return 0;
	explain(t, s->fault, sizeof(s->fault));
	return s->facts.is_direct && !disables_p2p() ? TRY_SUMS | TRY_AVOIDS
	                                             : 0;
}

/* A trial of the slot has ended, or did not start: go on with the job, or free the slot. */
static void go_on(struct field *f, struct slot *s)
{
	struct trial *t = &f->trials[s - f->slots];
	const bool is_done = t->end == TRIAL_DONE;
	unsigned next = 0;

	if (t->end == TRIAL_REFUSED) {
		tell_no_process(f, s->job->a == s->job->b ? DEVICE : COPIES, t);
	} else if (s->job->a != s->job->b) {
		next = next_of_pair(f, s, t);
	} else {
		f->tried++;
		f->is_bad[s->job->a] = !is_done;
		if (!is_done)
			tell_device(f, s, t);
	}
	trial_free(t);
	if (next && clock_now() < f->until_ns && begin(f, s, next))
		return;
	if (next && !(next & TRY_AVOIDS))
		check_warn(f->c, SUMS, s->subject,
		           "Allow more time (--limit), or more processes.",
		           "The all-reduce was not tried.");
	if (s->fault[0])
		tell_sum(f, s, is_done);
	f->is_busy[s->job->a] = f->is_busy[s->job->b] = false;
	s->job = NULL;
}

/* ---- all jobs ----------------------------------------------------------------- */

/* The next job whose devices are idle, or NULL. */
static struct job *find_job(struct field *f)
{
	for (; f->count && f->jobs->is_started; f->count--)
		f->jobs++;
	for (struct job *j = f->jobs; j < f->jobs + f->count; j++)
		if (!j->is_started && !f->is_busy[j->a] && !f->is_busy[j->b])
			return j;
	return NULL;
}

static void run_jobs(struct field *f, struct job *jobs, size_t count)
{
	struct slot *s;
	struct trial *t;

	f->jobs = jobs;
	f->count = count;
	f->tried = f->no_process = 0;
	do {
		for (s = f->slots; s < f->slots + f->slot_count; s++) {
			if (s->job || clock_now() >= f->until_ns)
				continue;
			*s = (struct slot){ .job = find_job(f) };
			if (!s->job)
				break;
			s->job->is_started = true;
			f->is_busy[s->job->a] = f->is_busy[s->job->b] = true;
			if (!begin(f, s,
			           f->is_refused ? TRY_COPIES
			                         : TRY_COPIES | TRY_SUMS))
				go_on(f, s);
		}
		t = trial_wait(f->trials, f->slot_count);
		if (t)
			go_on(f, &f->slots[t - f->trials]);
		/* None runs if none could be started. */
	} while (t || (clock_now() < f->until_ns && find_job(f)));
}

static void run_devices(struct field *f, struct job *jobs)
{
	int good = 0;

	for (int i = 0; i < f->n; i++) {
		jobs[i] = (struct job){ i, i, false };
		f->is_bad[i] = true;
	}
	run_jobs(f, jobs, (size_t)f->n);
	for (int i = 0; i < f->n; i++)
		good += !f->is_bad[i];
	if (good)
		check_ok(f->c, DEVICE,
		         "%d of %d: memory, and copies of %zu MiB", good, f->n,
		         TRY_BYTES >> 20);
	tell_rest(f, DEVICE, "devices", (size_t)f->n);
}

static void run_pairs(struct field *f, struct job *jobs)
{
	size_t count = 0;

	for (int a = 0; a < f->n; a++)
		for (int b = a + 1; b < f->n; b++)
			if (!f->is_bad[a] && !f->is_bad[b])
				jobs[count++] = (struct job){ a, b, false };
	if (!count) {
		check_skip(f->c, SUMS, "%s",
		           f->n < 2 ? "There is one device, so there are no "
		                      "pairs."
		                    : "Pairs need two devices that are well.");
		return;
	}
	run_jobs(f, jobs, count);
	if (f->tried > f->bad_copies)
		check_ok(f->c, COPIES,
		         "%zu of %zu pairs: %zu MiB each way arrive%s",
		         f->tried - f->bad_copies, f->tried, TRY_BYTES >> 20,
		         f->indirect ? ", some through the host: see "
		                       "peer-access"
		                     : "");
	if (f->summed > f->bad_sums)
		check_ok(f->c, SUMS,
		         "%zu of %zu pairs: correct sums of 4 B and of %zu "
		         "MiB",
		         f->summed - f->bad_sums, f->summed, TRY_BYTES >> 20);
	if (f->indirect)
		check_skip(
			f->c, "peer-access",
			"%zu of %zu pairs have no direct path, as CUDA says, "
			"and go through the host.",
			f->indirect, f->tried);
	tell_rest(f, SUMS, "pairs", count);
}

void check_devices_work(struct check *c)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const size_t n = (size_t)check_devices(c);
	struct field *f;
	struct job *jobs;

	if (!c->is_probed || c->probed.info.status != COHORT_OK) {
		check_skip(c, DEVICE, "The platform cannot be used.");
		return;
	}
	f = cli_need("check", calloc(1, sizeof(*f)));
	/* As many as there are devices, or pairs. */
	jobs = cli_need("check",
	                calloc(n > 2 ? n * (n - 1) / 2 : 2, sizeof(*jobs)));
	f->c = c;
	f->n = (int)n;
	f->until_ns = clock_deadline(c->limit_ns);
	f->slot_count = cores < 2        ? 2
	                : cores > TRIALS ? TRIALS
	                                 : (unsigned)cores;
	run_devices(f, jobs);
	run_pairs(f, jobs);
	free(f);
	free(jobs);
}
