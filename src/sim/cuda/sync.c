/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the waits of CUDA calls for the devices of a process (see
 * sync.h) */

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

/* True once the environment has been read.  Guarded by lock. */
static bool is_settled;

int sync_init(void)
{
	const char *text = getenv("COHORT_HOST_SYNC");
	bool device = text && strcmp(text, "device") == 0;
	bool memory = text && strcmp(text, "memory") == 0;

	SCOPED_LOCK(&lock);
	if (is_settled)
		return COHORT_OK;
	if (text && *text && strcmp(text, "none") && !device && !memory)
		return error_set(COHORT_INVALID,
		                 "COHORT_HOST_SYNC is \"%s\", not device, "
		                 "memory or none",
		                 text);
	is_settled = true;
	store_relaxed(&sync_on, device || memory);
	store_relaxed(&sync_on_copies, device);
	return COHORT_OK;
}

/* ---- waiting for devices ---------------------------------------------- */

/* Atomic, seq_cst; number of waiting calls that block launches on each device.
 * The last entry counts calls that block all devices.  A launch that starts
 * after a call has started to wait must see the call. */
static atomic_int waiting[COHORT_SIM_MAX_DEVICES + 1];
#define ALL_DEVICES COHORT_SIM_MAX_DEVICES

/* Number of streams whose positions are read before the first wait.  Work that
 * is launched later on these streams is not waited for. */
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

/* Atomic; bit set of the loaded kernels of each device.  Written with the lock
 * "loading" held.  Acquire and release, so that a thread that sees a bit set
 * continues only after the kernel was loaded. */
static _Atomic uint32_t loaded[COHORT_SIM_MAX_DEVICES];

static bool are_loaded(const int *devices, int n, uint32_t kernels)
{
	int i;

	for (i = 0; i < n; i++)
		if (kernels & ~load_acquire(&loaded[devices[i]]))
			return false;
	return true;
}

/* Acquire the lock for loading.  Return false if another thread has loaded the
 * kernels.  This function must not block on the lock, because the lock's owner
 * may wait for another rank's kernel, and therefore for a launch by the calling
 * thread. */
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
