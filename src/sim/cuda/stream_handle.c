/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Maps handles to streams
 *
 * A handle is the address of an entry in a table, so a destroyed or invalid
 * handle is detected without dereferencing it.
 *
 * Each thread has its own default stream on each device, which is created on
 * first use and destroyed when the thread ends.  It is a blocking stream like
 * any other.
 */

#include "sim/cuda/stream_handle.h"

#include <pthread.h>
#include <stdlib.h>

#include <cohort/sim.h>

#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/exec/stream_queue.h"

/* ---- handles ---------------------------------------------------------- */

#define MOST_HANDLES ((size_t)1 << 16)

/* Atomic; the stream of each handle, or NULL if there is none.  Stored with
 * release and loaded with acquire, to publish the stream's members. */
static struct stream *_Atomic table[MOST_HANDLES];

/* Guarded by table_lock. */
static size_t handles; /* number of handles */
/* Number of table entries in use.  At most half of them have a stream, unless
 * the whole table is in use. */
static size_t room = 256;
static size_t next; /* index of the entry to try first */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Find an entry without a stream.  Entries are used in rotation, so that the
 * address of a destroyed handle is not reused soon. */
static struct stream *_Atomic *find_free_locked(void)
{
	if (handles == MOST_HANDLES)
		return NULL;
	if (2 * handles >= room && room < MOST_HANDLES)
		room *= 2;
	while (load_relaxed(&table[next]))
		next = (next + 1) % room;
	return &table[next];
}

cudaStream_t stream_handle_create(struct stream *s)
{
	struct stream *_Atomic *entry;

	SCOPED_LOCK(&table_lock);
	entry = find_free_locked();
	if (entry) {
		store_release(entry, s);
		next = (next + 1) % room;
		handles++;
	}
	return (cudaStream_t)(uintptr_t)entry;
}

/* Return the table entry of @handle, or NULL if @handle is not the address of
 * an entry. */
static struct stream *_Atomic *find_entry(cudaStream_t handle)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)table;

	return offset < sizeof(table) && !(offset % sizeof(*table))
	               ? &table[offset / sizeof(*table)]
	               : NULL;
}

void stream_handle_destroy(cudaStream_t handle)
{
	SCOPED_LOCK(&table_lock);
	store_relaxed(find_entry(handle), NULL);
	handles--;
}

/* ---- default streams of threads --------------------------------------- */

struct own_streams {
	/* default streams, indexed by device */
	struct stream *of[COHORT_SIM_MAX_DEVICES];
};

static _Thread_local struct own_streams *mine;

/* Key whose value points to the thread's struct own_streams. */
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

static struct stream *stream_of_thread(int device)
{
	struct own_streams *own = mine ? mine : streams_begin();

	if (!own)
		return NULL;
	if (!own->of[device])
		own->of[device] = stream_create(device, true);
	return own->of[device];
}

/* ---- finding streams -------------------------------------------------- */

struct stream *stream_find_on(int device, cudaStream_t handle)
{
	struct stream *_Atomic *entry;

	if (!handle || handle == cudaStreamLegacy)
		return stream_legacy(device);
	if (handle == cudaStreamPerThread)
		return stream_of_thread(device);
	entry = find_entry(handle);
	return entry ? load_acquire(entry) : NULL;
}

struct stream *stream_find(cudaStream_t handle)
{
	const bool is_default = !handle || handle == cudaStreamLegacy ||
	                        handle == cudaStreamPerThread;

	return stream_find_on(is_default ? device_current() : 0, handle);
}
