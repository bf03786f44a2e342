/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The streams that handles stand for
 *
 * A thread has a default stream of its own on each device, which is created when it
 * is first used and destroyed when the thread ends.  It is a blocking stream like any
 * other.
 */

#include "sim/cuda/stream_handle.h"

#include <pthread.h>
#include <stdlib.h>

#include <cohort/sim.h>

#include "sim/cuda/device.h"
#include "sim/exec/stream.h"

/* Owned by the thread. */
struct own_streams {
	struct stream *of[COHORT_SIM_MAX_DEVICES]; /* by device */
};

static _Thread_local struct own_streams *mine;

/* Its value is the thread's own_streams. */
static pthread_key_t key;

static void streams_end(void *streams)
{
	struct own_streams *own = streams;
	int i;

	for (i = 0; i < COHORT_SIM_MAX_DEVICES; i++)
		if (own->of[i])
			stream_destroy(own->of[i]);
	free(own);
	mine = NULL;
}

static void make_key(void)
{
	pthread_key_create(&key, streams_end);
}

static struct own_streams *streams_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	mine = calloc(1, sizeof(*mine));
	if (mine)
		pthread_setspecific(key, mine);
	return mine;
}

/* Returns NULL without memory. */
static struct stream *stream_of_thread(int device)
{
	struct own_streams *own = mine ? mine : streams_begin();

	if (!own)
		return NULL;
	if (!own->of[device])
		own->of[device] = stream_create(device, true);
	return own->of[device];
}

struct stream *stream_find_on(int device, cudaStream_t handle)
{
	struct stream *s = (struct stream *)handle;

	if (!handle || handle == cudaStreamLegacy)
		return stream_legacy(device);
	if (handle == cudaStreamPerThread)
		return stream_of_thread(device);
	return atomic_load_explicit(&s->live, memory_order_relaxed) ? s : NULL;
}

struct stream *stream_find(cudaStream_t handle)
{
	const bool is_default = !handle || handle == cudaStreamLegacy ||
	                        handle == cudaStreamPerThread;

	return stream_find_on(is_default ? device_current() : 0, handle);
}
