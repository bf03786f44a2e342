/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes for functions that few programs use, or only the library
 */

#include <string.h>

#include "base/clock.h"
#include "system/fuzz/scene.h"

static int current(void)
{
	int device = -1;

	expect_cuda(host_cudaGetDevice(&device), "cudaGetDevice");
	return device;
}

/* ---- marks ------------------------------------------------------------ */

/* Make one stream wait for a mark of another. */
static void marks(const uint8_t *raw)
{
	const struct platform *p = own_functions();
	cudaStream_t a = scene_stream(), b = scene_stream();
	unsigned char *memory = scene_memory(1);
	uint32_t *word = scene_memory(1);

	memset(memory, 0x11, SCENE_BYTES);
	*word = 0;
	expect_cuda(p->await_mark(b, word, 2), "await_mark");
	expect_cuda(host_cudaMemsetAsync(memory, 2, SCENE_BYTES, b),
	            "cudaMemsetAsync");
	expect_cuda(p->mark(a, word, 1), "mark");
	expect_cuda(host_cudaMemsetAsync(memory, 1, SCENE_BYTES, a),
	            "cudaMemsetAsync");
	expect_cuda(p->mark(a, word, 2), "mark");
	if (raw[0] % 2)
		p->progress(0, b, word, 2, clock_now());
	must_be(p->mark(a, NULL, 1), cudaErrorInvalidValue, "mark");
	scene_stream_end(b);
	scene_stream_end(a);
	check_bytes(memory, 2, SCENE_BYTES, "a mark");
	scene_memory_end(1, memory);
	scene_memory_end(1, word);
}

/* ---- memory ----------------------------------------------------------- */

static void managed(const uint8_t *raw)
{
	const struct cudaMemLocation here = { cudaMemLocationTypeDevice,
		                              raw[0] % 12 - 2 };
	cudaStream_t stream = scene_stream();
	void *memory = scene_memory(2);

	may_fail(host_cudaMemAdvise(memory, SCENE_BYTES,
	                            (enum cudaMemoryAdvise)(raw[1] % 9), here),
	         "cudaMemAdvise");
	may_fail(host_cudaMemPrefetchAsync(memory, SCENE_BYTES, here,
	                                   raw[2] % 8 == 7, stream),
	         "cudaMemPrefetchAsync");
	may_fail(host_cudaStreamAttachMemAsync(stream, memory, 0, raw[3] % 8),
	         "cudaStreamAttachMemAsync");
	scene_stream_end(stream);
	scene_memory_end(2, memory);
}

static void rows(const uint8_t *raw)
{
	const size_t width = 1 + raw[0] % 12, height = 1 + raw[1] % 4;
	cudaStream_t stream = scene_stream();
	unsigned char *a = scene_memory(0), *b = scene_memory(1);
	size_t i;

	memset(b, 0x11, SCENE_BYTES);
	expect_cuda(host_cudaMemset2DAsync(a, 12, raw[2], width, height,
	                                   stream),
	            "cudaMemset2DAsync");
	expect_cuda(host_cudaMemcpy2DAsync(b, 12, a, 12, width, height,
	                                   cudaMemcpyDefault, stream),
	            "cudaMemcpy2DAsync");
	may_fail(host_cudaMemcpy2DAsync(b, width - 1, a, 12, width, height,
	                                cudaMemcpyDefault, stream),
	         "cudaMemcpy2DAsync");
	scene_stream_end(stream);
	for (i = 0; i < height; i++) {
		check_bytes(b + 12 * i, raw[2], width, "a row");
		check_bytes(b + 12 * i + width, 0x11, 12 - width,
		            "what is behind a row");
	}
	scene_memory_end(0, a);
	scene_memory_end(1, b);
}

static void between_devices(const uint8_t *raw)
{
	cudaStream_t stream = scene_stream();
	unsigned char *a = scene_memory(0), *b = scene_memory(1);
	const int own = current(), other = raw[0] % 12 - 2;

	expect_cuda(host_cudaMemsetAsync(a, raw[1], SCENE_BYTES, stream),
	            "cudaMemsetAsync");
	expect_cuda(host_cudaMemcpyPeerAsync(b, own, a, own, SCENE_BYTES,
	                                     stream),
	            "cudaMemcpyPeerAsync");
	if (other < 0 || other >= DEVICES)
		must_be(host_cudaMemcpyPeerAsync(b, own, a, other, 1, stream),
		        cudaErrorInvalidDevice, "cudaMemcpyPeerAsync");
	scene_stream_end(stream);
	check_bytes(b, raw[1], SCENE_BYTES, "cudaMemcpyPeerAsync");
	scene_memory_end(0, a);
	scene_memory_end(1, b);
}

static void pools(const uint8_t *raw)
{
	struct cudaMemPoolProps props = {
		.allocType = (enum cudaMemAllocationType)(raw[0] % 8 ? 1 : 0),
		.location = { cudaMemLocationTypeDevice, current() },
	};
	struct cudaMemAccessDesc access = { props.location,
		                            cudaMemAccessFlagsProtReadWrite };
	enum cudaMemAccessFlags flags;
	cudaStream_t stream = scene_stream();
	cudaMemPool_t pool, before;
	void *memory;
	uint64_t value = raw[1];

	expect_cuda(host_cudaDeviceGetMemPool(&before, current()),
	            "cudaDeviceGetMemPool");
	expect_cuda(host_cudaDeviceGetDefaultMemPool(&pool, current()),
	            "cudaDeviceGetDefaultMemPool");
	if (host_cudaMemPoolCreate(&pool, &props) == cudaSuccess) {
		may_fail(host_cudaMemPoolSetAttribute(
				 pool, (enum cudaMemPoolAttr)(raw[2] % 10),
				 &value),
		         "cudaMemPoolSetAttribute");
		may_fail(host_cudaMemPoolGetAttribute(
				 pool, (enum cudaMemPoolAttr)(raw[3] % 10),
				 &value),
		         "cudaMemPoolGetAttribute");
		may_fail(host_cudaMemPoolSetAccess(pool, &access, 1),
		         "cudaMemPoolSetAccess");
		may_fail(host_cudaMemPoolGetAccess(&flags, pool,
		                                   &access.location),
		         "cudaMemPoolGetAccess");
		expect_cuda(host_cudaMallocFromPoolAsync(&memory, SCENE_BYTES,
		                                         pool, stream),
		            "cudaMallocFromPoolAsync");
		expect_cuda(host_cudaFreeAsync(memory, stream),
		            "cudaFreeAsync");
		may_fail(host_cudaMemPoolTrimTo(pool, raw[4]),
		         "cudaMemPoolTrimTo");
		scene_stream_end(stream);
		expect_cuda(host_cudaMemPoolDestroy(pool),
		            "cudaMemPoolDestroy");
	} else {
		scene_stream_end(stream);
	}
	expect_cuda(host_cudaDeviceSetMemPool(current(), before),
	            "cudaDeviceSetMemPool");
	host_cudaGetLastError();
}

/* Use IPC handles. This process can create them but not open them. */
static void ipc(const uint8_t *raw)
{
	cudaIpcMemHandle_t handle;
	void *memory = scene_memory(0), *opened;

	(void)raw;
	if (host_cudaIpcGetMemHandle(&handle, memory) == cudaSuccess &&
	    host_cudaIpcOpenMemHandle(&opened, handle, 1) == cudaSuccess)
		may_fail(host_cudaIpcCloseMemHandle(opened),
		         "cudaIpcCloseMemHandle");
	host_cudaGetLastError();
	scene_memory_end(0, memory);
}

/* ---- settings --------------------------------------------------------- */

static void settings(const uint8_t *raw)
{
	const int device = current();
	unsigned int flags;
	size_t value;
	int is;

	may_fail(host_cudaGetDeviceFlags(&flags), "cudaGetDeviceFlags");
	may_fail(host_cudaSetDeviceFlags(raw[0]), "cudaSetDeviceFlags");
	may_fail(host_cudaInitDevice(raw[1] % 12 - 2, raw[2] % 8, raw[3] % 4),
	         "cudaInitDevice");
	if (host_cudaDeviceGetLimit(&value, (enum cudaLimit)(raw[4] % 9)) ==
	    cudaSuccess)
		may_fail(host_cudaDeviceSetLimit((enum cudaLimit)(raw[4] % 9),
		                                 value),
		         "cudaDeviceSetLimit");
	may_fail(host_cudaDeviceGetP2PAttribute(
			 &is, (enum cudaDeviceP2PAttr)(raw[0] % 8),
			 raw[1] % 12 - 2, raw[2] % 12 - 2),
	         "cudaDeviceGetP2PAttribute");
	may_fail(host_cudaDriverGetVersion(&is), "cudaDriverGetVersion");
	expect_cuda(host_cudaSetDevice(device), "cudaSetDevice");
	must_be(host_cudaPeekAtLastError(), cudaSuccess, "cudaPeekAtLastError");
}

/* ---- captures --------------------------------------------------------- */

static void check_nodes(cudaGraph_t graph, size_t must)
{
	cudaGraphNode_t nodes[4];
	enum cudaGraphNodeType type;
	size_t n = 4;

	expect_cuda(host_cudaGraphGetNodes(graph, nodes, &n),
	            "cudaGraphGetNodes");
	if (n != must)
		fuzz_fail("a graph of %zu nodes has %zu", must, n);
	while (n--)
		expect_cuda(host_cudaGraphNodeGetType(nodes[n], &type),
		            "cudaGraphNodeGetType");
	n = 4;
	expect_cuda(host_cudaGraphGetRootNodes(graph, nodes, &n),
	            "cudaGraphGetRootNodes");
}

static void capture_facts(const uint8_t *raw)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	enum cudaStreamCaptureStatus status;
	cudaStream_t stream = scene_stream();
	void *memory = scene_memory(0);
	unsigned long long id;
	const cudaGraphNode_t *after;
	cudaGraph_t graph, own;
	size_t n;

	expect_cuda(host_cudaThreadExchangeStreamCaptureMode(&mode),
	            "cudaThreadExchangeStreamCaptureMode");
	expect_cuda(host_cudaStreamBeginCapture(stream,
	                                        cudaStreamCaptureModeRelaxed),
	            "cudaStreamBeginCapture");
	expect_cuda(host_cudaMemsetAsync(memory, raw[0], 8, stream),
	            "cudaMemsetAsync");
	expect_cuda(host_cudaStreamIsCapturing(stream, &status),
	            "cudaStreamIsCapturing");
	if (status != cudaStreamCaptureStatusActive)
		fuzz_fail("a stream that is captured is %d", (int)status);
	expect_cuda(host_cudaStreamGetCaptureInfo(stream, &status, &id, &own,
	                                          &after, NULL, &n),
	            "cudaStreamGetCaptureInfo");
	if (raw[1] % 2)
		may_fail(host_cudaStreamUpdateCaptureDependencies(
				 stream, NULL, NULL, 0, raw[2] % 3),
		         "cudaStreamUpdateCaptureDependencies");
	expect_cuda(host_cudaMemsetAsync(memory, raw[0], 8, stream),
	            "cudaMemsetAsync");
	expect_cuda(host_cudaStreamEndCapture(stream, &graph),
	            "cudaStreamEndCapture");
	expect_cuda(host_cudaThreadExchangeStreamCaptureMode(&mode),
	            "cudaThreadExchangeStreamCaptureMode");
	check_nodes(graph, 2);
	expect_cuda(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	scene_stream_end(stream);
	scene_memory_end(0, memory);
}

static void empty_graph(const uint8_t *raw)
{
	cudaStream_t stream = scene_stream();
	unsigned long long flags;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	expect_cuda(host_cudaGraphCreate(&graph, 0), "cudaGraphCreate");
	check_nodes(graph, 0);
	if (host_cudaGraphInstantiateWithFlags(&exec, graph, raw[0] % 4) ==
	    cudaSuccess) {
		may_fail(host_cudaGraphExecGetFlags(exec, &flags),
		         "cudaGraphExecGetFlags");
		may_fail(host_cudaGraphUpload(exec, stream), "cudaGraphUpload");
		expect_cuda(host_cudaGraphLaunch(exec, stream),
		            "cudaGraphLaunch");
		expect_cuda(host_cudaGraphExecDestroy(exec),
		            "cudaGraphExecDestroy");
	}
	host_cudaGetLastError();
	expect_cuda(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	scene_stream_end(stream);
}

/* ---- the thread's own stream ------------------------------------------ */

/* Number of own streams. Accessed relaxed, because it orders nothing. */
static atomic_size_t own_streams;

size_t scene_own_streams(void)
{
	return atomic_load_explicit(&own_streams, memory_order_relaxed);
}

/* Count a thread's own stream, which exists as long as the thread. */
static void count_own_stream(void)
{
	static _Thread_local bool counted[DEVICES];

	if (!counted[current()])
		atomic_fetch_add_explicit(&own_streams, 1,
		                          memory_order_relaxed);
	counted[current()] = true;
}

static void own_stream(const uint8_t *raw)
{
	unsigned char *memory = scene_memory(raw[0] % 3);
	cudaEvent_t event;

	count_own_stream();
	expect_cuda(host_cudaEventCreate(&event), "cudaEventCreate");
	expect_cuda(host_cudaMemsetAsync(memory, raw[1], SCENE_BYTES,
	                                 cudaStreamPerThread),
	            "cudaMemsetAsync");
	expect_cuda(host_cudaEventRecordWithFlags(event, cudaStreamPerThread,
	                                          0),
	            "cudaEventRecordWithFlags");
	expect_cuda(host_cudaEventSynchronize(event), "cudaEventSynchronize");
	expect_cuda(host_cudaStreamSynchronize(cudaStreamPerThread),
	            "cudaStreamSynchronize");
	check_bytes(memory, raw[1], SCENE_BYTES, "the thread's own stream");
	expect_cuda(host_cudaEventDestroy(event), "cudaEventDestroy");
	scene_memory_end(raw[0] % 3, memory);
}

/* ---- running the step ------------------------------------------------- */

static void (*const scenes[])(const uint8_t *raw) = {
	marks, managed,  rows,          between_devices, pools,
	ipc,   settings, capture_facts, empty_graph,     own_stream,
};

/* Run one of the scenes above. Most of them wait for a stream. */
void run_scene(struct runner *r, struct step *s)
{
	const unsigned n = sizeof(scenes) / sizeof(scenes[0]);

	wait_begin(r->program, false);
	scenes[s->raw[2] % n](s->raw + 3);
	wait_end(r->program, false);
}
