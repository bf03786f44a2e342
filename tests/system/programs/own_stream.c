/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Functions of the CUDA runtime for programs with a default stream per thread,
 * called by symbol; and functions that no other program here calls
 */

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

#include "program.h"

/* clang-format off */
#define FUNCTIONS(X) \
	X(cudaMemcpy) X(cudaMemcpy2D) X(cudaMemset) X(cudaMemset2D) \
	X(cudaMemcpyAsync) X(cudaMemcpy2DAsync) X(cudaMemsetAsync) \
	X(cudaMemset2DAsync) X(cudaMallocAsync) X(cudaMallocFromPoolAsync) \
	X(cudaFreeAsync) X(cudaStreamAttachMemAsync) \
	X(cudaStreamSynchronize) X(cudaStreamQuery) X(cudaStreamWaitEvent) \
	X(cudaStreamAddCallback) X(cudaLaunchHostFunc) X(cudaStreamGetFlags) \
	X(cudaStreamGetPriority) X(cudaStreamGetId) \
	X(cudaStreamBeginCapture) \
	X(cudaStreamEndCapture) X(cudaStreamIsCapturing) X(cudaEventRecord) \
	X(cudaEventRecordWithFlags) X(cudaGraphLaunch) X(cudaGraphUpload) \
	X(cudaGetDriverEntryPointByVersion)

/* Functions whose names have a version suffix in CUDA 12 */
#define CHANGED(X) \
	X(cudaMemPrefetchAsync, _v2) X(cudaStreamGetCaptureInfo, _v3) \
	X(cudaStreamUpdateCaptureDependencies, _v2)
/* clang-format on */

#define POINTER(name, ...) static __typeof__(name) *own_##name;
FUNCTIONS(POINTER)
CHANGED(POINTER)

static void find(const char *name, void *out)
{
	char symbol[100];
	void *address;

	snprintf(symbol, sizeof(symbol), "%s_ptsz", name);
	address = dlsym(RTLD_DEFAULT, symbol);
	snprintf(symbol, sizeof(symbol), "%s_ptds", name);
	if (!address)
		address = dlsym(RTLD_DEFAULT, symbol);
	if (!address)
		failed(__FILE__, __LINE__, name,
		       "has no variant for per-thread streams");
	memcpy(out, &address, sizeof(address));
}

static void find_all(void)
{
	int version;

	CUDA(cudaRuntimeGetVersion(&version));
#define FIND(name) find(#name, &own_##name);
#define FIND_CHANGED(name, older)                                              \
	find(version < 13000 ? #name #older : #name, &own_##name);
	FUNCTIONS(FIND)
	CHANGED(FIND_CHANGED)
}

/* ---- the thread's own stream ------------------------------------------ */

static void facts(void)
{
	unsigned long long id, wanted;
	unsigned int flags;
	int priority;

	CUDA(own_cudaStreamGetId(NULL, &id));
	CUDA(own_cudaStreamGetId(cudaStreamPerThread, &wanted));
	CHECK(id == wanted);
	CUDA(own_cudaStreamGetId(cudaStreamLegacy, &wanted));
	CHECK(id != wanted);
	CUDA(own_cudaStreamGetFlags(NULL, &flags));
	CUDA(own_cudaStreamGetPriority(NULL, &priority));
}

static void add_one(void *user)
{
	++*(int *)user;
}

static void add_one_too(cudaStream_t stream, cudaError_t status, void *user)
{
	(void)stream;
	if (status == cudaSuccess)
		add_one(user);
}

static void work_in_order(cudaStream_t other)
{
	int *device, *pinned, count = 0;
	cudaEvent_t event;
	cudaMemPool_t pool;

	CUDA(cudaMallocHost((void **)&pinned, 64));
	CUDA(cudaEventCreate(&event));
	CUDA(own_cudaMallocAsync((void **)&device, 64, NULL));
	CUDA(own_cudaMemsetAsync(device, 1, 64, NULL));
	CUDA(own_cudaMemset2DAsync(device, 8, 2, 4, 2, NULL));
	CUDA(own_cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDefault, NULL));
	CUDA(own_cudaLaunchHostFunc(NULL, add_one, &count));
	CUDA(own_cudaStreamAddCallback(NULL, add_one_too, &count, 0));
	CUDA(own_cudaEventRecord(event, NULL));
	CUDA(cudaStreamWaitEvent(other, event, 0));
	CUDA(cudaStreamSynchronize(other));
	CHECK(count == 2 && pinned[0] == 0x2020202 && pinned[1] == 0x1010101);
	CUDA(own_cudaEventRecordWithFlags(event, NULL, 0));
	CUDA(own_cudaStreamWaitEvent(NULL, event, 0));
	CUDA(own_cudaMemcpy2DAsync(pinned, 4, device, 8, 4, 2,
	                           cudaMemcpyDefault, NULL));
	CUDA(own_cudaStreamSynchronize(NULL));
	CUDA(own_cudaStreamQuery(NULL));
	CHECK(pinned[1] == 0x2020202);
	CUDA(own_cudaFreeAsync(device, NULL));
	CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
	CUDA(own_cudaMallocFromPoolAsync((void **)&device, 64, pool, NULL));
	CUDA(own_cudaFreeAsync(device, NULL));
	CUDA(cudaEventDestroy(event));
	CUDA(cudaFreeHost(pinned));
}

static void stop_until(void *user)
{
	while (!__atomic_load_n((int *)user, __ATOMIC_ACQUIRE))
		sched_yield();
}

/*
 * Copy while a blocking stream waits for what this thread does next. The legacy
 * stream would wait for the blocking stream, but the thread's own stream does
 * not.
 */
static void copies_beside(void)
{
	int *device, host[2] = { 7, 8 }, go = 0;
	cudaStream_t blocking;

	CUDA(cudaMalloc((void **)&device, 64));
	CUDA(cudaStreamCreate(&blocking));
	CUDA(cudaLaunchHostFunc(blocking, stop_until, &go));
	CUDA(own_cudaMemset(device, 0, 64));
	CUDA(own_cudaMemset2D(device, 8, 1, 4, 2));
	CUDA(own_cudaMemcpy(host, device, 8, cudaMemcpyDefault));
	CHECK(host[0] == 0x1010101 && host[1] == 0);
	CUDA(own_cudaMemcpy2D(host, 4, device, 8, 4, 2, cudaMemcpyDefault));
	CHECK(host[1] == 0x1010101);
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	CUDA(cudaStreamSynchronize(blocking));
	CUDA(cudaStreamDestroy(blocking));
	CUDA(cudaFree(device));
}

static void managed(void)
{
	struct cudaMemLocation place;
	int *memory;

	memset(&place, 0, sizeof(place));
	place.type = cudaMemLocationTypeDevice;
	CUDA(cudaMallocManaged((void **)&memory, 64, cudaMemAttachGlobal));
	CUDA(own_cudaMemPrefetchAsync(memory, 64, place, 0, NULL));
	/* Memory cannot be attached to the legacy stream. */
	CUDA(own_cudaStreamAttachMemAsync(NULL, memory, 0,
	                                  cudaMemAttachSingle));
	CUDA(own_cudaStreamSynchronize(NULL));
	CUDA(cudaFree(memory));
}

/* Capture the thread's own stream. The legacy stream cannot be captured. */
static void graphs(void)
{
	enum cudaStreamCaptureStatus status;
	const cudaGraphNode_t *after;
	const cudaGraphEdgeData *edges;
	unsigned long long id = 0;
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	int count = 0;
	size_t n = 0;

	CUDA(own_cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
	CUDA(own_cudaLaunchHostFunc(NULL, add_one, &count));
	CUDA(own_cudaStreamIsCapturing(NULL, &status));
	CHECK(status == cudaStreamCaptureStatusActive);
	CUDA(own_cudaStreamGetCaptureInfo(NULL, &status, &id, &graph, &after,
	                                  &edges, &n));
	CHECK(id && n == 1);
	CUDA(own_cudaStreamUpdateCaptureDependencies(
		NULL, NULL, NULL, 0, cudaStreamSetCaptureDependencies));
	CUDA(own_cudaStreamGetCaptureInfo(NULL, &status, &id, &graph, &after,
	                                  &edges, &n));
	CHECK(!n);
	CUDA(own_cudaStreamEndCapture(NULL, &graph));
	CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CUDA(own_cudaGraphUpload(exec, NULL));
	CUDA(own_cudaGraphLaunch(exec, NULL));
	CUDA(own_cudaStreamSynchronize(NULL));
	CHECK(count == 1);
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
}

static void drivers_functions(void)
{
	cudaError_t (*newest)(const char *, void **, unsigned long long,
	                      enum cudaDriverEntryPointQueryResult *);
	enum cudaDriverEntryPointQueryResult status;
	void *plain = NULL, *own = NULL, *legacy = NULL, *same = NULL;

	CUDA(own_cudaGetDriverEntryPointByVersion("cuStreamQuery", &own, 12050,
	                                          cudaEnableDefault, &status));
	CUDA(own_cudaGetDriverEntryPointByVersion("cuStreamQuery", &legacy,
	                                          12050, cudaEnableLegacyStream,
	                                          &status));
	CUDA(own_cudaGetDriverEntryPointByVersion("cuInit", &plain, 12050,
	                                          cudaEnableDefault, &status));
	CHECK(plain && own && legacy && own != legacy);
	find("cudaGetDriverEntryPoint", &newest);
	CUDA(newest("cuStreamQuery", &same, cudaEnableDefault, &status));
	CHECK(same == own);
}

/* ---- unsupported functions, and functions without effect ---------------- */

struct three {
	unsigned int x, y, z;
};

/* Launch functions. They are only looked up, because there are no kernels. */
static const char *const launches[] = {
	"cudaLaunchKernel",
	"cudaLaunchKernel_ptsz",
	"cudaLaunchCooperativeKernel",
	"cudaLaunchCooperativeKernel_ptsz",
	"__cudaLaunchKernel",
	"__cudaLaunchKernel_ptsz",
};

static void kernels(void)
{
	static const char *const questions[] = {
		"cudaFuncGetAttributes",
		"cudaFuncGetName",
		"cudaFuncSetAttribute",
		"cudaFuncSetCacheConfig",
		"cudaFuncSetSharedMemConfig",
		"cudaOccupancyAvailableDynamicSMemPerBlock",
		"cudaOccupancyMaxActiveBlocksPerMultiprocessor",
		"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
		"cudaOccupancyMaxActiveClusters",
		"cudaOccupancyMaxPotentialClusterSize",
	};
	cudaError_t (*ask)(const void *, const void *, int, size_t);
	cudaError_t (*launch)(const void *, struct three, struct three, void **,
	                      size_t, cudaStream_t);
	const struct three one = { 1, 1, 1 };
	size_t i;

	for (i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		*(void **)&ask = dlsym(RTLD_DEFAULT, questions[i]);
		CHECK(ask && ask(&one, &one, 1, 1) == cudaErrorNotSupported);
	}
	for (i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		*(void **)&launch = dlsym(RTLD_DEFAULT, launches[i]);
		CHECK(launch && launch(&one, one, one, NULL, 0, NULL) ==
		                        cudaErrorNotSupported);
	}
	CHECK(cudaGetLastError() == cudaErrorNotSupported);
	*(void **)&ask = dlsym(RTLD_DEFAULT, "cudaLaunchKernelExC_ptsz");
	CHECK(ask && ask(NULL, &one, 0, 0) == cudaErrorNotSupported);
	CHECK(cudaGetLastError() == cudaErrorNotSupported);
}

/*
 * Make the calls that a compiler adds to a program with kernels. The program
 * must be able to start.
 */
static void registered(void)
{
	static const char *const names[] = {
		"__cudaRegisterHostVar",
		"__cudaRegisterManagedVar",
	};
	cudaError_t (*get)(const void **kernel, const void *host);
	void (*enter)(void *, void *, void *, void *, int, size_t, int, int);
	const void *kernel = NULL;
	char (*start)(void **module);
	size_t i;

	*(void **)&start = dlsym(RTLD_DEFAULT, "__cudaInitModule");
	CHECK(start && start(NULL));
	*(void **)&get = dlsym(RTLD_DEFAULT, "__cudaGetKernel");
	CHECK(get && !get(&kernel, &names) && kernel == &names);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*(void **)&enter = dlsym(RTLD_DEFAULT, names[i]);
		CHECK(enter);
		enter(NULL, NULL, NULL, NULL, 0, 0, 0, 0);
	}
	CHECK(cudaGetLastError() == cudaSuccess);
}

static void other_processes(void)
{
	cudaIpcMemHandle_t handle;
	void *memory, *other;

	memset(&handle, 0, sizeof(handle));
	CUDA(cudaMalloc(&memory, 8));
	CHECK(cudaIpcGetMemHandle(&handle, memory) == cudaErrorNotSupported);
	CHECK(cudaIpcGetMemHandle(&handle, &handle) == cudaErrorInvalidValue);
	CHECK(cudaIpcOpenMemHandle(&other, handle,
	                           cudaIpcMemLazyEnablePeerAccess) ==
	      cudaErrorNotSupported);
	CHECK(cudaIpcOpenMemHandle(&other, handle, 0) == cudaErrorInvalidValue);
	CUDA(cudaFree(memory));
	cudaGetLastError();
}

static void user_objects(void)
{
	cudaUserObject_t object;
	cudaGraph_t graph;
	int ended = 0;

	CUDA(cudaUserObjectCreate(&object, &ended, add_one, 1,
	                          cudaUserObjectNoDestructorSync));
	CUDA(cudaUserObjectRetain(object, 2));
	CUDA(cudaGraphCreate(&graph, 0));
	CUDA(cudaGraphRetainUserObject(graph, object, 1, 0));
	CUDA(cudaGraphReleaseUserObject(graph, object, 1));
	CUDA(cudaUserObjectRelease(object, 2));
	CHECK(!ended);
	CHECK(cudaUserObjectRetain(object, 0) == cudaErrorInvalidValue);
	CUDA(cudaUserObjectRelease(object, 1));
	CHECK(ended == 1);
	CUDA(cudaGraphDestroy(graph));
	cudaGetLastError();
}

static void choices(int n)
{
	int list[1] = { n - 1 }, bad[1] = { n };
	size_t value;

	CHECK(cudaSetValidDevices(bad, 1) == cudaErrorInvalidDevice);
	CHECK(cudaSetValidDevices(NULL, 1) == cudaErrorInvalidValue);
	CUDA(cudaSetValidDevices(list, 1));
	CUDA(cudaSetValidDevices(NULL, 0));
	CUDA(cudaDeviceGetLimit(&value, cudaLimitStackSize));
	CHECK(value);
	CHECK(cudaDeviceGetLimit(&value, (enum cudaLimit)99) ==
	      cudaErrorInvalidValue);
	cudaGetLastError();
}

int main(void)
{
	cudaStream_t other;
	int n;

	n = count_devices();
	find_all();
	choices(n);
	CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	facts();
	work_in_order(other);
	copies_beside();
	managed();
	graphs();
	drivers_functions();
	kernels();
	registered();
	other_processes();
	user_objects();
	CUDA(cudaStreamDestroy(other));
	puts("OK");
	return 0;
}
