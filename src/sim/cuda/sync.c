/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/cuda/sync.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/status.h"
#include "sim/cuda/device.h"
#include "sim/exec/launch.h"
#include "sim/nccl/comm.h"

atomic_bool sync_on;

/* ---- the mode --------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; 0: not set, and not settled. */
static int wanted, settled;

int sync_want(int sync)
{
	int rc = COHORT_OK;

	if (sync != COHORT_SIM_SYNC_NONE && sync != COHORT_SIM_SYNC_DEVICE)
		return error_set(COHORT_INVALID,
		                 "sync is %d, not an enum cohort_sim_sync",
		                 sync);
	pthread_mutex_lock(&lock);
	if (!settled)
		wanted = sync;
	else if (settled != sync)
		rc = error_set(COHORT_STATE,
		               "sync is %d, but the host platform is in use "
		               "with %d",
		               sync, settled);
	pthread_mutex_unlock(&lock);
	return rc;
}

int sync_wanted(void)
{
	int sync;

	pthread_mutex_lock(&lock);
	sync = wanted;
	pthread_mutex_unlock(&lock);
	return sync;
}

/* Called with lock held. */
static int read_environment_locked(void)
{
	const char *text = getenv("COHORT_HOST_SYNC");

	if (!text || !*text || strcmp(text, "none") == 0)
		settled = COHORT_SIM_SYNC_NONE;
	else if (strcmp(text, "device") == 0)
		settled = COHORT_SIM_SYNC_DEVICE;
	else
		return error_set(COHORT_INVALID,
		                 "COHORT_HOST_SYNC is \"%s\", not device or "
		                 "none",
		                 text);
	return COHORT_OK;
}

int sync_init(void)
{
	int rc = COHORT_OK;

	pthread_mutex_lock(&lock);
	if (!settled && wanted)
		settled = wanted;
	else if (!settled)
		rc = read_environment_locked();
	atomic_store_explicit(&sync_on, settled == COHORT_SIM_SYNC_DEVICE,
	                      memory_order_relaxed);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* ---- memory functions ------------------------------------------------- */

/* Atomic; memory functions that wait, by device.  seq_cst: a launch that begins
 * after one has begun to wait sees it. */
static atomic_int waiting[COHORT_SIM_MAX_DEVICES];

/* So many streams are looked at before the first is waited for: what is launched
 * meanwhile on one of them is not waited for. */
#define AT_ONCE 256

static void wait_for_all(void)
{
	struct {
		struct stream *stream;
		uint64_t position;
	} first[AT_ONCE];
	struct stream *s = NULL;
	uint64_t position;
	size_t i, n;

	do {
		n = 0;
		while (n < AT_ONCE && (s = stream_next(s, &position)))
			if (!stream_is_done(s, position)) {
				first[n].stream = s;
				first[n++].position = position;
			}
		for (i = 0; i < n; i++)
			stream_wait(first[i].stream, first[i].position);
	} while (s);
}

void sync_wait(int device)
{
	atomic_fetch_add(&waiting[device], 1);
	wait_for_all();
	atomic_fetch_sub(&waiting[device], 1);
}

bool sync_is_held(int device)
{
	return atomic_load(&waiting[device]);
}

void sync_gate(int device)
{
	struct backoff b = BACKOFF;

	while (sync_is_held(device))
		backoff_wait(&b, UINT64_MAX);
}

/* ---- kernels ---------------------------------------------------------- */

/* One rank on its own has a kernel for it that the others have not. */
#define KERNEL_ALONE 31

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Atomic; the kernels that are loaded, by device: a set of 1 << kind.  Written with
 * loading held.  Acquire and release: they are loaded. */
static _Atomic uint32_t loaded[COHORT_SIM_MAX_DEVICES];

/* Sends, receives, and what NCCL makes of them have one kernel. */
static unsigned kernel_of(enum call_kind kind)
{
	switch (kind) {
	case CALL_RECV:
	case CALL_ALL_TO_ALL:
	case CALL_GATHER:
	case CALL_SCATTER:
		return CALL_SEND;
	default:
		return kind;
	}
}

static uint32_t kernels_of(const struct launch *l)
{
	uint32_t kernels = 0;
	size_t i;

	if (l->comm->world->n == 1)
		return UINT32_C(1) << KERNEL_ALONE;
	for (i = 0; i < l->call_count; i++)
		kernels |= UINT32_C(1) << kernel_of(l->calls[i].kind);
	if (l->transfer_count)
		kernels |= UINT32_C(1) << kernel_of(CALL_SEND);
	return kernels;
}

static bool is_loaded(int device, uint32_t kernels)
{
	return !(kernels &
	         ~atomic_load_explicit(&loaded[device], memory_order_acquire));
}

/* On all devices of the ranks: a smaller communicator may have used only some. */
static bool are_loaded(const struct world *w, uint32_t kernels)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (!is_loaded(w->comms[r]->device, kernels))
			return false;
	return true;
}

/* Wait for the lock; false if another rank has loaded them meanwhile.  Who has the lock
 * may wait for that rank's kernel, and so for a launch of who would wait here. */
static bool begin_loading(const struct world *w, uint32_t kernels)
{
	struct backoff b = BACKOFF;

	while (pthread_mutex_trylock(&loading) != 0) {
		if (are_loaded(w, kernels))
			return false;
		backoff_wait(&b, UINT64_MAX);
	}
	return true;
}

/* The ranks of a communicator do not wait for each other's kernels here: the first
 * is not launched before all are loaded, which the others find at once. */
void sync_load(const struct launch *l)
{
	const struct world *w = l->comm->world;
	const uint32_t kernels = kernels_of(l);
	int r;

	if (are_loaded(w, kernels) || !begin_loading(w, kernels))
		return;
	if (!are_loaded(w, kernels)) {
		sync_wait(l->comm->device);
		for (r = 0; r < w->n; r++)
			atomic_fetch_or_explicit(&loaded[w->comms[r]->device],
			                         kernels, memory_order_release);
	}
	pthread_mutex_unlock(&loading);
}

void sync_unload(int device)
{
	pthread_mutex_lock(&loading);
	atomic_store_explicit(&loaded[device], 0, memory_order_release);
	pthread_mutex_unlock(&loading);
}
