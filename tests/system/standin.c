/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests the drop-in libraries where they differ from NCCL and CUDA: kernels,
 * missing functions, an invalid environment, and other libraries in the
 * process. standin.sh runs each case and checks stderr.
 */

#include <cohort/cohort.h>
#include <cohort/sim.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/program.h"

/* ---- kernels ---------------------------------------------------------- */

struct grid {
	unsigned int x, y, z;
};

/*
 * Functions that nvcc's output calls. CUDA's headers declare only some of them.
 */
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device,
                            const char *name, int limit, void *tid, void *bid,
                            void *block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device,
                       const char *name, int external, size_t size,
                       int constant, int global);
unsigned int __cudaPushCallConfiguration(struct grid grid, struct grid block,
                                         size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(struct grid *grid, struct grid *block,
                                       size_t *shared, void *stream);
cudaError_t cudaLaunchKernel(const void *kernel, struct grid grid,
                             struct grid block, void **arguments, size_t shared,
                             cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const void *config, const void *kernel,
                                void **arguments);
cudaError_t cudaFuncGetAttributes(void *attributes, const void *kernel);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

/* Do what the host side of scale<<<...>>>() does. */
static void scale(void)
{
	struct grid grid, block;
	cudaStream_t stream;
	size_t shared;

	CUDA(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
	CHECK(grid.x == 1 && grid.y == 2 && grid.z == 3 && block.x == 4 &&
	      block.z == 6 && shared == 7 && stream == cudaStreamPerThread);
	cudaLaunchKernel((const void *)scale, grid, block, NULL, shared,
	                 stream);
}

static void launch_scale(void)
{
	struct grid grid = { 1, 2, 3 }, block = { 4, 5, 6 };

	if (__cudaPushCallConfiguration(grid, block, 7, cudaStreamPerThread))
		failed(__FILE__, __LINE__, "push", "refused");
	scale();
}

static void kernels(void)
{
	static char binary, variable;
	void **handle = __cudaRegisterFatBinary(&binary);
	char name[] = "_Z5scalePf"; /* goes out of scope before its use */

	__cudaRegisterFunction(handle, (const char *)scale, name, name, -1,
	                       NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(handle, &variable, name, name, 0, 1, 0, 0);
	__cudaRegisterFatBinaryEnd(handle);
	memset(name, 'x', sizeof(name) - 1);
	launch_scale();
	CHECK(cudaGetLastError() == cudaErrorNotSupported);
	CHECK(cudaGetLastError() == cudaSuccess);
	launch_scale();
	CHECK(cudaPeekAtLastError() == cudaErrorNotSupported);
	CHECK(cudaLaunchKernelExC(NULL, (const void *)launch_scale, NULL) ==
	      cudaErrorNotSupported);
	CHECK(cudaFuncGetAttributes(NULL, (const void *)scale) ==
	      cudaErrorNotSupported);
	__cudaUnregisterFatBinary(handle);
	CUDA(cudaProfilerStart());
	CUDA(cudaProfilerStop());
}

/* ---- missing functions ------------------------------------------------ */

cudaError_t cudaCreateTextureObject(void *object, const void *resource,
                                    const void *texture, const void *view);
ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id,
                          int rank, ncclComm_t *grown, ncclConfig_t *config);
struct team {
	int nRanks, rank, stride;
};
struct team ncclTeamWorld(ncclComm_t comm);
void ncclResetDebugInitInternal(void);

static void absent(void)
{
	int i;

	for (i = 0; i < 2; i++)
		CHECK(cudaCreateTextureObject(NULL, NULL, NULL, NULL) ==
		      cudaErrorNotSupported);
	CHECK(cudaGetLastError() == cudaErrorNotSupported);
	/* Functions of NCCL do not change CUDA's last error. */
	for (i = 0; i < 2; i++)
		CHECK(ncclCommGrow(NULL, 0, NULL, 0, NULL, NULL) ==
		      ncclInvalidUsage);
	CHECK(ncclTeamWorld(NULL).nRanks == 0);
	ncclResetDebugInitInternal();
	CHECK(cudaGetLastError() == cudaSuccess);
}

/* ---- an invalid environment ------------------------------------------- */

static void *refused_thread(void *start)
{
	ncclUniqueId id;
	void *memory;
	int devices;

	pthread_barrier_wait((pthread_barrier_t *)start);
	CHECK(cudaGetDeviceCount(&devices) == cudaErrorInitializationError);
	CHECK(cudaMalloc(&memory, 1) == cudaErrorInitializationError);
	CHECK(cudaGetLastError() == cudaErrorInitializationError);
	CHECK(ncclGetUniqueId(&id) == ncclUnhandledCudaError);
	CHECK(strcmp(cudaGetErrorString(cudaErrorInitializationError),
	             "initialization error") == 0);
	CHECK(ncclGetErrorString(ncclUnhandledCudaError));
	return NULL;
}

/* Make the first use from several threads. */
static void refused(void)
{
	pthread_t threads[4];
	pthread_barrier_t start;
	int i;

	CHECK(!pthread_barrier_init(&start, NULL, 4));
	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, refused_thread,
		                      &start));
	for (i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* ---- forks ------------------------------------------------------------ */

/* Check that a child cannot use its parent's platform, but can use its own. */
static void fork_and_expect(cudaError_t error, ncclResult_t result)
{
	int devices, status;
	ncclUniqueId id;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		CHECK(cudaGetDeviceCount(&devices) == error);
		CHECK(ncclGetUniqueId(&id) == result);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void forks(void)
{
	fork_and_expect(cudaSuccess, ncclSuccess);
	count_devices();
	fork_and_expect(cudaErrorInitializationError, ncclUnhandledCudaError);
	count_devices();
}

/* ---- other libraries in the process ----------------------------------- */

static void *find(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address)
		failed(__FILE__, __LINE__, name, dlerror());
	return address;
}

/*
 * Load both major versions. Each reports its own version, and they share one
 * platform.
 */
static void majors(void)
{
	static const struct {
		const char *name;
		int version;
	} majors[] = { { "libcudart.so.12", 12090 },
		       { "libcudart.so.13", 13000 } };
	cudaError_t (*get_version)(int *), (*get_device)(int *);
	const char *(*drop_in)(void);
	int i, version, device;

	CUDA(cudaSetDevice(1));
	for (i = 0; i < 2; i++) {
		void *library = dlopen(majors[i].name, RTLD_NOW | RTLD_LOCAL);

		CHECK(library);
		*(void **)&drop_in = find(library, "cohort_drop_in");
		CHECK(strcmp(drop_in(), cohort_version()) == 0);
		*(void **)&get_version = find(library, "cudaRuntimeGetVersion");
		CUDA(get_version(&version));
		CHECK(version == majors[i].version);
		*(void **)&get_device = find(library, "cudaGetDevice");
		CUDA(get_device(&device));
		CHECK(device == 1);
		/* The libraries' code stays mapped after this. */
		CHECK(!dlclose(library));
	}
	CUDA(get_device(&device));
	*(void **)&drop_in =
		find(dlopen("libnccl.so.2", RTLD_NOW), "cohort_drop_in");
	CHECK(strcmp(drop_in(), cohort_version()) == 0);
}

/*
 * Interpose a function of NCCL, and call NCCL's own function by its other name,
 * as a program may do.
 */
static int interposed;
ncclResult_t pncclGetVersion(int *version);
ncclResult_t ncclGetVersion(int *version)
{
	interposed++;
	return pncclGetVersion(version);
}

static void in_front(void)
{
	int version;

	NCCL(ncclGetVersion(&version));
	CHECK(version > 20000 && interposed == 1);
}

/* Call CUDA 12's cudaGetDeviceProperties(), which has another layout. */
static void properties(void)
{
	void *library = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
	cudaError_t (*get)(struct cudaDeviceProp12 *, int);
	struct cudaDeviceProp12 of_12;
	struct cudaDeviceProp of_13;

	CHECK(library);
	*(void **)&get = find(library, "cudaGetDeviceProperties_v2");
	CUDA(get(&of_12, 1));
	CUDA(cudaGetDeviceProperties(&of_13, 1));
	CHECK(of_13.name[0] && strcmp(of_12.name, of_13.name) == 0);
	CHECK(of_13.pciBusID && of_12.pciBusID == of_13.pciBusID);
	CHECK(of_12.totalGlobalMem == of_13.totalGlobalMem);
	CHECK(of_12.maxBlocksPerMultiProcessor ==
	      of_13.maxBlocksPerMultiProcessor);
	CHECK(get(&of_12, 100) == cudaErrorInvalidDevice);
	CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

static int one(struct cohort_comm *comm, void *user)
{
	(void)user;
	return cohort_barrier(comm, NULL, NULL);
}

/* Check that the host platform built into libcohort is a separate one. */
static void beside(void)
{
	struct cohort_group_options options;
	struct cohort_cause cause;
	struct cohort_group *group;
	int devices;

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST;
	CHECK(cohort_sim_set_devices(3) == COHORT_OK);
	CHECK(cohort_group_open(NULL, 0, &options, &group) == COHORT_OK);
	CHECK(cohort_group_size(group) == 3);
	CUDA(cudaGetDeviceCount(&devices));
	CHECK(devices == 5);
	CUDA(cudaSetDevice(4));
	CHECK(cohort_group_run(group, one, NULL, &cause) == COHORT_OK);
	CHECK(cohort_group_close(group) == COHORT_OK);
	CUDA(cudaGetDevice(&devices));
	CHECK(devices == 4);
}

/* Run a rank that uses its memory, stream and native call directly. */
static int share(struct cohort_comm *comm, void *user)
{
	int32_t value = cohort_comm_rank(comm) + 1, *memory;
	cudaStream_t stream;
	void *native;
	int ranks;

	(void)user;
	CUDA(cudaMalloc((void **)&memory, sizeof(value)));
	CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CUDA(cudaMemcpy(memory, &value, sizeof(value), cudaMemcpyDefault));
	CHECK(cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                        stream, NULL) == COHORT_OK);
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(&value, memory, sizeof(value), cudaMemcpyDefault));
	CHECK(value == 3);
	CHECK(cohort_comm_native_enter(comm, &native) == COHORT_OK);
	NCCL(ncclCommCount(native, &ranks));
	CHECK(ranks == 2);
	CHECK(cohort_comm_native_leave(comm) == COHORT_OK);
	CUDA(cudaStreamDestroy(stream));
	CUDA(cudaFree(memory));
	return 0;
}

/*
 * Under cohort run, use one platform for the calls of the program and of
 * libcohort.
 */
static void together(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	struct cohort_group *group;

	CHECK(cohort_platform_probe(COHORT_PLATFORM_AUTO, &info) == COHORT_OK);
	CHECK(info.platform == COHORT_PLATFORM_GPU && info.is_drop_in);
	CHECK(cohort_group_open(NULL, 2, NULL, &group) == COHORT_OK);
	CHECK(cohort_group_run(group, share, NULL, NULL) == COHORT_OK);
	CHECK(cohort_group_close(group) == COHORT_OK);
}

/* Without cohort run, check that the platforms are separate. */
static void apart(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	CHECK(cohort_platform_probe(COHORT_PLATFORM_AUTO, &info) == COHORT_OK);
	CHECK(info.platform == COHORT_PLATFORM_HOST);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "kernels", kernels },   { "absent", absent },
		{ "refused", refused },   { "forks", forks },
		{ "majors", majors },     { "properties", properties },
		{ "front", in_front },    { "beside", beside },
		{ "together", together }, { "apart", apart },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc != 2 || strcmp(argv[1], cases[i].name) != 0)
			continue;
		cases[i].run();
		puts("OK");
		return 0;
	}
	fprintf(stderr, "usage: standin CASE\n");
	return 2;
}
