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

/* Every thread of the library sets its own mode once, when it begins. */
static bool is_of_begin(const char *name)
{
	return strcmp(name, "cudaThreadExchangeStreamCaptureMode") == 0;
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
