/* SPDX-License-Identifier: Apache-2.0 */

/* The waits that devices impose on each other (see sync.h) */

#include "sim/cuda/sync.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/backoff.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "sim/cuda/cuda_device.h"
#include "sim/exec/stream_queue.h"

atomic_bool sync_on, sync_on_copies;

/* ---- the mode --------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; 0: not set, and not settled. */
static int wanted, settled;

int sync_want(int sync)
{
	int rc = COHORT_OK;

	if (sync < COHORT_SIM_SYNC_NONE || sync > COHORT_SIM_SYNC_MEMORY)
		return error_set(COHORT_INVALID,
		                 "sync is %d, not an enum cohort_sim_sync",
		                 sync);
	SCOPED_LOCK(&lock);
	if (!settled)
		wanted = sync;
	else if (settled != sync)
		rc = error_set(COHORT_STATE,
		               "sync is %d, but the host platform is in use "
		               "with %d",
		               sync, settled);
	return rc;
}

int sync_wanted(void)
{
	SCOPED_LOCK(&lock);
	return wanted;
}

static int read_environment_locked(void)
{
	const char *text = getenv("COHORT_HOST_SYNC");

	if (!text || !*text || strcmp(text, "none") == 0)
		settled = COHORT_SIM_SYNC_NONE;
	else if (strcmp(text, "device") == 0)
		settled = COHORT_SIM_SYNC_DEVICE;
	else if (strcmp(text, "memory") == 0)
		settled = COHORT_SIM_SYNC_MEMORY;
	else
		return error_set(COHORT_INVALID,
		                 "COHORT_HOST_SYNC is \"%s\", not device, "
		                 "memory or none",
		                 text);
	return COHORT_OK;
}

int sync_init(void)
{
	int rc = COHORT_OK;

	SCOPED_LOCK(&lock);
	if (!settled && wanted)
		settled = wanted;
	else if (!settled)
		rc = read_environment_locked();
	store_relaxed(&sync_on, settled == COHORT_SIM_SYNC_DEVICE ||
	                                settled == COHORT_SIM_SYNC_MEMORY);
	store_relaxed(&sync_on_copies, settled == COHORT_SIM_SYNC_DEVICE);
	return rc;
}

/* ---- memory functions ------------------------------------------------- */

/* Atomic; how many calls that block launches wait: on each device, and in the
 * last place on all devices.  seq_cst: a launch that begins after one has begun
 * to wait sees it. */
static atomic_int waiting[COHORT_SIM_MAX_DEVICES + 1];
#define ALL_DEVICES COHORT_SIM_MAX_DEVICES

/* So many streams are looked at before the first of them is waited for: what is
 * launched on one of them meanwhile is not waited for. */
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

void sync_wait_memory(void)
{
	sync_wait(load_relaxed(&sync_on_copies) ? ALL_DEVICES
	                                        : device_current());
}

bool sync_is_held(int device)
{
	return atomic_load(&waiting[ALL_DEVICES]) ||
	       atomic_load(&waiting[device]);
}

void sync_gate(int device)
{
	struct backoff b = BACKOFF;

	while (sync_is_held(device))
		backoff_wait(&b, UINT64_MAX);
}

/* ---- kernels ---------------------------------------------------------- */

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Atomic; the kernels that are loaded, by device: a set of bits.  Written with
 * loading held.  Acquire and release: they are loaded. */
static _Atomic uint32_t loaded[COHORT_SIM_MAX_DEVICES];

static bool are_loaded(const int *devices, int n, uint32_t kernels)
{
	int i;

	for (i = 0; i < n; i++)
		if (kernels & ~load_acquire(&loaded[devices[i]]))
			return false;
	return true;
}

/* Wait for the lock; false if another thread has loaded them meanwhile.  The
 * thread that has the lock may wait for another rank's kernel, and so for a
 * launch of the thread that would wait here. */
static bool begin_loading(const int *devices, int n, uint32_t kernels)
{
	struct backoff b = BACKOFF;

	while (pthread_mutex_trylock(&loading) != 0) {
		if (are_loaded(devices, n, kernels))
			return false;
		backoff_wait(&b, UINT64_MAX);
	}
	return true;
}

void sync_load(int device, const int *devices, int n, uint32_t kernels)
{
	int i;

	if (are_loaded(devices, n, kernels) ||
	    !begin_loading(devices, n, kernels))
		return;
	if (!are_loaded(devices, n, kernels)) {
		sync_wait(device);
		for (i = 0; i < n; i++)
			atomic_fetch_or_explicit(&loaded[devices[i]], kernels,
			                         memory_order_release);
	}
	pthread_mutex_unlock(&loading);
}

void sync_unload(int device)
{
	SCOPED_LOCK(&loading);
	store_release(&loaded[device], 0);
}
