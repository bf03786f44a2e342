/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Steps with streams, events and memory
 */

#include <string.h>

#include "system/fuzz/program.h"

/* Return the device that a byte of a step selects, as in the plan. */
static int step_device(const struct runner *r, unsigned byte)
{
	int threads = r->program->threads;
	int owned = (DEVICES - 1 - r->index) / threads + 1;

	return r->index + threads * (int)(byte % (unsigned)owned);
}

/* ---- streams ---------------------------------------------------------- */

/* Create the stream of a slot on demand. Slot 0 is the legacy stream, and slot
 * 2 synchronizes with it. */
cudaStream_t slot_stream(struct runner *r, int device, int slot)
{
	cudaStream_t *stream = &r->program->streams[device][slot];

	expect_cuda(host_cudaSetDevice(device), "cudaSetDevice");
	if (slot && !*stream)
		expect_cuda(host_cudaStreamCreateWithFlags(
				    stream, slot == 2 ? cudaStreamDefault
						      : cudaStreamNonBlocking),
		            "cudaStreamCreateWithFlags");
	return *stream;
}

/* Make @device current, and return the previous one. */
static int enter_device(int device)
{
	int before = -1;

	expect_cuda(host_cudaGetDevice(&before), "cudaGetDevice");
	expect_cuda(host_cudaSetDevice(device), "cudaSetDevice");
	return before;
}

static void leave_device(int before)
{
	expect_cuda(host_cudaSetDevice(before), "cudaSetDevice");
}

/*
 * Check the results of all work that was queued on stream @slot of @device, or
 * on all of its streams if @slot is -1. The work must be done. Then free the
 * buffers with correct contents, unless something on the device may hang.
 */
static void check_done(struct runner *r, int device, int slot, bool may_hang)
{
	parts_check(r, device, slot);
	if (may_hang)
		return;
	wait_begin(r->program, false);
	parts_free(&r->checked, device);
	wait_end(r->program, false);
}

static void sync(struct runner *r, int device, int slot, bool may_hang)
{
	cudaStream_t stream = slot_stream(r, device, slot);
	cudaError_t error;

	wait_begin(r->program, may_hang);
	error = host_cudaStreamSynchronize(stream);
	wait_end(r->program, may_hang);
	expect_cuda(error, "cudaStreamSynchronize");
	check_done(r, device, slot, may_hang);
}

void run_stream_sync(struct runner *r, struct step *s)
{
	int device = step_device(r, s->raw[2]);
	int before = enter_device(device);

	sync(r, device, s->raw[3] % SLOTS, s->may_hang);
	leave_device(before);
}

void device_drain(struct runner *r, int device, bool may_hang)
{
	int before = enter_device(device);
	cudaError_t error;

	wait_begin(r->program, may_hang);
	error = host_cudaDeviceSynchronize();
	wait_end(r->program, may_hang);
	expect_cuda(error, "cudaDeviceSynchronize");
	check_done(r, device, -1, may_hang);
	leave_device(before);
}

void ranks_drain(struct runner *r, const struct family *f, bool may_hang)
{
	int rank;

	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index)
			device_drain(r, f->device[rank], may_hang);
}

void run_device_sync(struct runner *r, struct step *s)
{
	device_drain(r, step_device(r, s->raw[2]), s->may_hang);
}

void run_stream_query(struct runner *r, struct step *s)
{
	int device = step_device(r, s->raw[2]);
	int before = enter_device(device), slot = s->raw[3] % SLOTS;
	cudaError_t error = host_cudaStreamQuery(slot_stream(r, device, slot));

	if (error == cudaSuccess)
		parts_check(r, device, slot);
	else if (error != cudaErrorNotReady)
		expect_cuda(error, "cudaStreamQuery");
	host_cudaGetLastError();
	leave_device(before);
}

static bool has_blocks(const struct runner *r, int device, int slot)
{
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (r->blocks[i].memory && r->blocks[i].device == device &&
		    r->blocks[i].slot == slot)
			return true;
	return false;
}

/* Destroy a stream. Work that is queued on it continues. */
void run_stream_destroy(struct runner *r, struct step *s)
{
	int device = step_device(r, s->raw[2]), slot = s->raw[3] % SLOTS;
	cudaStream_t *stream = &r->program->streams[device][slot];
	struct part *part;

	if (!*stream || has_blocks(r, device, slot))
		return;
	expect_cuda(host_cudaStreamDestroy(*stream), "cudaStreamDestroy");
	*stream = NULL;
	for (part = r->parts; part; part = part->next)
		if (part->step->family->device[part->rank] == device &&
		    part->slot == slot)
			part->slot = NO_SLOT;
}

/* Destroy a thread's streams when the thread ends. */
void streams_drain(struct runner *r)
{
	struct program *p = r->program;
	int device;

	for (device = r->index; device < DEVICES; device += p->threads)
		device_drain(r, device, p->tainted[device] || p->is_wild);
	if (atomic_load(&r->host_called) != r->host_calls)
		fuzz_fail("%lu of %lu host functions were called",
		          atomic_load(&r->host_called), r->host_calls);
}

/* ---- functions that only the host platform has ------------------------ */

const struct platform *own_functions(void)
{
	const struct platform *table;
	int devices;

	if (host_platform_open(&table, &devices) != COHORT_OK)
		fuzz_fail("the host platform cannot be opened again");
	return table;
}

static void flush_destroyed(int device)
{
	cudaStream_t stream;

	expect_cuda(host_cudaStreamCreateWithFlags(&stream,
	                                           cudaStreamNonBlocking),
	            "cudaStreamCreateWithFlags");
	expect_cuda(host_cudaStreamDestroy(stream), "cudaStreamDestroy");
	own_functions()->flush(device, stream);
}

/*
 * Flush a stream, so that its work runs without a waiting thread. The stream is
 * one of the thread's streams, which may be destroyed already, or a device's
 * default stream.
 */
void run_flush(struct runner *r, struct step *s)
{
	int device = step_device(r, s->raw[2]);
	int before = enter_device(device);
	cudaStream_t stream = slot_stream(r, device, s->raw[3] % SLOTS);

	host_cudaGetLastError();
	switch (s->raw[4] % 8) {
	case 0:
		flush_destroyed(device);
		break;
	case 1:
	case 2:
		own_functions()->flush(s->raw[2] % DEVICES, NULL);
		break;
	default:
		own_functions()->flush(device, stream);
		break;
	}
	expect_cuda(host_cudaGetLastError(), "flush");
	leave_device(before);
}

/* ---- host functions --------------------------------------------------- */

static void count_call(void *user)
{
	atomic_fetch_add((atomic_ulong *)user, 1);
}

void run_host_function(struct runner *r, struct step *s)
{
	int device = step_device(r, s->raw[2]);
	int before = enter_device(device);

	expect_cuda(host_cudaLaunchHostFunc(slot_stream(r, device,
	                                                s->raw[3] % SLOTS),
	                                    count_call, &r->host_called),
	            "cudaLaunchHostFunc");
	r->host_calls++;
	leave_device(before);
}

static void be_held(void *user)
{
	while (sem_wait(user) != 0)
		continue;
}

void run_hold(struct runner *r, struct step *s)
{
	int device = step_device(r, s->raw[2]);
	int before = enter_device(device);

	expect_cuda(host_cudaLaunchHostFunc(
			    slot_stream(r, device, s->raw[3] % SLOTS), be_held,
			    &r->program->held[s->raw[1]]),
	            "cudaLaunchHostFunc");
	leave_device(before);
}

void run_let_go(struct runner *r, struct step *s)
{
	sem_post(&r->program->held[s->raw[1]]);
}

/* ---- events ----------------------------------------------------------- */

static cudaEvent_t event_of(struct runner *r, int i)
{
	if (!r->events[i])
		expect_cuda(host_cudaEventCreateWithFlags(
				    &r->events[i],
				    i % 2 ? cudaEventDisableTiming
					  : cudaEventDefault),
		            "cudaEventCreateWithFlags");
	return r->events[i];
}

static bool is_one_of(cudaError_t error, cudaError_t a, cudaError_t b)
{
	return error == cudaSuccess || error == a || error == b;
}

static void event_query(cudaEvent_t event)
{
	cudaError_t error = host_cudaEventQuery(event);

	if (!is_one_of(error, cudaErrorNotReady, cudaErrorNotReady))
		expect_cuda(error, "cudaEventQuery");
}

static void event_elapsed(cudaEvent_t a, cudaEvent_t b)
{
	float ms;
	cudaError_t error = host_cudaEventElapsedTime(&ms, a, b);

	if (!is_one_of(error, cudaErrorNotReady,
	               cudaErrorInvalidResourceHandle))
		expect_cuda(error, "cudaEventElapsedTime");
}

static void event_sync(struct runner *r, cudaEvent_t event, bool may_hang)
{
	wait_begin(r->program, may_hang);
	expect_cuda(host_cudaEventSynchronize(event), "cudaEventSynchronize");
	wait_end(r->program, may_hang);
}

static void event_destroy(struct runner *r, int i)
{
	cudaEvent_t event = r->events[i];

	if (event)
		expect_cuda(host_cudaEventDestroy(event), "cudaEventDestroy");
	r->events[i] = NULL;
}

/* Run an event step. A thread records its event only on its first device. */
void run_event(struct runner *r, struct step *s)
{
	int before = enter_device(r->index), i = s->raw[3] % EVENTS;
	cudaEvent_t event = event_of(r, i);
	int waiter = step_device(r, s->raw[4]), slot = s->raw[5] % SLOTS;

	switch (s->raw[2] % 8) {
	case 0:
	case 1:
		expect_cuda(host_cudaEventRecord(event, slot_stream(r, r->index,
		                                                    slot)),
		            "cudaEventRecord");
		break;
	case 2:
	case 3:
		expect_cuda(host_cudaStreamWaitEvent(
				    slot_stream(r, waiter, slot), event, 0),
		            "cudaStreamWaitEvent");
		break;
	case 4:
		event_sync(r, event, s->may_hang);
		break;
	case 5:
		event_query(event);
		break;
	case 6:
		event_elapsed(event, event_of(r, s->raw[4] % EVENTS));
		break;
	case 7:
		event_destroy(r, i);
		break;
	}
	host_cudaGetLastError();
	leave_device(before);
}

/* Run a handoff: one thread records an event, and another thread's stream waits
 * for it. */
void run_handoff(struct runner *r, struct step *s)
{
	int to = s->raw[2] % r->program->threads, before;
	cudaEvent_t event;

	if (r->index != s->who && r->index != to)
		return;
	before = enter_device(r->index);
	if (r->index == s->who) {
		int device = step_device(r, s->raw[3]);
		cudaStream_t stream = slot_stream(r, device, s->raw[5] % SLOTS);

		expect_cuda(host_cudaEventCreate(&event), "cudaEventCreate");
		expect_cuda(host_cudaEventRecord(event, stream),
		            "cudaEventRecord");
		s->event = event;
		sem_post(&s->done);
	} else {
		wait_begin(r->program, false);
		be_held(&s->done);
		wait_end(r->program, false);
		expect_cuda(host_cudaStreamWaitEvent(
				    slot_stream(r, step_device(r, s->raw[4]),
		                                s->raw[6] % SLOTS),
				    s->event, 0),
		            "cudaStreamWaitEvent");
		expect_cuda(host_cudaEventDestroy(s->event),
		            "cudaEventDestroy");
	}
	leave_device(before);
}

/* ---- memory ----------------------------------------------------------- */

static void block_get(struct runner *r, struct step *s, struct block *b)
{
	b->device = step_device(r, s->raw[4]);
	b->slot = 1 + s->raw[5] % (SLOTS - 1);
	b->kind = s->raw[6] % 2;
	expect_cuda(host_cudaSetDevice(b->device), "cudaSetDevice");
	expect_cuda(b->kind ? host_cudaHostAlloc((void **)&b->memory,
	                                         BLOCK_BYTES,
	                                         cudaHostAllocDefault)
	                    : host_cudaMalloc((void **)&b->memory, BLOCK_BYTES),
	            "allocating");
	expect_cuda(host_cudaMemset(b->memory, 0, BLOCK_BYTES), "cudaMemset");
	memset(b->mirror, 0, BLOCK_BYTES);
}

static void block_put(struct block *b)
{
	expect_cuda(b->kind ? host_cudaFreeHost(b->memory)
	                    : host_cudaFree(b->memory),
	            "freeing");
	b->memory = NULL;
}

static void block_sync(struct runner *r, struct block *b)
{
	expect_cuda(
		host_cudaStreamSynchronize(slot_stream(r, b->device, b->slot)),
		"cudaStreamSynchronize");
}

static void block_check(struct runner *r, struct block *b)
{
	unsigned char seen[BLOCK_BYTES];

	block_sync(r, b);
	expect_cuda(host_cudaMemcpy(seen, b->memory, BLOCK_BYTES,
	                            cudaMemcpyDefault),
	            "cudaMemcpy");
	if (memcmp(seen, b->mirror, BLOCK_BYTES) != 0)
		fuzz_fail(
			"a block of memory does not have the written contents");
}

static void block_set(struct runner *r, struct step *s, struct block *b)
{
	size_t from = s->raw[5] % BLOCK_BYTES;
	size_t n = s->raw[6] % (BLOCK_BYTES - from + 1);

	expect_cuda(host_cudaMemsetAsync(b->memory + from, s->raw[4], n,
	                                 slot_stream(r, b->device, b->slot)),
	            "cudaMemsetAsync");
	memset(b->mirror + from, s->raw[4], n);
}

/*
 * Copy into a block, from another block of its stream or from pageable memory.
 */
static void block_copy(struct runner *r, struct step *s, struct block *b)
{
	struct block *other = &r->blocks[s->raw[4] % BLOCKS];
	size_t from = s->raw[5] % BLOCK_BYTES;
	size_t n = s->raw[6] % (BLOCK_BYTES - from + 1);
	unsigned char plain[BLOCK_BYTES];
	const unsigned char *memory = plain, *mirror = plain;

	memset(plain, s->raw[7], sizeof(plain));
	if (other != b && other->memory && other->device == b->device &&
	    other->slot == b->slot) {
		memory = other->memory;
		mirror = other->mirror;
	}
	expect_cuda(host_cudaMemcpyAsync(b->memory + from, memory + from, n,
	                                 cudaMemcpyDefault,
	                                 slot_stream(r, b->device, b->slot)),
	            "cudaMemcpyAsync");
	memcpy(b->mirror + from, mirror + from, n);
}

/* Run a memory step. Many of its operations wait for a stream. */
void run_memory(struct runner *r, struct step *s)
{
	struct block *b = &r->blocks[s->raw[3] % BLOCKS];
	int before = enter_device(r->index);

	wait_begin(r->program, false);
	if (!b->memory) {
		block_get(r, s, b);
	} else {
		switch (s->raw[2] % 6) {
		case 0:
			block_sync(r, b);
			block_put(b);
			break;
		case 1:
			block_check(r, b);
			break;
		case 2:
		case 3:
			block_set(r, s, b);
			break;
		default:
			block_copy(r, s, b);
			break;
		}
	}
	wait_end(r->program, false);
	leave_device(before);
}

/* ---- teardown --------------------------------------------------------- */

static void runner_end(struct runner *r)
{
	int i;

	for (i = 0; i < EVENTS; i++)
		event_destroy(r, i);
	for (i = 0; i < BLOCKS; i++)
		if (r->blocks[i].memory)
			block_put(&r->blocks[i]);
}

void cuda_end(struct program *p)
{
	int i, slot;

	for (i = 0; i < p->threads; i++)
		runner_end(&p->runners[i]);
	for (i = 0; i < DEVICES; i++)
		for (slot = 1; slot < SLOTS; slot++)
			if (p->streams[i][slot])
				expect_cuda(host_cudaStreamDestroy(
						    p->streams[i][slot]),
				            "cudaStreamDestroy");
}
