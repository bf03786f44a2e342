/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls of the CUDA driver on streams, in each form: on a created stream, and
 * with NULL for the thread's own stream. The functions are found by
 * cuGetProcAddress() and by symbol.
 */

#include <cuda.h>

#include "driver.h"

/* clang-format off */
#define PLAIN(X) \
	X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) \
	X(cuCtxGetCurrent) X(cuMemAlloc) X(cuMemFree) X(cuMemAllocManaged) \
	X(cuMemHostAlloc) X(cuMemFreeHost) X(cuDeviceGetDefaultMemPool) \
	X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy) \
	X(cuEventCreate) X(cuEventDestroy) X(cuEventQuery) \
	X(cuEventSynchronize) X(cuThreadExchangeStreamCaptureMode) \
	X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphGetNodes) \
	X(cuGraphGetRootNodes) X(cuGraphNodeGetType) \
	X(cuGraphInstantiateWithFlags) X(cuGraphExecGetFlags) \
	X(cuGraphExecDestroy)
#define FORMS(X) \
	X(cuMemcpy) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) \
	X(cuMemcpyPeer) X(cuMemcpy2D) X(cuMemcpy2DUnaligned) X(cuMemsetD8) \
	X(cuMemsetD16) X(cuMemsetD32) X(cuMemsetD2D8) \
	X(cuMemcpyAsync) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) \
	X(cuMemcpyDtoDAsync) X(cuMemcpyPeerAsync) X(cuMemcpy2DAsync) \
	X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) \
	X(cuMemsetD2D8Async) X(cuMemAllocAsync) X(cuMemAllocFromPoolAsync) \
	X(cuMemFreeAsync) X(cuMemPrefetchAsync) X(cuStreamAttachMemAsync) \
	X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) \
	X(cuStreamAddCallback) X(cuLaunchHostFunc) X(cuStreamGetFlags) \
	X(cuStreamGetPriority) X(cuStreamGetId) X(cuStreamGetDevice) \
	X(cuStreamBeginCapture) X(cuStreamEndCapture) \
	X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo) \
	X(cuStreamUpdateCaptureDependencies) X(cuEventRecord) \
	X(cuEventRecordWithFlags) X(cuGraphLaunch) X(cuGraphUpload) \
	X(cuStreamWriteValue32) X(cuStreamWaitValue32) \
	X(cuStreamWriteValue64) X(cuStreamWaitValue64) X(cuStreamBatchMemOp)

/* Older functions, as X(name, symbol, version, variable, parameters) */
#define OLDER(X) \
	X(cuStreamGetCtx, cuStreamGetCtx, 9020, context_of, \
	  (CUstream, CUcontext *)) \
	X(cuStreamGetCtx, cuStreamGetCtx_v2, 12050, contexts_of, \
	  (CUstream, CUcontext *, void **)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, info_1, \
	  (CUstream, CUstreamCaptureStatus *, cuuint64_t *)) \
	X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, info_2, \
	  (CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, \
	   const CUgraphNode **, size_t *)) \
	X(cuStreamUpdateCaptureDependencies, \
	  cuStreamUpdateCaptureDependencies, 11030, update_1, \
	  (CUstream, CUgraphNode *, size_t, unsigned int)) \
	X(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, prefetch_1, \
	  (CUdeviceptr, size_t, CUdevice, CUstream))
/* clang-format on */

PLAIN(POINTER)
FORMS(POINTER)
#define OLDER_POINTER(name, symbol, version, variable, parameters)             \
	static CUresult(*variable) parameters;
OLDER(OLDER_POINTER)

/* ---- forms of a function ---------------------------------------------- */

static void find_symbol(const char *symbol, void *out)
{
	static const char *const ends[] = { "_ptsz", "_ptds", "" };
	void *address = NULL;
	char name[100];
	size_t i;

	/* A form for the thread's own stream has one of these suffixes. */
	for (i = 0; !address && i < sizeof(ends) / sizeof(ends[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, ends[i]);
		address = dlsym(driver_library, name);
	}
	if (!address || (!*ends[i - 1] && !strstr(symbol, "_pt"))) {
		fprintf(stderr, "there is no %s for a thread's stream\n",
		        symbol);
		exit(1);
	}
	memcpy(out, &address, sizeof(address));
}

static void find_forms(uint64_t flags)
{
#define FIND_FORM(name) find(#name, CUDA_VERSION, flags, &p_##name);
#define FIND_OLDER(name, symbol, version, variable, parameters)                \
	find(#name, version, flags, &variable);
	FORMS(FIND_FORM)
	OLDER(FIND_OLDER)
}

static void find_symbols(void)
{
#define TEXT_OF(symbol) #symbol
#define FIND_SYMBOL(name) find_symbol(TEXT_OF(name), &p_##name);
#define FIND_OLD_SYMBOL(name, symbol, version, variable, parameters)           \
	find_symbol(#symbol, &variable);
	FORMS(FIND_SYMBOL)
	OLDER(FIND_OLD_SYMBOL)
}

/* ---- facts about streams ---------------------------------------------- */

static void facts(CUstream stream, CUstream same, CUstream other)
{
	unsigned long long id, wanted;
	unsigned int flags = 9;
	CUcontext context, now;
	int priority = 9;
	CUdevice device;
	void *green;

	CU(cuStreamGetId(stream, &id));
	CU(cuStreamGetId(same, &wanted));
	CHECK(id == wanted);
	CU(cuStreamGetId(other, &wanted));
	CHECK(id != wanted);
	CU(cuStreamGetFlags(stream, &flags));
	CHECK(flags <= CU_STREAM_NON_BLOCKING);
	CU(cuStreamGetPriority(stream, &priority));
	CHECK(priority <= 0);
	CU(cuStreamGetDevice(stream, &device));
	CHECK(device == 1);
	CU(cuCtxGetCurrent(&now));
	GIVES(CUDA_SUCCESS, context_of(stream, &context));
	CHECK(context == now);
	GIVES(CUDA_SUCCESS, contexts_of(stream, &context, &green));
	CHECK(context == now && !green);
	GIVES(CUDA_ERROR_INVALID_VALUE, context_of(stream, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuStreamGetId(stream, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuStreamGetFlags(stream, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuStreamGetPriority(stream, NULL));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuStreamGetDevice(stream, NULL));
}

/* ---- copies and fills ------------------------------------------------- */

struct memory {
	CUcontext context;
	CUdeviceptr device, other;
	uint32_t *pinned;
};

static CUDA_MEMCPY2D rectangle(const struct memory *m)
{
	CUDA_MEMCPY2D c;

	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = m->other;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = m->device;
	c.srcPitch = c.dstPitch = 8;
	c.WidthInBytes = 4;
	c.Height = 2;
	return c;
}

/* Return the expected word @i of the memory after the stream's work. */
static uint32_t word(const struct memory *m, CUstream stream, int i)
{
	CU(cuMemcpyDtoHAsync(m->pinned, m->device + 4 * (CUdeviceptr)i, 4,
	                     stream));
	CU(cuStreamSynchronize(stream));
	return m->pinned[0];
}

static void copies_in_order(const struct memory *m, CUstream stream)
{
	const CUDA_MEMCPY2D c = rectangle(m);

	CU(cuMemsetD32Async(m->device, 1, 4, stream));
	CU(cuMemsetD16Async(m->device, 0x202, 2, stream));
	CHECK(word(m, stream, 0) == 0x2020202 && word(m, stream, 1) == 1);
	CU(cuMemsetD8Async(m->device, 3, 4, stream));
	CHECK(word(m, stream, 0) == 0x3030303);
	CU(cuMemsetD2D8Async(m->device, 8, 4, 4, 2, stream));
	CHECK(word(m, stream, 2) == 0x4040404 && word(m, stream, 1) == 1);
	m->pinned[1] = 5;
	CU(cuMemcpyHtoDAsync(m->other, &m->pinned[1], 4, stream));
	CU(cuMemcpyDtoDAsync(m->device, m->other, 4, stream));
	CHECK(word(m, stream, 0) == 5);
	CU(cuMemsetD32Async(m->other, 6, 4, stream));
	CU(cuMemcpyAsync(m->device, m->other, 4, stream));
	CHECK(word(m, stream, 0) == 6);
	CU(cuMemcpyPeerAsync(m->device + 4, m->context, m->other, m->context, 4,
	                     stream));
	CHECK(word(m, stream, 1) == 6);
	CU(cuMemsetD32Async(m->device, 0, 4, stream));
	CU(cuMemcpy2DAsync(&c, stream));
	CHECK(word(m, stream, 2) == 6 && word(m, stream, 1) == 0);
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemsetD16Async(m->device + 1, 0, 1, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemsetD2D8Async(m->device, 2, 0, 4, 2, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemcpyDtoDAsync(m->device, 0, 4, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemcpy2DAsync(NULL, stream));
}

static void copies_that_wait(const struct memory *m)
{
	CUDA_MEMCPY2D c = rectangle(m);
	uint32_t got[4] = { 1 };

	CU(cuMemsetD32(m->device, 0, 4));
	CU(cuMemsetD16(m->device, 0x707, 2));
	CU(cuMemsetD8(m->device + 4, 8, 4));
	CU(cuMemcpyDtoH(got, m->device, 8));
	CHECK(got[0] == 0x7070707 && got[1] == 0x8080808);
	CU(cuMemsetD2D8(m->device, 8, 9, 4, 2));
	CU(cuMemcpyDtoH(got, m->device, 16));
	CHECK(got[0] == 0x9090909 && got[1] == 0x8080808 &&
	      got[2] == 0x9090909);
	got[0] = 10;
	CU(cuMemcpyHtoD(m->other, got, 4));
	CU(cuMemcpyDtoD(m->device, m->other, 4));
	CU(cuMemcpy(m->device + 4, m->device, 4));
	CU(cuMemcpyPeer(m->device + 8, m->context, m->device, m->context, 4));
	CU(cuMemcpyDtoH(got, m->device, 12));
	CHECK(got[0] == 10 && got[1] == 10 && got[2] == 10);
	CU(cuMemsetD32(m->other, 11, 4));
	CU(cuMemcpy2D(&c));
	c.dstDevice += 4;
	CU(cuMemcpy2DUnaligned(&c));
	CU(cuMemcpyDtoH(got, m->device, 16));
	CHECK(got[0] == 11 && got[1] == 11 && got[2] == 11 && got[3] == 11);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemcpyHtoD(m->device, NULL, 4));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemsetD32(m->device + 2, 0, 1));
}

/*
 * Copy while a blocking stream waits for what this thread does after the
 * copies. The legacy stream would wait for the blocking stream, but the
 * thread's own stream does not.
 */
static void copies_beside(const struct memory *m)
{
	CUstream blocking;

	CU(cuStreamCreate(&blocking, 0));
	m->pinned[2] = 0;
	CU(cuStreamWaitValue32(blocking, (CUdeviceptr)(uintptr_t)&m->pinned[2],
	                       1, CU_STREAM_WAIT_VALUE_EQ));
	copies_that_wait(m);
	GIVES(CUDA_ERROR_NOT_READY, p_cuStreamQuery(blocking));
	*(volatile uint32_t *)&m->pinned[2] = 1;
	CU(cuStreamSynchronize(blocking));
	CU(cuStreamDestroy(blocking));
}

/* ---- memory in stream order ------------------------------------------- */

static void memory_in_order(CUstream stream)
{
	CUdeviceptr memory, managed;
	CUmemoryPool pool;
	CUmemLocation place = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };

	CU(cuMemAllocAsync(&memory, 8, stream));
	CU(cuMemFreeAsync(memory, stream));
	CU(cuDeviceGetDefaultMemPool(&pool, 1));
	CU(cuMemAllocFromPoolAsync(&memory, 8, pool, stream));
	CU(cuMemFreeAsync(memory, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemFreeAsync(0, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuMemAllocAsync(NULL, 8, stream));
	CU(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
	CU(cuMemPrefetchAsync(managed, 64, place, 0, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuMemPrefetchAsync(managed, 64, place, 1, stream));
	GIVES(CUDA_SUCCESS, prefetch_1(managed, 64, -1, stream));
	GIVES(CUDA_ERROR_INVALID_DEVICE, prefetch_1(managed, 64, 99, stream));
	CU(cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamAttachMemAsync(stream, managed, 0, 9));
	CU(cuStreamSynchronize(stream));
	CU(cuMemFree(managed));
}

/* ---- order between streams -------------------------------------------- */

static void add_one(void *user)
{
	++*(int *)user;
}

static void add_one_too(CUstream stream, CUresult status, void *user)
{
	(void)stream;
	if (status == CUDA_SUCCESS)
		add_one(user);
}

static void functions_and_events(CUstream stream, CUstream other)
{
	int count = 0;
	CUevent event;

	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuStreamAddCallback(stream, add_one_too, &count, 0));
	CU(cuLaunchHostFunc(stream, add_one, &count));
	CU(cuEventRecord(event, stream));
	CU(cuStreamWaitEvent(other, event, 0));
	CU(cuStreamSynchronize(other));
	CHECK(count == 2);
	CU(cuStreamQuery(stream));
	CU(cuEventRecordWithFlags(event, other, 0));
	CU(cuStreamWaitEvent(stream, event, 0));
	CU(cuEventSynchronize(event));
	CU(cuStreamSynchronize(stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuEventRecordWithFlags(event, stream, 8));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuStreamWaitEvent(stream, event, 8));
	GIVES(CUDA_ERROR_INVALID_HANDLE, p_cuEventRecord(NULL, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamAddCallback(stream, add_one_too, &count, 1));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamAddCallback(stream, NULL, &count, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuLaunchHostFunc(stream, NULL, &count));
	CU(cuEventDestroy(event));
}

static void words(const struct memory *m, CUstream stream, CUstream other)
{
	const CUdeviceptr narrow = (CUdeviceptr)(uintptr_t)&m->pinned[2];
	const CUdeviceptr wide = (CUdeviceptr)(uintptr_t)&m->pinned[4];
	CUstreamBatchMemOpParams both[2];

	memset(m->pinned, 0, 32);
	CU(cuStreamWaitValue32(stream, narrow, 1, CU_STREAM_WAIT_VALUE_EQ));
	CU(cuStreamWriteValue64(stream, wide, 2, 0));
	GIVES(CUDA_ERROR_NOT_READY, p_cuStreamQuery(stream));
	CU(cuStreamWriteValue32(other, narrow, 1, 0));
	CU(cuStreamWaitValue64(other, wide, 2, CU_STREAM_WAIT_VALUE_GEQ));
	CU(cuStreamSynchronize(other));
	memset(both, 0, sizeof(both));
	both[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	both[0].writeValue.address = narrow;
	both[0].writeValue.value = 7;
	both[1].operation = CU_STREAM_MEM_OP_BARRIER;
	CU(cuStreamBatchMemOp(stream, 2, both, 0));
	CU(cuStreamSynchronize(stream));
	CHECK(m->pinned[2] == 7);
	both[0].operation = (CUstreamBatchMemOpType)99;
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamBatchMemOp(stream, 2, both, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamBatchMemOp(stream, 2, NULL, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamWriteValue32(stream, narrow, 1, 8));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamWaitValue32(stream, narrow + 1, 1, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuStreamWaitValue64(stream, wide, 1, 9));
}

/* ---- captures and graphs ---------------------------------------------- */

static CUgraphNode only_node(CUgraph graph)
{
	CUgraphNode node = NULL;
	size_t n = 1;

	CU(cuGraphGetNodes(graph, &node, &n));
	CHECK(n == 1 && node);
	return node;
}

/*
 * Query a capture that has one node, by each function that describes captures.
 */
static void capture_facts(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0, same = 0;
	const CUgraphNode *after = NULL;
	const CUgraphEdgeData *edges;
	CUgraph graph = NULL;
	size_t n = 0;

	CU(cuStreamIsCapturing(stream, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CU(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &after, &edges,
	                          &n));
	CHECK(id && graph && n == 1 && after[0] == only_node(graph) && !edges);
	GIVES(CUDA_SUCCESS, info_1(stream, &status, &same));
	CHECK(same == id);
	same = n = 0;
	after = NULL;
	GIVES(CUDA_SUCCESS, info_2(stream, &status, &same, NULL, &after, &n));
	CHECK(same == id && n == 1 && after[0] == only_node(graph));
	GIVES(CUDA_ERROR_INVALID_VALUE, info_1(stream, NULL, &same));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuStreamIsCapturing(stream, NULL));
}

static void dependencies(CUstream stream, CUgraphNode foreign)
{
	CUstreamCaptureStatus status;
	CUgraphNode node, none = NULL;
	CUgraph graph;
	size_t n = 9;

	GIVES(CUDA_SUCCESS, info_2(stream, &status, NULL, &graph, NULL, NULL));
	node = only_node(graph);
	CU(cuStreamUpdateCaptureDependencies(
		stream, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	GIVES(CUDA_SUCCESS, info_2(stream, &status, NULL, NULL, NULL, &n));
	CHECK(!n);
	GIVES(CUDA_SUCCESS, update_1(stream, &node, 1, 0));
	GIVES(CUDA_SUCCESS, info_2(stream, &status, NULL, NULL, NULL, &n));
	CHECK(n == 1);
	GIVES(CUDA_ERROR_INVALID_VALUE, update_1(stream, &none, 1, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, update_1(stream, &foreign, 1, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, update_1(stream, NULL, 1, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, update_1(stream, &node, 1, 9));
}

static CUgraph capture_one(CUstream stream, const struct memory *m, int kind,
                           int *count)
{
	const CUdeviceptr at = (CUdeviceptr)(uintptr_t)&m->pinned[2];
	CUgraph graph;

	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	if (kind == CU_GRAPH_NODE_TYPE_HOST)
		CU(cuLaunchHostFunc(stream, add_one, count));
	else if (kind == CU_GRAPH_NODE_TYPE_MEMSET)
		CU(cuMemsetD32Async(m->device, 1, 1, stream));
	else
		CU(cuStreamWriteValue32(stream, at, 1, 0));
	if (kind == CU_GRAPH_NODE_TYPE_HOST)
		capture_facts(stream);
	CU(cuStreamEndCapture(stream, &graph));
	return graph;
}

static void node_types(CUstream stream, const struct memory *m)
{
	static const int types[] = {
		CU_GRAPH_NODE_TYPE_HOST,
		CU_GRAPH_NODE_TYPE_MEMSET,
		CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	};
	CUgraphNode root, nodes[2];
	CUgraphNodeType type;
	CUgraph graph;
	int count = 0;
	size_t i, n;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		graph = capture_one(stream, m, types[i], &count);
		CU(cuGraphNodeGetType(only_node(graph), &type));
		CHECK((int)type == types[i]);
		n = 2;
		CU(cuGraphGetRootNodes(graph, nodes, &n));
		root = nodes[0];
		CHECK(n == 1 && root == only_node(graph) && !nodes[1]);
		CU(cuGraphGetNodes(graph, NULL, &n));
		CHECK(n == 1);
		GIVES(CUDA_ERROR_INVALID_VALUE,
		      p_cuGraphGetNodes(graph, NULL, NULL));
		GIVES(CUDA_ERROR_INVALID_VALUE,
		      p_cuGraphNodeGetType(root, NULL));
		CU(cuGraphDestroy(graph));
	}
	CHECK(!count);
}

static void graphs(CUstream stream, const struct memory *m)
{
	CUgraph graph, foreign;
	CUgraphExec exec;
	cuuint64_t flags;
	int count = 0;

	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuGraphCreate(&graph, 1));
	CU(cuGraphCreate(&graph, 0));
	CU(cuGraphDestroy(graph));
	foreign = capture_one(stream, m, CU_GRAPH_NODE_TYPE_MEMSET, NULL);
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuLaunchHostFunc(stream, add_one, &count));
	dependencies(stream, only_node(foreign));
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuGraphDestroy(foreign));
	CU(cuGraphInstantiateWithFlags(
		&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuGraphInstantiateWithFlags(&exec, graph, 0x100));
	CU(cuGraphExecGetFlags(exec, &flags));
	CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuGraphExecGetFlags(exec, NULL));
	CU(cuGraphUpload(exec, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuGraphUpload(NULL, stream));
	CU(cuGraphLaunch(exec, stream));
	CU(cuGraphLaunch(exec, stream));
	GIVES(CUDA_ERROR_INVALID_VALUE, p_cuGraphLaunch(NULL, stream));
	CU(cuStreamSynchronize(stream));
	CHECK(count == 2);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

static void modes(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	CU(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	CU(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
	mode = (CUstreamCaptureMode)9;
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuThreadExchangeStreamCaptureMode(&mode));
	GIVES(CUDA_ERROR_INVALID_VALUE,
	      p_cuThreadExchangeStreamCaptureMode(NULL));
}

/* ---- main ------------------------------------------------------------- */

/* Run all tests on @stream; @same is another handle of the same stream. */
static void all(CUstream stream, CUstream same, const struct memory *m)
{
	CUstream other;

	CU(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, -1));
	facts(stream, same, other);
	copies_in_order(m, stream);
	memory_in_order(stream);
	functions_and_events(stream, other);
	words(m, stream, other);
	node_types(stream, m);
	graphs(stream, m);
	CU(cuStreamDestroy(other));
}

int main(void)
{
	struct memory m;
	CUstream stream;

	open_driver();
	PLAIN(FIND)
	CU(cuInit(0));
	CU(cuDevicePrimaryCtxRetain(&m.context, 1));
	CU(cuCtxSetCurrent(m.context));
	CU(cuMemAlloc(&m.device, 16));
	CU(cuMemAlloc(&m.other, 16));
	CU(cuMemHostAlloc((void **)&m.pinned, 32, 0));
	modes();
	find_forms(0);
	CU(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
	all(stream, stream, &m);
	copies_that_wait(&m);
	CU(cuStreamDestroy(stream));
	find_forms(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	all(NULL, CU_STREAM_PER_THREAD, &m);
	copies_beside(&m);
	find_symbols();
	all(NULL, CU_STREAM_PER_THREAD, &m);
	copies_beside(&m);
	CU(cuMemFreeHost(m.pinned));
	CU(cuMemFree(m.device));
	CU(cuMemFree(m.other));
	puts("OK");
	return 0;
}
