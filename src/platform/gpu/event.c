/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks on a GPU whose driver has no stream memory operations: an event behind
 * the work, and a thread per device that asks the events and sets the words
 *
 * Whoever waits for a word makes no native call: on a device that hangs, the
 * question may.  So only the device's own thread asks, with no lock held, and
 * one device that does not answer keeps no other from it.  The threads live as
 * long as the process, as the libraries do.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "platform/gpu/gpu.h"

/* How many busy streams one look remembers; marks on more streams are asked in
 * vain. */
#define MAX_BUSY 32

struct mark {
	cudaEvent_t event; /* constant */

	/* Constant while it is pending. */
	cudaStream_t stream;
	uint32_t value;

	/* Guarded by the device's lock. */
	uint32_t *word; /* NULL: the word is not to be set */
	int users;      /* callers that make a stream wait for the event */
	bool is_over;   /* in no list, and used again without users */
	struct mark *next;
};

struct device {
	/* Constant once the thread runs. */
	int number;

	sem_t wake; /* posted with the first pending mark */

	/* Guarded by lock, under which no native call is made. */
	pthread_mutex_t lock;
	bool is_started;
	struct mark *pending, **last; /* in the order of their events */
	struct mark *unused;
};

/* A block of memory that words are in. */
struct block {
	char *memory;
	size_t bytes;
	struct block *next;
};

/* Constant once the platform is open. */
static const struct platform *gpu;
static struct device *devices;
static int device_count;
static cudaError_t (*host_alloc)(void **memory, size_t bytes,
                                 unsigned int flags);
static cudaError_t (*free_host)(void *memory);

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks; /* guarded by blocks_lock */

/* ---- the thread of a device ------------------------------------------- */

/* Streams whose oldest mark was found pending: the later marks of these are
 * pending, too. */
struct busy {
	cudaStream_t streams[MAX_BUSY];
	int n;
};

static bool is_busy(const struct busy *b, cudaStream_t stream)
{
	int i;

	for (i = 0; i < b->n; i++)
		if (b->streams[i] == stream)
			return true;
	return false;
}

static void add_busy(struct busy *b, cudaStream_t stream)
{
	/* This handle stands for another stream in each thread. */
	if (b->n < MAX_BUSY && stream != cudaStreamPerThread)
		b->streams[b->n++] = stream;
}

static void put_back_locked(struct device *d, struct mark *m)
{
	m->next = d->unused;
	d->unused = m;
}

/* Take the mark that *@at points to out of the list.  After an error the device
 * is lost, and no word is set. */
static void end(struct device *d, struct mark **at, cudaError_t error)
{
	struct mark *m = *at;

	pthread_mutex_lock(&d->lock);
	*at = m->next;
	if (!m->next)
		d->last = at;
	if (m->word && error == cudaSuccess)
		/* Release: what the stream did before. */
		__atomic_store_n(m->word, m->value, __ATOMIC_RELEASE);
	m->is_over = true;
	if (!m->users)
		put_back_locked(d, m);
	pthread_mutex_unlock(&d->lock);
}

static struct mark *at_locked(struct device *d, struct mark **at)
{
	struct mark *m;

	pthread_mutex_lock(&d->lock);
	m = *at;
	pthread_mutex_unlock(&d->lock);
	return m;
}

/* Ask once about every stream; true if a mark was reached.  Only this thread
 * takes marks out of the list; others add at its end. */
static bool poll_streams(struct device *d)
{
	struct busy busy = { .n = 0 };
	struct mark **at = &d->pending, *m;
	cudaError_t error;
	bool reached = false;

	while ((m = at_locked(d, at))) {
		error = is_busy(&busy, m->stream)
		                ? cudaErrorNotReady
		                : gpu->cudaEventQuery(m->event);
		if (error != cudaErrorNotReady) {
			end(d, at, error);
			reached = true;
			continue;
		}
		add_busy(&busy, m->stream);
		at = &m->next;
	}
	return reached;
}

static void *device_main(void *arg)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	struct device *d = arg;
	struct backoff b;

	gpu->cudaSetDevice(d->number);
	/* This thread's questions must not break a capture of the program's. */
	gpu->cudaThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		clock_await(&d->wake, UINT64_MAX);
		b = (struct backoff)BACKOFF;
		while (at_locked(d, &d->pending)) {
			if (poll_streams(d))
				b = (struct backoff)BACKOFF;
			else
				backoff_wait(&b, UINT64_MAX);
		}
	}
	return NULL;
}

static bool start_locked(struct device *d)
{
	pthread_t thread;

	if (!d->is_started && thread_start(&thread, device_main, d,
	                                   "cohort/mark%d", d->number) == 0) {
		pthread_detach(thread);
		d->is_started = true;
	}
	return d->is_started;
}

/* ---- marking ---------------------------------------------------------- */

static cudaError_t current_device(struct device **out)
{
	int number;
	cudaError_t error = gpu->cudaGetDevice(&number);

	if (error != cudaSuccess)
		return error;
	if (number < 0 || number >= device_count)
		return cudaErrorInvalidDevice;
	*out = &devices[number];
	return cudaSuccess;
}

static cudaError_t new_mark(struct mark **out)
{
	struct mark *m = calloc(1, sizeof(*m));
	cudaError_t error;

	if (!m)
		return cudaErrorMemoryAllocation;
	error = gpu->cudaEventCreateWithFlags(&m->event,
	                                      cudaEventDisableTiming);
	if (error == cudaSuccess)
		*out = m;
	else
		free(m);
	return error;
}

/* An unused mark of @d, whose thread runs. */
static cudaError_t get_mark(struct device *d, struct mark **out)
{
	struct mark *m;
	bool is_started;

	pthread_mutex_lock(&d->lock);
	is_started = start_locked(d);
	m = d->unused;
	if (m)
		d->unused = m->next;
	pthread_mutex_unlock(&d->lock);
	if (m)
		*out = m;
	if (m || !is_started)
		return is_started ? cudaSuccess : cudaErrorMemoryAllocation;
	return new_mark(out);
}

static void add_pending(struct device *d, struct mark *m)
{
	bool was_empty;

	m->next = NULL;
	m->is_over = false;
	pthread_mutex_lock(&d->lock);
	was_empty = !d->pending;
	*d->last = m;
	d->last = &m->next;
	pthread_mutex_unlock(&d->lock);
	if (was_empty)
		sem_post(&d->wake);
}

static cudaError_t event_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value)
{
	struct device *d;
	struct mark *m;
	cudaError_t error = current_device(&d);

	if (error == cudaSuccess)
		error = get_mark(d, &m);
	if (error != cudaSuccess)
		return error;
	m->stream = stream;
	m->word = word;
	m->value = value;
	error = gpu->cudaEventRecord(m->event, stream);
	if (error == cudaSuccess) {
		add_pending(d, m);
		return cudaSuccess;
	}
	pthread_mutex_lock(&d->lock);
	put_back_locked(d, m);
	pthread_mutex_unlock(&d->lock);
	return error;
}

/* ---- waiting ---------------------------------------------------------- */

/* The mark to wait for, in use by the caller; NULL: @word has been set, or
 * (false in @reached_out) will not be. */
static struct mark *use_mark(struct device *d, const uint32_t *word,
                             uint32_t value, bool *reached_out)
{
	struct mark *m;

	pthread_mutex_lock(&d->lock);
	for (m = d->pending; m; m = m->next)
		if (m->word == word && (int32_t)(m->value - value) >= 0)
			break;
	if (m)
		m->users++;
	*reached_out =
		(int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) >= 0;
	pthread_mutex_unlock(&d->lock);
	return m;
}

static void unuse_mark(struct device *d, struct mark *m)
{
	pthread_mutex_lock(&d->lock);
	if (!--m->users && m->is_over)
		put_back_locked(d, m);
	pthread_mutex_unlock(&d->lock);
}

static cudaError_t event_await_mark(cudaStream_t stream, uint32_t *word,
                                    uint32_t value)
{
	struct device *d;
	struct mark *m;
	bool reached;
	cudaError_t error = current_device(&d);

	if (error != cudaSuccess)
		return error;
	m = use_mark(d, word, value, &reached);
	if (!m)
		return reached ? cudaSuccess : cudaErrorInvalidValue;
	error = gpu->cudaStreamWaitEvent(stream, m->event, 0);
	unuse_mark(d, m);
	return error;
}

/* ---- memory of words -------------------------------------------------- */

static cudaError_t event_host_alloc(void **memory, size_t bytes,
                                    unsigned int flags)
{
	struct block *b = malloc(sizeof(*b));
	cudaError_t error;

	if (!b)
		return cudaErrorMemoryAllocation;
	error = host_alloc(memory, bytes, flags);
	if (error != cudaSuccess) {
		free(b);
		return error;
	}
	b->memory = *memory;
	b->bytes = bytes;
	pthread_mutex_lock(&blocks_lock);
	b->next = blocks;
	blocks = b;
	pthread_mutex_unlock(&blocks_lock);
	return cudaSuccess;
}

static struct block *take_block(const void *memory)
{
	struct block **at, *b;

	pthread_mutex_lock(&blocks_lock);
	for (at = &blocks; (b = *at) && b->memory != memory; at = &b->next)
		continue;
	if (b)
		*at = b->next;
	pthread_mutex_unlock(&blocks_lock);
	return b;
}

/* Have no word in @b set from now on. */
static void forget(struct device *d, const struct block *b)
{
	struct mark *m;

	pthread_mutex_lock(&d->lock);
	for (m = d->pending; m; m = m->next)
		if ((char *)m->word >= b->memory &&
		    (char *)m->word < b->memory + b->bytes)
			m->word = NULL;
	pthread_mutex_unlock(&d->lock);
}

static cudaError_t event_free_host(void *memory)
{
	struct block *b = take_block(memory);
	int i;

	for (i = 0; b && i < device_count; i++)
		forget(&devices[i], b);
	free(b);
	return free_host(memory);
}

static void event_progress(int device, cudaStream_t stream,
                           const uint32_t *word, uint32_t value,
                           uint64_t until_ns)
{
	/* The device's thread sets the word. */
	(void)device;
	(void)stream;
	(void)word;
	(void)value;
	(void)until_ns;
}

int gpu_mark_by_events(struct platform *table, int n)
{
	int i;

	devices = calloc((size_t)n, sizeof(*devices));
	if (!devices)
		return error_set(COHORT_NO_MEMORY, "no memory for %d devices",
		                 n);
	device_count = n;
	for (i = 0; i < n; i++) {
		devices[i].number = i;
		devices[i].last = &devices[i].pending;
		sem_init(&devices[i].wake, 0, 0);
		pthread_mutex_init(&devices[i].lock, NULL);
	}
	gpu = table;
	host_alloc = table->cudaHostAlloc;
	free_host = table->cudaFreeHost;
	table->cudaHostAlloc = event_host_alloc;
	table->cudaFreeHost = event_free_host;
	table->mark = event_mark;
	table->await_mark = event_await_mark;
	table->progress = event_progress;
	return COHORT_OK;
}
