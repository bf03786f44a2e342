/* SPDX-License-Identifier: Apache-2.0 */

#include "support/place.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RANGES 256
#define MAX_STACK (1 << 20)
#define HEAP_STEP (64 << 20)

static const struct platform *real;
static struct platform reaching;
static cudaError_t (*host_register)(void *memory, size_t bytes,
                                    unsigned int flags);

int place_platform(void)
{
	const char *text = getenv("COHORT_PLATFORM");

	return text && strcmp(text, "gpu") == 0 ? COHORT_PLATFORM_GPU
	                                        : COHORT_PLATFORM_HOST;
}

void place_choose(void)
{
	bool is_gpu = place_platform() == COHORT_PLATFORM_GPU;

	setenv("COHORT_PLATFORM", is_gpu ? "gpu" : "host", 1);
}

bool place_is_real(void)
{
	const char *text = getenv("TEST_DEVICES");

	return text && strcmp(text, "real") == 0;
}

/* Read only the environment, because a call of the library would fix the number
 * of devices. */
bool place_is_nvidia(void)
{
	const char *text = getenv("TEST_NCCL");

	return text && strcmp(text, "nvidia") == 0 &&
	       place_platform() == COHORT_PLATFORM_GPU;
}

__attribute__((weak)) void place_skip(const char *why)
{
	puts(why);
	exit(77);
}

/* ---- plain memory as device memory ------------------------------------ */

/* Memory that this program has registered: whole mappings, and the rest of a
 * mapping that grew after it was registered */
static struct range {
	uintptr_t begin, end;
} ranges[MAX_RANGES];
static int range_count;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

/* Return the writable memory around @address that is not registered yet.
 * Adjacent mappings count as one, because an array can cross the end of the
 * program's data segment. */
static struct range find_mapping_locked(uintptr_t address)
{
	struct range r = { 0, 0 }, m;
	char line[512], access;
	FILE *maps = fopen("/proc/self/maps", "r");
	int i;

	while (maps && fgets(line, sizeof(line), maps) && r.begin <= address) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*c%c", &m.begin,
		           &m.end, &access) != 3 ||
		    access != 'w' || strstr(line, "/dev/"))
			continue;
		if (m.begin == r.end)
			r.end = m.end;
		else if (address < r.end)
			break;
		else
			r = m;
	}
	if (maps)
		fclose(maps);
	if (address < r.begin || address >= r.end)
		r.end = r.begin;
	for (i = 0; i < range_count; i++) {
		if (ranges[i].end <= address && ranges[i].end > r.begin)
			r.begin = ranges[i].end;
		if (ranges[i].begin > address && ranges[i].begin < r.end)
			r.end = ranges[i].begin;
	}
	return r;
}

static bool is_known(const void *address)
{
	struct cudaPointerAttributes a = { 0 };

	return real->cudaPointerGetAttributes(&a, address) == cudaSuccess &&
	       a.type != cudaMemoryTypeUnregistered;
}

/*
 * Register the whole mapping that contains @address, because CUDA cannot copy
 * memory that spans two registrations. In relaxed capture mode, the
 * registration does not invalidate a capture in progress.
 */
static void reach_at(const void *address)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	struct range r;

	if (is_known(address))
		return;
	real->cudaThreadExchangeStreamCaptureMode(&mode);
	pthread_mutex_lock(&ranges_lock);
	r = find_mapping_locked((uintptr_t)address);
	if (r.end > r.begin && range_count < MAX_RANGES &&
	    host_register((void *)r.begin, r.end - r.begin,
	                  cudaHostAllocPortable | cudaHostAllocMapped) ==
	            cudaSuccess)
		ranges[range_count++] = r;
	pthread_mutex_unlock(&ranges_lock);
	real->cudaThreadExchangeStreamCaptureMode(&mode);
	real->cudaGetLastError();
}

/* Register the mappings that contain @memory. Ignore errors: if the memory is
 * invalid, the call that uses it reports an error. */
static void reach(const void *memory, size_t bytes)
{
	if (!memory || !bytes)
		return;
	reach_at(memory);
	reach_at((const char *)memory + bytes - 1);
}

/* Make malloc() use one mapping that never shrinks, and let this mapping and
 * the stack grow now, in advance. */
static void settle_mappings(void)
{
	char deep[MAX_STACK];

	*(volatile char *)deep = 0;
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_TOP_PAD, HEAP_STEP);
	free(malloc(HEAP_STEP / 2));
}

/* Register @count elements for each of @times ranks, or for all ranks of @comm
 * if @times is 0. */
static void reach_elements(const void *memory, size_t count,
                           ncclDataType_t type, ncclComm_t comm, int times)
{
	if (!times &&
	    (!comm || real->ncclCommCount(comm, &times) != ncclSuccess))
		return;
	if (count < SIZE_MAX / 8 / (size_t)times)
		reach(memory,
		      count * (size_t)times * cohort_type_size((int)type));
}

/* Register the buffers of a copy from device to device, and make it a copy of
 * kind cudaMemcpyDefault.  The library treats plain memory as device memory, but
 * CUDA does not. */
static void reach_copy(void *dst, const void *src, size_t bytes,
                       enum cudaMemcpyKind *kind)
{
	if (*kind != cudaMemcpyDeviceToDevice)
		return;
	reach(dst, bytes);
	reach(src, bytes);
	*kind = cudaMemcpyDefault;
}

/* Register the buffers of a collective. Each argument is 1 if the buffer has a
 * block of one rank, and 0 if it has blocks of all ranks. */
#define REACH_BOTH(sends, receives)                                            \
	(reach_elements(send, count, type, comm, sends),                       \
	 reach_elements(recv, count, type, comm, receives))

/* BEFORE_name is a comma and what the function does before the real one. A
 * function without such a macro does nothing. */
#define BEFORE_ncclAllReduce , REACH_BOTH(1, 1)
#define BEFORE_ncclReduce , REACH_BOTH(1, 1)
#define BEFORE_ncclBroadcast , REACH_BOTH(1, 1)
#define BEFORE_ncclAllGather , REACH_BOTH(1, 0)
#define BEFORE_ncclReduceScatter , REACH_BOTH(0, 1)
#define BEFORE_ncclAlltoAll , REACH_BOTH(0, 0)
#define BEFORE_ncclGather , REACH_BOTH(1, 0)
#define BEFORE_ncclScatter , REACH_BOTH(0, 1)
#define BEFORE_ncclSend , reach_elements(send, count, type, comm, 1)
#define BEFORE_ncclRecv , reach_elements(recv, count, type, comm, 1)
#define BEFORE_cudaMemcpyAsync , reach_copy(dst, src, bytes, &kind)
#define BEFORE_cudaMemset , reach(memory, bytes)
#define BEFORE_cudaMemsetAsync , reach(memory, bytes)

#define SECOND(first, second, ...) second
#define CHOOSE(...) SECOND(__VA_ARGS__)

#define REACHING(since, result, name, parameters, arguments)                   \
	static result reaching_##name parameters                               \
	{                                                                      \
		CHOOSE(BEFORE_##name, (void)0, );                              \
		return real->name arguments;                                   \
	}
NCCL_FUNCTIONS(REACHING)
CUDA_FUNCTIONS(REACHING)

/* ---- the platform ----------------------------------------------------- */

static void must(int rc, const char *what)
{
	if (rc == COHORT_OK)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, rc, cohort_last_error());
	abort();
}

/* Make @p register the plain memory that its functions get. Repeated calls have
 * no effect. */
static void install_reach(const struct platform *p)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	void *runtime;

	if (real)
		return;
	must(cohort_platform_probe(p->kind, &info), "probe");
	runtime =
		info.runtime_file ? dlopen(info.runtime_file, RTLD_NOW) : NULL;
	if (!runtime)
		place_skip("plain memory cannot be made known to CUDA");
	*(void **)&host_register = dlsym(runtime, "cudaHostRegister");
	if (!host_register)
		place_skip("there is no cudaHostRegister");
	settle_mappings();
	real = p;
	reaching = *p;
#define ENTRY(since, result, name, parameters, arguments)                      \
	reaching.name = reaching_##name;
	NCCL_FUNCTIONS(ENTRY)
	CUDA_FUNCTIONS(ENTRY)
#undef ENTRY
	platform_override(&reaching);
}

const struct platform *place_table(void)
{
	const struct platform *p;

	must(platform_open(place_platform(), &p), "platform_open");
	if (!place_is_real())
		return p;
	install_reach(p);
	must(platform_open(place_platform(), &p), "platform_open");
	return p;
}

void place_set_chunk(size_t bytes)
{
	static struct platform table;

	table = *place_table();
	table.chunk_bytes = bytes;
	platform_override(&table);
}

int place_devices(void)
{
	int n = 0;

	place_table()->cudaGetDeviceCount(&n);
	return n;
}

static void need(int devices, int n)
{
	char text[64];

	if (n >= devices)
		return;
	snprintf(text, sizeof(text), "needs %d devices of %d", devices, n);
	place_skip(text);
}

void place_need(int devices)
{
	if (place_is_real())
		need(devices, place_devices());
}

void place_need_for_child(int devices)
{
	int ends[2], n = 0;
	pid_t child;

	if (!place_is_real() || pipe(ends))
		return;
	child = fork();
	if (child == 0) {
		n = place_devices();
		_exit(write(ends[1], &n, sizeof(n)) != sizeof(n));
	}
	close(ends[1]);
	if (read(ends[0], &n, sizeof(n)) != sizeof(n))
		n = 0;
	close(ends[0]);
	waitpid(child, NULL, 0);
	need(devices, n);
}

void place_need_world(int ranks)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	/* Callers run all ranks in this process, and the drop-in libraries
	 * allow one rank per device. */
	if (cohort_platform_probe(place_platform(), &info) == COHORT_OK &&
	    info.is_drop_in)
		place_need(ranks);
}

const struct platform *place_open(int devices)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", devices);
	if (!place_is_real())
		must(setenv("COHORT_HOST_DEVICES", text, 1), "setenv");
	place_need(devices);
	return place_table();
}

static void skip_with_reason(const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: only the host platform's", what);
	place_skip(text);
}

void place_need_host(const char *what)
{
	if (place_is_real())
		skip_with_reason(what);
}

/* On GPUs, memory functions always wait for all launched work. */
bool place_has_sync(void)
{
	const char *sync = getenv("COHORT_HOST_SYNC");

	return (place_is_real() && place_is_nvidia()) ||
	       (sync &&
	        (strcmp(sync, "device") == 0 || strcmp(sync, "memory") == 0));
}

void place_need_no_sync(const char *why)
{
	if (place_has_sync())
		place_skip(why);
}

void place_skip_in_qemu(const char *why)
{
	char text[192];

	if (!getenv("TEST_QEMU"))
		return;
	snprintf(text, sizeof(text), "QEMU: %s", why);
	place_skip(text);
}

void place_need_built_in(const char *what)
{
	if (place_platform() != COHORT_PLATFORM_HOST)
		skip_with_reason(what);
}

void place_skip_if_shared(const char *why)
{
	const char *text = getenv("COHORT_HOST_SHARED");

	if (text && strcmp(text, "1") == 0)
		place_skip(why);
}

void place_need_one_process(const char *what)
{
	place_need_built_in(what);
	place_skip_if_shared(what);
}

/* ---- NVIDIA's NCCL ---------------------------------------------------- */

void place_need_our_nccl(const char *what)
{
	char text[128];

	place_need_host(what);
	if (!place_is_nvidia())
		return;
	snprintf(text, sizeof(text), "%s: only the simulator's own NCCL's",
	         what);
	place_skip(text);
}

void place_skip_on_nvidia(const char *why)
{
	char text[192];

	if (!place_is_nvidia())
		return;
	snprintf(text, sizeof(text), "NVIDIA's NCCL: %s", why);
	place_skip(text);
}

void place_skip_on_nvidia_from(int version, const char *why)
{
	int here = 0;

	if (place_is_nvidia() &&
	    place_table()->ncclGetVersion(&here) == ncclSuccess &&
	    here >= version)
		place_skip_on_nvidia(why);
}

void place_need_order(void)
{
	const char *text = getenv("COHORT_CONNECT");

	if (!text || strcmp(text, "all") != 0)
		place_skip_on_nvidia("the first send or receive of two ranks "
		                     "returns once both have called");
}

/* ---- slow places -------------------------------------------------------- */

/* Longest time that an init, a split or an abort of a few ranks takes on
 * NVIDIA's NCCL or in QEMU */
#define PATIENCE_NS UINT64_C(5000000000)

static bool is_slow(void)
{
	return place_is_nvidia() || getenv("TEST_QEMU");
}

int place_times(int times)
{
	return is_slow() ? (times + 9) / 10 : times;
}

uint64_t place_patience_ns(uint64_t ns)
{
	return is_slow() && ns < PATIENCE_NS ? PATIENCE_NS : ns;
}
