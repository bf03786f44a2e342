/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes for CUDA runtime functions other than streams, events and plain
 * memory. Each runs on one thread, with its own streams and memory.
 */

#include <stdlib.h>
#include <string.h>

#include "system/fuzz/scene.h"

void may_fail(cudaError_t error, const char *call)
{
	if ((int)error < 0 || (int)error > cudaErrorUnknown)
		fuzz_fail("%s returned %d, which is not a CUDA error", call,
		          (int)error);
	host_cudaGetLastError();
}

void must_be(cudaError_t error, cudaError_t must, const char *call)
{
	if (error != must)
		fuzz_fail("%s returned %d, not %d", call, (int)error,
		          (int)must);
	host_cudaGetLastError();
}

cudaStream_t scene_stream(void)
{
	cudaStream_t stream;

	expect_cuda(host_cudaStreamCreateWithFlags(&stream,
	                                           cudaStreamNonBlocking),
	            "cudaStreamCreateWithFlags");
	return stream;
}

void scene_stream_end(cudaStream_t stream)
{
	expect_cuda(host_cudaStreamSynchronize(stream),
	            "cudaStreamSynchronize");
	expect_cuda(host_cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void check_bytes(const void *memory, int value, size_t n, const char *what)
{
	const unsigned char *byte = memory;

	while (n--)
		if (byte[n] != (unsigned char)value)
			fuzz_fail("%s: byte %zu is %d, not %d", what, n,
			          byte[n], value);
}

/* ---- scenes ----------------------------------------------------------- */

static void device_facts(const uint8_t *raw)
{
	struct cudaDeviceProp properties;
	int device = raw[0] % 16 - 4, value, least, greatest;
	bool good = device >= 0 && device < DEVICES;
	size_t free_bytes, all;
	char id[32];

	must_be(host_cudaGetDeviceProperties(&properties, device),
	        good ? cudaSuccess : cudaErrorInvalidDevice,
	        "cudaGetDeviceProperties");
	may_fail(host_cudaDeviceGetAttribute(
			 &value, (enum cudaDeviceAttr)(raw[1] - 8), device),
	         "cudaDeviceGetAttribute");
	expect_cuda(host_cudaMemGetInfo(&free_bytes, &all), "cudaMemGetInfo");
	expect_cuda(host_cudaDeviceGetStreamPriorityRange(&least, &greatest),
	            "cudaDeviceGetStreamPriorityRange");
	may_fail(host_cudaDeviceGetPCIBusId(id, raw[2] % 40 - 4, device),
	         "cudaDeviceGetPCIBusId");
	if (!good)
		return;
	expect_cuda(host_cudaDeviceGetPCIBusId(id, sizeof(id), device),
	            "cudaDeviceGetPCIBusId");
	expect_cuda(host_cudaDeviceGetByPCIBusId(&value, id),
	            "cudaDeviceGetByPCIBusId");
	if (value != device)
		fuzz_fail("device %d is %s, which is device %d", device, id,
		          value);
}

static void peers(const uint8_t *raw)
{
	int can = -1, own = -1, peer = raw[0] % 12 - 2;
	unsigned char a[SCENE_BYTES] = { 0 }, b[SCENE_BYTES];

	may_fail(host_cudaDeviceCanAccessPeer(&can, raw[1] % 12 - 2, peer),
	         "cudaDeviceCanAccessPeer");
	may_fail(host_cudaDeviceEnablePeerAccess(peer, raw[2] % 8 == 7),
	         "cudaDeviceEnablePeerAccess");
	may_fail(host_cudaDeviceDisablePeerAccess(peer),
	         "cudaDeviceDisablePeerAccess");
	memset(b, raw[3], SCENE_BYTES);
	/* A pool of another device would wait for other threads' work. */
	expect_cuda(host_cudaGetDevice(&own), "cudaGetDevice");
	expect_cuda(host_cudaMemcpyPeer(a, own, b, own, SCENE_BYTES),
	            "cudaMemcpyPeer");
	check_bytes(a, raw[3], SCENE_BYTES, "cudaMemcpyPeer");
}

void *scene_memory(int kind)
{
	void *memory = NULL;

	switch (kind) {
	case 0:
		expect_cuda(host_cudaMalloc(&memory, SCENE_BYTES),
		            "cudaMalloc");
		break;
	case 1:
		expect_cuda(host_cudaMallocHost(&memory, SCENE_BYTES),
		            "cudaMallocHost");
		break;
	case 2:
		expect_cuda(host_cudaMallocManaged(&memory, SCENE_BYTES, 1),
		            "cudaMallocManaged");
		break;
	default:
		memory = malloc(SCENE_BYTES);
		break;
	}
	if (!memory)
		fuzz_fail("no memory");
	return memory;
}

void scene_memory_end(int kind, void *memory)
{
	if (kind == 1)
		expect_cuda(host_cudaFreeHost(memory), "cudaFreeHost");
	else if (kind < 3)
		expect_cuda(host_cudaFree(memory), "cudaFree");
	else
		free(memory);
}

static void pointers(const uint8_t *raw)
{
	static const enum cudaMemoryType types[] = {
		cudaMemoryTypeDevice,
		cudaMemoryTypeHost,
		cudaMemoryTypeManaged,
		cudaMemoryTypeUnregistered,
	};
	const int kind = raw[0] % 4;
	struct cudaPointerAttributes attributes;
	char *memory = scene_memory(kind);

	expect_cuda(host_cudaPointerGetAttributes(
			    &attributes, memory + raw[1] % SCENE_BYTES),
	            "cudaPointerGetAttributes");
	if (attributes.type != types[kind])
		fuzz_fail("memory of kind %d is of type %d", kind,
		          (int)attributes.type);
	expect_cuda(host_cudaMemset(memory, raw[2], SCENE_BYTES), "cudaMemset");
	check_bytes(memory, raw[2], SCENE_BYTES, "cudaMemset");
	scene_memory_end(kind, memory);
}

static void pitched(const uint8_t *raw)
{
	const size_t width = 1 + raw[0] % SCENE_BYTES, height = 1 + raw[1] % 8;
	size_t pitch, i;
	char *memory, *copy = malloc(width * height);

	expect_cuda(host_cudaMallocPitch((void **)&memory, &pitch, width,
	                                 height),
	            "cudaMallocPitch");
	expect_cuda(host_cudaMemset2D(memory, pitch, raw[2], width, height),
	            "cudaMemset2D");
	expect_cuda(host_cudaMemcpy2D(copy, width, memory, pitch, width, height,
	                              cudaMemcpyDeviceToHost),
	            "cudaMemcpy2D");
	for (i = 0; i < height; i++)
		check_bytes(copy + i * width, raw[2], width, "cudaMemcpy2D");
	expect_cuda(host_cudaFree(memory), "cudaFree");
	free(copy);
}

static void pooled(const uint8_t *raw)
{
	cudaStream_t stream = scene_stream();
	void *memory, *pinned = scene_memory(1);
	int i;

	for (i = 0; i <= raw[0] % 3; i++) {
		expect_cuda(host_cudaMallocAsync(&memory, SCENE_BYTES, stream),
		            "cudaMallocAsync");
		expect_cuda(host_cudaMemsetAsync(memory, raw[1] + i,
		                                 SCENE_BYTES, stream),
		            "cudaMemsetAsync");
		expect_cuda(host_cudaMemcpyAsync(pinned, memory, SCENE_BYTES,
		                                 cudaMemcpyDefault, stream),
		            "cudaMemcpyAsync");
		expect_cuda(host_cudaFreeAsync(memory, stream),
		            "cudaFreeAsync");
	}
	scene_stream_end(stream);
	check_bytes(pinned, raw[1] + i - 1, SCENE_BYTES, "cudaMallocAsync");
	scene_memory_end(1, pinned);
}

static void registered(const uint8_t *raw)
{
	char *memory = malloc(SCENE_BYTES);
	unsigned int flags;
	void *device;

	expect_cuda(host_cudaHostRegister(memory, SCENE_BYTES, raw[0] % 4),
	            "cudaHostRegister");
	if (host_cudaHostRegister(memory, SCENE_BYTES, 0) == cudaSuccess)
		fuzz_fail("memory can be registered twice");
	host_cudaGetLastError();
	may_fail(host_cudaHostGetDevicePointer(&device, memory, 0),
	         "cudaHostGetDevicePointer");
	may_fail(host_cudaHostGetFlags(&flags, memory), "cudaHostGetFlags");
	expect_cuda(host_cudaHostUnregister(memory), "cudaHostUnregister");
	if (host_cudaHostUnregister(memory) == cudaSuccess)
		fuzz_fail("memory can be unregistered twice");
	host_cudaGetLastError();
	free(memory);
}

static void count(cudaStream_t stream, cudaError_t error, void *user)
{
	(void)stream;
	if (error == cudaSuccess)
		++*(int *)user;
}

static void count_too(void *user)
{
	++*(int *)user;
}

static void stream_facts(const uint8_t *raw)
{
	cudaStream_t stream;
	unsigned long long id;
	unsigned int flags = 99;
	int priority = 99, device = 99, calls = 0;

	expect_cuda(host_cudaStreamCreateWithPriority(&stream, raw[0] % 2,
	                                              raw[1] % 16 - 8),
	            "cudaStreamCreateWithPriority");
	expect_cuda(host_cudaStreamGetFlags(stream, &flags),
	            "cudaStreamGetFlags");
	expect_cuda(host_cudaStreamGetPriority(stream, &priority),
	            "cudaStreamGetPriority");
	expect_cuda(host_cudaStreamGetId(stream, &id), "cudaStreamGetId");
	expect_cuda(host_cudaStreamGetDevice(stream, &device),
	            "cudaStreamGetDevice");
	if (flags != raw[0] % 2)
		fuzz_fail("a stream's flags are %u", flags);
	expect_cuda(host_cudaStreamAddCallback(stream, count, &calls, 0),
	            "cudaStreamAddCallback");
	expect_cuda(host_cudaLaunchHostFunc(stream, count_too, &calls),
	            "cudaLaunchHostFunc");
	scene_stream_end(stream);
	if (calls != 2)
		fuzz_fail("%d of 2 functions were called", calls);
}

static void entry_points(const uint8_t *raw)
{
	static const char *const names[] = { "cuStreamWriteValue32",
		                             "cuMemAlloc", "", "nothing" };
	enum cudaDriverEntryPointQueryResult found;
	void *function;

	may_fail(host_cudaGetDriverEntryPoint(names[raw[0] % 4], &function,
	                                      raw[1] % 4, &found),
	         "cudaGetDriverEntryPoint");
}

/* ---- captures --------------------------------------------------------- */

struct scene {
	cudaStream_t a, b;
	unsigned char *memory, *copy;
	int calls;
};

/* Capture a fork and a join, in which a second stream does half of the work. */
static void capture_work(struct scene *c, const uint8_t *raw)
{
	cudaEvent_t fork, join;

	expect_cuda(host_cudaEventCreate(&fork), "cudaEventCreate");
	expect_cuda(host_cudaEventCreate(&join), "cudaEventCreate");
	expect_cuda(host_cudaMemsetAsync(c->memory, raw[2], SCENE_BYTES, c->a),
	            "cudaMemsetAsync");
	expect_cuda(host_cudaEventRecord(fork, c->a), "cudaEventRecord");
	expect_cuda(host_cudaStreamWaitEvent(c->b, fork, 0),
	            "cudaStreamWaitEvent");
	expect_cuda(host_cudaMemcpyAsync(c->copy, c->memory, SCENE_BYTES,
	                                 cudaMemcpyDefault, c->b),
	            "cudaMemcpyAsync");
	expect_cuda(host_cudaLaunchHostFunc(c->a, count_too, &c->calls),
	            "cudaLaunchHostFunc");
	expect_cuda(host_cudaEventRecord(join, c->b), "cudaEventRecord");
	expect_cuda(host_cudaStreamWaitEvent(c->a, join, 0),
	            "cudaStreamWaitEvent");
	expect_cuda(host_cudaEventDestroy(fork), "cudaEventDestroy");
	expect_cuda(host_cudaEventDestroy(join), "cudaEventDestroy");
}

static void replay(struct scene *c, cudaGraph_t graph, const uint8_t *raw)
{
	cudaGraphExec_t exec;
	const int times = raw[3] % 4;
	int i;

	expect_cuda(host_cudaGraphInstantiate(&exec, graph, 0),
	            "cudaGraphInstantiate");
	if (raw[4] % 2)
		expect_cuda(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	for (i = 0; i < times; i++)
		expect_cuda(host_cudaGraphLaunch(exec, i % 2 ? c->b : c->a),
		            "cudaGraphLaunch");
	if (raw[4] & 2)
		expect_cuda(host_cudaGraphExecDestroy(exec),
		            "cudaGraphExecDestroy");
	scene_stream_end(c->a);
	scene_stream_end(c->b);
	if (!(raw[4] & 2))
		expect_cuda(host_cudaGraphExecDestroy(exec),
		            "cudaGraphExecDestroy");
	if (!(raw[4] % 2))
		expect_cuda(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	if (c->calls != times)
		fuzz_fail("a graph ran %d times, not %d", c->calls, times);
	check_bytes(c->copy, times ? raw[2] : 0x11, SCENE_BYTES, "a graph");
}

/* Invalidate the capture in one of several ways. */
static void invalidate(struct scene *c, const uint8_t *raw)
{
	cudaError_t error = raw[1] % 2 ? host_cudaStreamSynchronize(c->a)
	                               : host_cudaStreamQuery(c->a);
	cudaGraph_t graph;

	if (error == cudaSuccess || error == cudaErrorNotReady)
		fuzz_fail("a stream under capture can be waited for");
	host_cudaGetLastError();
	if (host_cudaStreamEndCapture(c->a, &graph) == cudaSuccess || graph)
		fuzz_fail("an invalidated capture yields a graph");
	host_cudaGetLastError();
	scene_stream_end(c->a);
	scene_stream_end(c->b);
}

/* Run a capture, but not in global mode, which would affect all threads. */
static void captures(const uint8_t *raw)
{
	struct scene c = { .a = scene_stream(), .b = scene_stream() };
	cudaGraph_t graph;

	c.memory = scene_memory(0);
	c.copy = scene_memory(1);
	memset(c.copy, 0x11, SCENE_BYTES);
	expect_cuda(host_cudaStreamBeginCapture(
			    c.a, raw[0] % 2 ? cudaStreamCaptureModeRelaxed
					    : cudaStreamCaptureModeThreadLocal),
	            "cudaStreamBeginCapture");
	capture_work(&c, raw);
	if (raw[1] % 8 < 2) {
		invalidate(&c, raw);
	} else {
		expect_cuda(host_cudaStreamEndCapture(c.a, &graph),
		            "cudaStreamEndCapture");
		replay(&c, graph, raw);
	}
	scene_memory_end(0, c.memory);
	scene_memory_end(1, c.copy);
}

/* ---- running the step ------------------------------------------------- */

static void (*const scenes[])(const uint8_t *raw) = {
	captures, device_facts, peers,        pointers,     pitched,
	pooled,   registered,   stream_facts, entry_points, captures,
};

/* Run one of the scenes above. Most of them wait for a stream. */
void run_extra(struct runner *r, struct step *s)
{
	const unsigned n = sizeof(scenes) / sizeof(scenes[0]);

	wait_begin(r->program, false);
	scenes[s->raw[2] % n](s->raw + 3);
	wait_end(r->program, false);
}
