/* SPDX-License-Identifier: Apache-2.0 */

#include "support/witness.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "platform/platform.h"
#include "support/place.h"

static const struct platform *real;

static _Thread_local bool is_ignored;

static atomic_ulong calls;
static const char *_Atomic last = "none";

/*
 * Every thread of the library selects a device and sets its own capture mode
 * when it begins, which may be late on a busy machine.
 */
static bool is_of_begin(const char *name)
{
	static _Thread_local bool has_begun;

	if (has_begun)
		return false;
	has_begun = strcmp(name, "cudaThreadExchangeStreamCaptureMode") == 0;
	return has_begun || strcmp(name, "cudaSetDevice") == 0;
}

static void take_note(const char *name)
{
	if (is_ignored || is_of_begin(name))
		return;
	atomic_store(&last, name);
	atomic_fetch_add(&calls, 1);
}

#define WITNESS(since, result, name, parameters, arguments)                    \
	static result witness_##name parameters                                \
	{                                                                      \
		take_note(#name);                                              \
		return real->name arguments;                                   \
	}
NCCL_FUNCTIONS(WITNESS)
CUDA_FUNCTIONS(WITNESS)
#undef WITNESS

void witness_install(void)
{
	static struct platform table;

	real = place_table();
	table = *real;
#define WITNESS(since, result, name, parameters, arguments)                    \
	table.name = witness_##name;
	NCCL_FUNCTIONS(WITNESS)
	CUDA_FUNCTIONS(WITNESS)
#undef WITNESS
	platform_override(&table);
}

void witness_ignore(void)
{
	is_ignored = true;
}

unsigned long witness_calls(const char **last_out)
{
	*last_out = atomic_load(&last);
	return atomic_load(&calls);
}
