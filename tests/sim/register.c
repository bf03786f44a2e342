/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of NCCL's memory, of registered buffers, and of windows
 */

#include <criterion/criterion.h>
#include <string.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"

TestSuite(registration, .timeout = 20);

/* ---- memory ----------------------------------------------------------- */

Test(registration, ncclMemAlloc_returns_device_memory)
{
	const struct platform *p = native_open(2);
	char *memory = NULL, byte = 5;

	cr_assert_eq(p->ncclMemAlloc((void **)&memory, 100), ncclSuccess);
	cr_assert_not_null(memory);
	cr_assert_eq(p->cudaMemset(memory, 7, 100), cudaSuccess);
	cr_assert_eq(p->cudaMemcpy(&byte, memory + 99, 1,
	                           cudaMemcpyDeviceToHost),
	             cudaSuccess);
	cr_assert_eq(byte, 7);
	cr_assert_eq(p->ncclMemFree(memory), ncclSuccess);
}

Test(registration, ncclMemAlloc_and_ncclMemFree_check_their_arguments)
{
	const struct platform *p = native_open(1);
	void *memory = &memory;
	char own;

	cr_assert_eq(p->ncclMemAlloc(NULL, 1), ncclUnhandledCudaError);
	cr_assert_eq(p->ncclMemAlloc(NULL, 0), ncclUnhandledCudaError);
	cr_assert_eq(p->ncclMemAlloc(&memory, 0), ncclSuccess);
	cr_assert_null(memory);
	cr_assert_eq(p->ncclMemFree(NULL), ncclSuccess);
	cr_assert_eq(p->ncclMemFree(&own), ncclUnhandledCudaError);
}

/* ---- buffers ---------------------------------------------------------- */

Test(registration, registration_involves_only_one_rank)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 2);
	void *handle = NULL;

	cr_assert_eq(p->ncclCommRegister(c.comm[0], c.send[0],
	                                 sizeof(c.send[0]), &handle),
	             ncclSuccess);
	cr_assert_not_null(handle);
	native_sum_all(&c);
	cr_assert_eq(p->ncclCommDeregister(c.comm[1], handle),
	             ncclInvalidUsage);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], handle), ncclSuccess);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], handle),
	             ncclInvalidUsage);
	native_clique_destroy(&c);
}

/*
 * A second registration of the same pages returns the first one's handle, and
 * is counted.
 */
Test(registration, registration_of_the_same_pages_is_counted)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 1);
	void *first, *again, *other;
	char *memory;

	native_must(p->cudaMalloc((void **)&memory, 100000), "cudaMalloc");
	cr_assert_eq(p->ncclCommRegister(c.comm[0], memory, 50000, &first),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommRegister(c.comm[0], memory + 100, 200, &again),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommRegister(c.comm[0], memory, 100000, &other),
	             ncclSuccess);
	cr_assert_eq(again, first);
	cr_assert_neq(other, first);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], other), ncclSuccess);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], first), ncclSuccess);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], again), ncclSuccess);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], again), ncclInvalidUsage);
	native_clique_destroy(&c);
	native_must(p->cudaFree(memory), "cudaFree");
}

Test(registration, registration_checks_its_arguments)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 1);
	void *handle;

	cr_assert_eq(p->ncclCommRegister(NULL, c.send, 4, &handle),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommRegister(c.comm[0], c.send, 4, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommDeregister(NULL, NULL), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], NULL), ncclSuccess);
	cr_assert_eq(p->ncclCommDeregister(c.comm[0], &c), ncclInvalidUsage);
	native_clique_destroy(&c);
}

Test(registration, registration_is_freed_with_its_communicator)
{
	struct native_clique c;
	const struct platform *p = native_clique_begin(&c, 1);
	void *handle;

	cr_assert_eq(p->ncclCommRegister(c.comm[0], c.send, 4, &handle),
	             ncclSuccess);
	native_clique_abort(&c);
}

/* ---- windows ---------------------------------------------------------- */

struct windows {
	struct native_clique c;
	char *memory[NATIVE_RANKS];
	ncclWindow_t window[NATIVE_RANKS];
};

static void open_windows(struct windows *w, const struct platform *p, int n)
{
	int r;

	native_clique_open(&w->c, p, n);
	for (r = 0; r < n; r++) {
		native_must(p->cudaSetDevice(r), "cudaSetDevice");
		native_must(p->ncclMemAlloc((void **)&w->memory[r], 8192),
		            "ncclMemAlloc");
	}
}

static ncclResult_t make_windows(struct windows *w, size_t offset)
{
	const struct platform *p = w->c.p;
	int r;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < w->c.n; r++) {
		w->window[r] = (ncclWindow_t)w;
		p->ncclCommWindowRegister(w->c.comm[r], w->memory[r] + offset,
		                          4096, &w->window[r],
		                          NCCL_WIN_COLL_SYMMETRIC);
	}
	return p->ncclGroupEnd();
}

static void close_windows(struct windows *w)
{
	const struct platform *p = w->c.p;
	int r;

	for (r = 0; r < w->c.n; r++)
		native_must(p->ncclMemFree(w->memory[r]), "ncclMemFree");
	native_clique_destroy(&w->c);
}

Test(registration, window_is_created_by_all_ranks)
{
	const struct platform *p = native_open(3);
	struct windows w;
	int r;

	open_windows(&w, p, 3);
	cr_assert_eq(make_windows(&w, 0), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_not_null(w.window[r]);
	native_sum_all(&w.c);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[r],
		                                         w.window[r]),
		             ncclSuccess);
	cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[0], w.window[0]),
	             ncclInternalError);
	cr_assert_eq(make_windows(&w, NCCL_WIN_REQUIRED_ALIGNMENT),
	             ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[r],
		                                         w.window[r]),
		             ncclSuccess);
	close_windows(&w);
}

Test(registration, window_must_start_at_a_page_of_its_allocation)
{
	const struct platform *p = native_open(2);
	struct windows w;

	open_windows(&w, p, 2);
	cr_assert_eq(make_windows(&w, 256), ncclInvalidArgument);
	expect_text(p->ncclGetLastError(NULL), "_ALIGNMENT");
	cr_assert_null(w.window[0]);
	native_sum_all(&w.c);
	close_windows(&w);
}

Test(registration, window_functions_check_their_arguments)
{
	const struct platform *p = native_open(1);
	struct windows w;
	char own[64];

	open_windows(&w, p, 1);
	cr_assert_eq(p->ncclCommWindowRegister(NULL, w.memory[0], 1,
	                                       &w.window[0], 0),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommWindowRegister(w.c.comm[0], w.memory[0], 1,
	                                       NULL, 0),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommWindowRegister(w.c.comm[0], own, 1,
	                                       &w.window[0], 0),
	             ncclUnhandledCudaError);
	cr_assert_eq(p->ncclCommWindowRegister(w.c.comm[0], w.memory[0], 8193,
	                                       &w.window[0], 0),
	             ncclUnhandledCudaError);
	cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[0], NULL),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommWindowDeregister(NULL, NULL), ncclSuccess);
	cr_assert_eq(p->ncclCommWindowDeregister(NULL, (ncclWindow_t)own),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[0],
	                                         (ncclWindow_t)own),
	             ncclInternalError);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
	close_windows(&w);
}

/* The handle of a window is not valid for a buffer, and vice versa. */
Test(registration, window_is_not_taken_for_a_registered_buffer)
{
	const struct platform *p = native_open(1);
	struct windows w;
	void *handle;

	open_windows(&w, p, 1);
	cr_assert_eq(make_windows(&w, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommRegister(w.c.comm[0], w.memory[0], 4096,
	                                 &handle),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommDeregister(w.c.comm[0], w.window[0]),
	             ncclInvalidUsage);
	cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[0], handle),
	             ncclInternalError);
	cr_assert_eq(p->ncclCommDeregister(w.c.comm[0], handle), ncclSuccess);
	cr_assert_eq(p->ncclCommWindowDeregister(w.c.comm[0], w.window[0]),
	             ncclSuccess);
	close_windows(&w);
}

/*
 * On a non-blocking communicator, a window exists only once the state is no
 * longer ncclInProgress.
 */
Test(registration, nonblocking_window_exists_when_the_state_is_success)
{
	const struct platform *p = native_open(2);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t state = ncclInProgress;
	ncclWindow_t window = NULL;
	ncclUniqueId id;
	ncclComm_t comm;
	void *memory;

	config.blocking = 0;
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	native_must(p->ncclMemAlloc(&memory, 4096), "ncclMemAlloc");
	p->ncclCommInitRankConfig(&comm, 1, id, 0, &config);
	while (state == ncclInProgress)
		p->ncclCommGetAsyncError(comm, &state);
	cr_assert_eq(p->ncclCommWindowRegister(comm, memory, 4096, &window, 0),
	             ncclInProgress);
	do
		p->ncclCommGetAsyncError(comm, &state);
	while (state == ncclInProgress);
	cr_assert_not_null(window);
	cr_assert_eq(p->ncclCommWindowDeregister(comm, window), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
	cr_assert_eq(p->ncclMemFree(memory), ncclSuccess);
}
