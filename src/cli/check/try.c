/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the trials of devices and of pairs do, each in its process
 */

#include "cli/check/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/check/check.h"
#include "platform/platform.h"

#define COUNT (TRY_BYTES / sizeof(float))

/* How long an abort may take; NCCL's own threads look for one twice a second. */
#define ABORT_NS (3 * NS_PER_S)

/* ---- memory and copies --------------------------------------------------------- */

struct native {
	struct trial *trial;
	const struct platform *p;
	unsigned char *host; /* a buffer that copies are checked with */
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

/* Byte @i of the data that device @from sends. */
static unsigned char pattern(int from, size_t i)
{
	return (unsigned char)(i * 131 + (i >> 8) * 7 + (size_t)from * 17 + 1);
}

/* Check what @from has sent to @memory on @to. */
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
		           "first at %zu",
		           wrong, TRY_BYTES, source, to, first);
}

/* Copy from @sends on @from to @receives on @to, in a step of its own. */
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

void try_device(struct trial *t)
{
	struct native n = open_native(t);
	void *from = allocate(&n, t->a), *to = allocate(&n, t->a);

	try_copy(&n, t->a, from, t->a, to, "a copy within its memory");
}

/* ---- a pair ------------------------------------------------------------------- */

/* Returns true if @device reaches the memory of @peer, which is then enabled. */
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

const char try_there[] = "a copy to the second device",
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

static int give_up(struct cohort_comm *comm, size_t count, size_t i, float is)
{
	char text[128];

	snprintf(text, sizeof(text),
	         "a sum of floats is wrong: element %zu of %zu is %.9g, not "
	         "%.9g",
	         i, count, (double)is, (double)(2 * (i % 1000) + 1));
	return cohort_comm_fail(comm, 1, text);
}

/* Sum @count floats, i % 1000 + rank, and check each. */
static int sum(struct cohort_comm *comm, float *buffer, float *host,
               size_t count)
{
	const int rank = cohort_comm_rank(comm);
	uint64_t ticket;
	size_t i;
	int rc;

	for (i = 0; i < count; i++)
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
	for (i = 0; rc == COHORT_OK && i < count; i++)
		if (host[i] != (float)(2 * (i % 1000) + 1))
			return give_up(comm, count, i, host[i]);
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

/* The group has deadlines of its own, whose errors say more than that time is up. */
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
		/* Without a cause no worker has run. */
		facts->is_refused = !cause.text[0];
		trial_fail(t, "%s",
		           cause.text[0] ? cause.text : cohort_last_error());
	}
	trial_step(t, "the end of two ranks", ns + 2 * ABORT_NS);
	if (cohort_group_close(group) != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
}

void try_pair(struct trial *t)
{
	if (t->plan & TRY_AVOIDS)
		setenv("NCCL_P2P_DISABLE", "1", 1);
	if (t->plan & TRY_COPIES)
		try_copies(t);
	if (t->plan & TRY_SUMS)
		try_all_reduce(t);
}
