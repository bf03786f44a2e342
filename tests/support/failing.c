/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A platform table in which one call can fail
 *
 * Each function has an index, a name, a counter and a wrapper, all generated
 * from the platform's list of functions. Functions that return a string cannot
 * fail. The wrappers recognize them by their result type.
 */

#include "failing.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/thread.h"

/* clang-format off */
enum failing_index {
#define FAILING_INDEX(since, result, name, parameters, arguments) failing_of_##name,
	NCCL_FUNCTIONS(FAILING_INDEX)
	failing_nccl_end, /* index of the first CUDA function */
	failing_before_cuda = failing_nccl_end - 1,
	CUDA_FUNCTIONS(FAILING_INDEX)
#undef FAILING_INDEX
	failing_of_mark,
	failing_of_await_mark,
	failing_functions,
};
/* clang-format on */

/* clang-format off */
static const char *const names[failing_functions] = {
#define FAILING_NAME(since, result, name, parameters, arguments)                      \
	[failing_of_##name] = #name,
	NCCL_FUNCTIONS(FAILING_NAME)
	CUDA_FUNCTIONS(FAILING_NAME)
#undef FAILING_NAME
	[failing_of_mark] = "cuStreamWriteValue32",
	[failing_of_await_mark] = "await_mark",
};
/* clang-format on */

static const struct platform *real; /* set by failing_wrap() */
static atomic_ulong calls[failing_functions];

/* index of the function to fail, or failing_functions for any function; written
 * by failing_at() while no other thread makes calls */
static atomic_int chosen;
static atomic_int nccl_code;
static atomic_int cuda_code;
/* thread whose calls fail, or 0 for any thread */
static atomic_int thread;

/* the call that decrements the countdown to 0 fails */
static atomic_long countdown;
static _Atomic(const char *) fired;

/* Count a call of function @index. Return whether it must fail. */
static bool failing_strikes(int index)
{
	atomic_fetch_add_explicit(&calls[index], 1, memory_order_relaxed);
	if (chosen != failing_functions && chosen != index)
		return false;
	if (thread && thread != thread_id())
		return false;
	if (atomic_load_explicit(&countdown, memory_order_relaxed) <= 0)
		return false;
	if (atomic_fetch_sub_explicit(&countdown, 1, memory_order_relaxed) != 1)
		return false;
	/* The release pairs with the acquire in failing_fired(). */
	atomic_store_explicit(&fired, names[index], memory_order_release);
	return true;
}

/*
 * Make this thread's open group fail, by calling NCCL with an invalid
 * communicator. Has no effect if no group is open.
 */
static void failing_poison_group(void)
{
	real->ncclBroadcast(NULL, NULL, 1, ncclInt8, 0, NULL, NULL);
}

static int failing_answer(int index)
{
	if (index >= failing_nccl_end)
		return cuda_code;
	failing_poison_group();
	if (index == failing_of_ncclGroupEnd)
		real->ncclGroupEnd();
	return nccl_code;
}

#define FAILING_IS_TEXT(result)                                                \
	_Generic((result)0, const char * : true, default : false)
#define FAILING_FUNCTION(since, result, name, parameters, arguments)           \
	static result failing_##name parameters                                \
	{                                                                      \
		if (!FAILING_IS_TEXT(result) &&                                \
		    failing_strikes(failing_of_##name))                        \
			return (result)(intptr_t)failing_answer(               \
				failing_of_##name);                            \
		return real->name arguments;                                   \
	}
NCCL_FUNCTIONS(FAILING_FUNCTION)
CUDA_FUNCTIONS(FAILING_FUNCTION)
#undef FAILING_FUNCTION

static cudaError_t failing_mark(cudaStream_t stream, uint32_t *word,
                                uint32_t value)
{
	if (failing_strikes(failing_of_mark))
		return (cudaError_t)failing_answer(failing_of_mark);
	return real->mark(stream, word, value);
}

static cudaError_t failing_await_mark(cudaStream_t stream, uint32_t *word,
                                      uint32_t value)
{
	if (failing_strikes(failing_of_await_mark))
		return (cudaError_t)failing_answer(failing_of_await_mark);
	return real->await_mark(stream, word, value);
}

static struct platform table;

/* Return the index of the function @name, or -1 if there is none. */
static int failing_find(const char *name)
{
	int i;

	for (i = 0; i < failing_functions; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

const struct platform *failing_wrap(const struct platform *behind)
{
	int i;

	real = behind;
	table = *behind;
	table.launches_ahead = false;
#define FAILING_ENTRY(since, result, name, parameters, arguments)              \
	table.name = failing_##name;
	NCCL_FUNCTIONS(FAILING_ENTRY)
	CUDA_FUNCTIONS(FAILING_ENTRY)
#undef FAILING_ENTRY
	table.mark = failing_mark;
	table.await_mark = failing_await_mark;
	for (i = 0; i < failing_functions; i++)
		atomic_store_explicit(&calls[i], 0, memory_order_relaxed);
	failing_at(NULL, 0, ncclSuccess, cudaSuccess);
	return &table;
}

void failing_limit_lists(const struct list_limits *limits)
{
	table.lists = *limits;
}

void failing_at(const char *only, unsigned long n, int nccl, int cuda)
{
	chosen = only ? failing_find(only) : failing_functions;
	nccl_code = nccl;
	cuda_code = cuda;
	thread = 0;
	atomic_store_explicit(&fired, NULL, memory_order_relaxed);
	atomic_store_explicit(&countdown, (long)n, memory_order_relaxed);
}

void failing_here(const char *only, unsigned long n, int nccl, int cuda)
{
	failing_at(only, 0, nccl, cuda);
	thread = thread_id();
	atomic_store_explicit(&countdown, (long)n, memory_order_relaxed);
}

const char *failing_fired(void)
{
	/* The acquire pairs with the release in failing_strikes(). */
	return atomic_load_explicit(&fired, memory_order_acquire);
}

unsigned long failing_calls(const char *only)
{
	unsigned long sum = 0;
	int i;

	for (i = 0; i < failing_functions; i++)
		if (!only || strcmp(names[i], only) == 0)
			sum += atomic_load_explicit(&calls[i],
			                            memory_order_relaxed);
	return sum;
}
