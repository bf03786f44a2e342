/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tries devices and the paths between them
 *
 * Each device is tried by itself. Then each pair of devices is tried, with a
 * copy in each direction and an all-reduce of two ranks. Jobs that have no
 * device in common run at the same time.
 *
 *	pair ----> the copies, the all-reduce -------------> report
 *	             |                  |                       ^
 *	             | they fail        | fails on a direct     |
 *	             |                  | path                  |
 *	             v                  v                       |
 *	           the all-reduce     the all-reduce with ------+
 *	           alone              NCCL_P2P_DISABLE=1
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/check/check.h"
#include "cli/common/cli.h"
#include "platform/platform.h"

/* Number of bytes to copy, enough to use the copy engines and each of NCCL's
 * protocols */
#define TRY_BYTES ((size_t)4 << 20)

/* Bits of a trial's plan */
enum {
	TRY_COPIES = 1,
	TRY_SUMS = 2,
	TRY_AVOIDS = 4, /* set NCCL_P2P_DISABLE=1 */
};

struct pair_facts {
	/* CUDA reports that both devices can access each other's memory */
	bool is_direct;
	bool has_copied; /* both copies have completed with the right data */
	/* the library refused its settings or could not start threads; the
	 * devices are not at fault */
	bool is_refused;
};

#define COUNT (TRY_BYTES / sizeof(float))

/* Longest time that an abort takes; NCCL's own threads check twice a second
 * whether they must abort */
#define ABORT_NS (3 * NS_PER_S)

struct native {
	struct trial *trial;
	const struct platform *p;
	unsigned char *host; /* a buffer to check copies */
};

static struct native open_native(struct trial *t)
{
	struct native n = { .trial = t, .host = malloc(TRY_BYTES) };

	if (!n.host)
		trial_fail(t, "out of memory");
	if (platform_open(t->check->platform, &n.p) != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
	trial_step(t, "an allocation", TRIAL_STARTS * t->check->deadline_ns);
	return n;
}

static void must(const struct native *n, cudaError_t error, const char *what,
                 int device)
{
	if (error != cudaSuccess)
		trial_fail(n->trial, "%s on device %d: %s (%d)", what, device,
		           n->p->cudaGetErrorString(error), (int)error);
}

#define MUST(n, device, call, arguments)                                       \
	must(n, (n)->p->call arguments, #call, device)

static void *allocate(const struct native *n, int device)
{
	void *memory = NULL;

	MUST(n, device, cudaSetDevice, (device));
	MUST(n, device, cudaMalloc, (&memory, TRY_BYTES));
	return memory;
}

/* Return byte @i of the data that device @from sends. */
static unsigned char pattern(int from, size_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) * 7 + (size_t)from * 17 + 1);
}

static void check_pattern(const struct native *n, const void *memory, int to,
                          int from)
{
	size_t wrong = 0, first = 0;
	char source[32] = "";

	memset(n->host, 0, TRY_BYTES);
	MUST(n, to, cudaSetDevice, (to));
	MUST(n, to, cudaMemcpy,
	     (n->host, memory, TRY_BYTES, cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < TRY_BYTES; i++)
		if (n->host[i] != pattern(from, i) && !wrong++)
			first = i;
	if (to != from)
		snprintf(source, sizeof(source), " from device %d", from);
	if (wrong)
		trial_fail(n->trial,
		           "%zu of %zu bytes%s are wrong on device %d, the "
		           "first at offset %zu",
		           wrong, TRY_BYTES, source, to, first);
}

static void try_copy(const struct native *n, int from, void *sends, int to,
                     void *receives, const char *step)
{
	const uint64_t ns = n->trial->check->deadline_ns;
	cudaStream_t stream = NULL;

	trial_step(n->trial, "a copy from the host", ns);
	MUST(n, from, cudaSetDevice, (from));
	MUST(n, from, cudaStreamCreateWithFlags,
	     (&stream, cudaStreamNonBlocking));
	for (size_t i = 0; i < TRY_BYTES; i++)
		n->host[i] = pattern(from, i);
	MUST(n, from, cudaMemcpy,
	     (sends, n->host, TRY_BYTES, cudaMemcpyHostToDevice));
	trial_step(n->trial, step, ns);
	if (from == to)
		MUST(n, from, cudaMemcpyAsync,
		     (receives, sends, TRY_BYTES, cudaMemcpyDeviceToDevice,
		      stream));
	else
		MUST(n, from, cudaMemcpyPeerAsync,
		     (receives, to, sends, from, TRY_BYTES, stream));
	MUST(n, from, cudaStreamSynchronize, (stream));
	check_pattern(n, receives, to, from);
	MUST(n, from, cudaStreamDestroy, (stream));
}

static void try_device(struct trial *t)
{
	struct native n = open_native(t);
	void *from = allocate(&n, t->a), *to = allocate(&n, t->a);

	try_copy(&n, t->a, from, t->a, to, "a copy within its memory");
}

static bool enable_peer(const struct native *n, int device, int peer)
{
	cudaError_t error;
	int can = 0;

	MUST(n, device, cudaDeviceCanAccessPeer, (&can, device, peer));
	if (!can)
		return false;
	MUST(n, device, cudaSetDevice, (device));
	error = n->p->cudaDeviceEnablePeerAccess(peer, 0);
	if (error == cudaErrorPeerAccessAlreadyEnabled)
		n->p->cudaGetLastError();
	else
		must(n, error, "cudaDeviceEnablePeerAccess", device);
	return true;
}

static const char try_there[] = "a copy to the second device",
		  try_back[] = "a copy to the first device";

static void try_copies(struct trial *t)
{
	struct pair_facts *facts = (struct pair_facts *)t->shared->data;
	struct native n = open_native(t);
	void *a = allocate(&n, t->a), *b = allocate(&n, t->b);
	const bool there = enable_peer(&n, t->a, t->b),
		   back = enable_peer(&n, t->b, t->a);

	facts->is_direct = there && back;
	try_copy(&n, t->a, a, t->b, b, try_there);
	try_copy(&n, t->b, b, t->a, a, try_back);
	MUST(&n, t->a, cudaFree, (a));
	MUST(&n, t->b, cudaFree, (b));
	free(n.host);
	facts->has_copied = true;
}

static int fail_sum(struct cohort_comm *comm, size_t count, size_t i, float is)
{
	char text[128];

	snprintf(text, sizeof(text),
	         "a sum of floats is wrong: element %zu of %zu is %.9g, not "
	         "%.9g",
	         i, count, (double)is, (double)(2 * (i % 1000) + 1));
	return cohort_comm_fail(comm, 1, text);
}

/* All-reduce @count floats over the two ranks, and check the results. Float i
 * of a rank is i % 1000 plus the rank. */
static int sum(struct cohort_comm *comm, float *buffer, float *host,
               size_t count)
{
	const int rank = cohort_comm_rank(comm);
	uint64_t ticket;
	int rc;

	for (size_t i = 0; i < count; i++)
		host[i] = (float)(i % 1000 + (size_t)rank);
	rc = cohort_copy(comm, buffer, host, count * sizeof(float),
	                 cohort_comm_stream(comm));
	if (rc == COHORT_OK)
		rc = cohort_all_reduce(comm, buffer, buffer, count, COHORT_F32,
		                       COHORT_SUM, cohort_comm_stream(comm),
		                       &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(comm, ticket, COHORT_FOREVER);
	if (rc == COHORT_OK)
		rc = cohort_copy(comm, host, buffer, count * sizeof(float),
		                 cohort_comm_stream(comm));
	if (rc == COHORT_OK)
		rc = cohort_synchronize(comm, COHORT_FOREVER);
	for (size_t i = 0; rc == COHORT_OK && i < count; i++)
		if (host[i] != (float)(2 * (i % 1000) + 1))
			return fail_sum(comm, count, i, host[i]);
	return rc;
}

static int worker(struct cohort_comm *comm, void *user)
{
	float *host = malloc(TRY_BYTES);
	void *buffer = NULL;
	int rc = host ? cohort_alloc(comm, TRY_BYTES, &buffer)
	              : COHORT_NO_MEMORY;

	(void)user;
	if (rc == COHORT_OK)
		rc = sum(comm, buffer, host, 1);
	if (rc == COHORT_OK)
		rc = sum(comm, buffer, host, COUNT);
	if (rc == COHORT_OK)
		rc = cohort_free(comm, buffer);
	free(host);
	return rc;
}

/* Try an all-reduce of two ranks. The group has its own deadlines, because
 * their errors say more than an expired deadline of the step. */
static void try_all_reduce(struct trial *t)
{
	struct pair_facts *facts = (struct pair_facts *)t->shared->data;
	const uint64_t ns = t->check->deadline_ns;
	struct cohort_group_options options;
	struct cohort_cause cause;
	struct cohort_group *group;
	int rc;

	cohort_group_options_init(&options);
	options.log = "none";
	options.name = "check";
	options.platform = t->check->platform;
	options.deadlines = (struct cohort_deadlines){
		.init_ns = ns,
		.join_ns = ns,
		.exec_ns = ns,
		.close_ns = ns,
		.abort_ns = ABORT_NS,
	};
	trial_step(t, "the connection of two ranks", ns + 2 * ABORT_NS);
	rc = cohort_group_open((int[]){ t->a, t->b }, 2, &options, &group);
	facts->is_refused = rc == COHORT_INVALID || rc == COHORT_SYSTEM;
	if (rc != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
	trial_step(t, "an all-reduce", 2 * ns + 2 * ABORT_NS);
	if (cohort_group_run(group, worker, NULL, &cause) != COHORT_OK) {
		/* If there is no cause, no worker has run. */
		facts->is_refused = !cause.text[0];
		trial_fail(t, "%s",
		           cause.text[0] ? cause.text : cohort_last_error());
	}
	trial_step(t, "the close of two ranks", ns + 2 * ABORT_NS);
	if (cohort_group_close(group) != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
}

/* Run the steps of @t->plan on the pair of devices. @t->shared->data holds the
 * struct pair_facts. */
static void try_pair(struct trial *t)
{
	if (t->plan & TRY_AVOIDS)
		setenv("NCCL_P2P_DISABLE", "1", 1);
	if (t->plan & TRY_COPIES)
		try_copies(t);
	if (t->plan & TRY_SUMS)
		try_all_reduce(t);
}

#define DEVICE "device"
#define COPIES "peer-copy"
#define SUMS "all-reduce"

/* A pair of devices, by index, or a single device if @a equals @b */
struct job {
	int a, b;
	bool is_started;
};

struct slot {
	struct trial trial; /* the job's current or last trial */
	struct job *job;    /* the slot's job, or NULL if the slot is free */
	struct pair_facts facts;
	char subject[32];
	char fault[TRIAL_TEXT + 256]; /* fault of the all-reduce, or "" */
};

struct field {
	struct check *c;
	int n;
	/* for each index: true if the device failed or was not tried */
	bool is_bad[COHORT_MAX_RANKS];
	/* for each index: true if a job is using the device */
	bool is_busy[COHORT_MAX_RANKS];
	struct job *jobs;
	size_t count;
	uint64_t until_ns;

	struct slot slots[TRIALS];
	struct trial *trials[TRIALS];
	unsigned slot_count;

	bool is_refused; /* the library cannot open a group on any devices */
	/* number of jobs whose process could not be started; number of all
	 * other jobs */
	size_t no_process, tried;
	size_t summed, bad_copies, bad_sums, indirect;
};

static int device_at(const struct field *f, int index)
{
	return f->c->devices ? f->c->devices[index] : index;
}

static bool is_copy(const struct trial *t)
{
	return t->step == try_there || t->step == try_back;
}

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
	snprintf(text, size, "%s did not finish within %.3g s%s",
	         is_copy(t) ? copy : t->step, (double)t->step_ns / 1e9,
	         t->is_left ? "; its process is inside the driver and cannot "
	                      "be ended"
	                    : "");
}

static void report_copies(struct field *f, const struct slot *s)
{
	const struct trial *t = &s->trial;
	char text[TRIAL_TEXT + 256];

	f->bad_copies++;
	explain(t, text, sizeof(text));
	/* A failure before a copy is not a fault of the path. */
	if (s->facts.is_direct && is_copy(t))
		check_error(f->c, COPIES, s->subject,
		            "Turn off access control (ACS) in the PCI bridges "
		            "and the IOMMU, update the driver, and see "
		            "nvidia-smi topo -p2p p.  Until then set "
		            "NCCL_P2P_DISABLE=1.",
		            "%s, although CUDA reports that the devices can "
		            "access each other: the path is advertised but %s.",
		            text, t->end == TRIAL_HUNG ? "dead" : "broken");
	else
		check_error(f->c, COPIES, s->subject,
		            "Look for NVRM in the kernel's log (dmesg).", "%s",
		            text);
}

static void report_sum(struct field *f, const struct slot *s, bool is_relieved)
{
	f->bad_sums++;
	check_error(
		f->c, SUMS, s->subject,
		is_relieved
			? "Set NCCL_P2P_DISABLE=1 until the path is repaired."
			: "NCCL_DEBUG=INFO shows which path NCCL uses.",
		"%s%s", s->fault,
		is_relieved ? "; with NCCL_P2P_DISABLE=1 it works"
		: s->trial.plan & TRY_AVOIDS
			? "; it does not work with NCCL_P2P_DISABLE=1 either"
			: "");
}

static void report_rest(struct field *f, const char *check, const char *what,
                        size_t wanted)
{
	const size_t left = wanted - f->tried - f->no_process;

	if (left)
		check_warn(
			f->c, check, "not tried",
			"Choose fewer devices (--devices), or allow more time "
			"(--limit).",
			"%zu of %zu %s were not tried within %.3g s.", left,
			wanted, what, (double)f->c->limit_ns / 1e9);
}

static bool begin(struct field *f, struct slot *s, unsigned plan)
{
	s->trial = (struct trial){
		.check = f->c,
		.run = s->job->a == s->job->b ? try_device : try_pair,
		.plan = plan,
		.a = device_at(f, s->job->a),
		.b = device_at(f, s->job->b),
		.size = sizeof(struct pair_facts),
	};
	snprintf(s->subject, sizeof(s->subject), "%d", s->trial.a);
	if (s->trial.b != s->trial.a)
		text_append(s->subject, sizeof(s->subject), "-%d", s->trial.b);
	if (trial_start(&s->trial))
		return true;
	s->trial.plan = 0; /* nothing was tried */
	return false;
}

/* Handle the end of a pair's trial. Return the plan of the next trial, or 0. */
static unsigned next_of_pair(struct field *f, struct slot *s)
{
	const struct trial *t = &s->trial;
	const struct pair_facts *facts =
		(const struct pair_facts *)t->shared->data;
	const char *disabled = getenv("NCCL_P2P_DISABLE");

	if (t->plan & TRY_COPIES) {
		f->tried++;
		s->facts = *facts;
		f->indirect += !facts->is_direct && facts->has_copied;
		if (t->end != TRIAL_DONE && !facts->has_copied) {
			report_copies(f, s);
			return f->is_refused ? 0 : t->plan & TRY_SUMS;
		}
	}
	if (facts->is_refused) {
		if (!f->is_refused)
			check_error(f->c, SUMS, NULL,
			            "Correct the setting, or raise the limit.",
			            "No group can be opened: %s.", t->text);
		f->is_refused = true;
		return 0;
	}
	f->summed += (t->plan & TRY_SUMS) && !(t->plan & TRY_AVOIDS);
	if (t->end == TRIAL_DONE || t->plan & TRY_AVOIDS)
		return 0;
	explain(t, s->fault, sizeof(s->fault));
	return s->facts.is_direct && (!disabled || strcmp(disabled, "1") != 0)
	               ? TRY_SUMS | TRY_AVOIDS
	               : 0;
}

static void end_device(struct field *f, struct slot *s)
{
	const struct trial *t = &s->trial;
	char text[TRIAL_TEXT + 256];

	f->tried++;
	f->is_bad[s->job->a] = t->end != TRIAL_DONE;
	if (t->end == TRIAL_DONE)
		return;
	explain(t, text, sizeof(text));
	check_error(f->c, DEVICE, s->subject,
	            "End other programs on it, leave it out "
	            "(CUDA_VISIBLE_DEVICES), or reset it (nvidia-smi -r), and "
	            "look for NVRM in the kernel's log (dmesg).",
	            "%s%s", t->end == TRIAL_HUNG ? "On the device " : "", text);
}

/* Handle a trial that has ended or could not be started: start the next trial
 * of the job, or free the slot. */
static void next_trial(struct field *f, struct slot *s)
{
	const bool is_pair = s->job->a != s->job->b;
	struct trial *t = &s->trial;
	unsigned next = 0;

	if (t->end != TRIAL_REFUSED && is_pair)
		next = next_of_pair(f, s);
	else if (t->end != TRIAL_REFUSED)
		end_device(f, s);
	else if (!f->no_process++)
		check_error(f->c, is_pair ? COPIES : DEVICE, "not tried",
		            "Raise the limits on threads and memory.",
		            "The process of a trial could not be started: %s.",
		            t->text);
	trial_free(t);
	if (next && clock_now() < f->until_ns && begin(f, s, next))
		return;
	if (next && !(next & TRY_AVOIDS))
		check_warn(f->c, SUMS, s->subject,
		           "Allow more time (--limit), or more processes.",
		           "The all-reduce was not tried.");
	if (s->fault[0])
		report_sum(f, s, t->end == TRIAL_DONE);
	f->is_busy[s->job->a] = f->is_busy[s->job->b] = false;
	s->job = NULL;
}

/* Return the next job whose devices are idle, or NULL. */
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
				next_trial(f, s);
		}
		t = trial_wait(f->trials, f->slot_count);
		/* The trial is the first member of its slot. */
		if (t)
			next_trial(f, (struct slot *)(void *)t);
		/* If no trial could be started, none is running. */
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
		         "%d of %d devices: their memory and copies of %zu MiB "
		         "are correct",
		         good, f->n, TRY_BYTES >> 20);
	report_rest(f, DEVICE, "devices", (size_t)f->n);
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
		                    : "A pair needs two devices that work.");
		return;
	}
	run_jobs(f, jobs, count);
	if (f->tried > f->bad_copies)
		check_ok(f->c, COPIES,
		         "%zu of %zu pairs: copies of %zu MiB each way are "
		         "correct%s",
		         f->tried - f->bad_copies, f->tried, TRY_BYTES >> 20,
		         f->indirect ? ", some through the host (see "
		                       "peer-access)"
		                     : "");
	if (f->summed > f->bad_sums)
		check_ok(f->c, SUMS,
		         "%zu of %zu pairs: sums of 4 B and of %zu MiB are "
		         "correct",
		         f->summed - f->bad_sums, f->summed, TRY_BYTES >> 20);
	if (f->indirect)
		check_skip(f->c, "peer-access",
		           "CUDA reports no direct path for %zu of %zu pairs, "
		           "so their data goes through the host.",
		           f->indirect, f->tried);
	report_rest(f, SUMS, "pairs", count);
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
	f = cli_need(calloc(1, sizeof(*f)));
	/* room for all devices, or for all pairs of devices */
	jobs = cli_need(calloc(n > 2 ? n * (n - 1) / 2 : 2, sizeof(*jobs)));
	f->c = c;
	f->n = (int)n;
	f->until_ns = clock_deadline(c->limit_ns);
	f->slot_count = cores < 2        ? 2
	                : cores > TRIALS ? TRIALS
	                                 : (unsigned)cores;
	for (int i = 0; i < TRIALS; i++)
		f->trials[i] = &f->slots[i].trial;
	run_devices(f, jobs);
	run_pairs(f, jobs);
	free(f);
	free(jobs);
}
