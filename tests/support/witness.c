/* SPDX-License-Identifier: Apache-2.0 */

#include "support/witness.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "support/observe.h"
#include "support/place.h"

static _Thread_local bool is_ignored;

static atomic_ulong calls;
static const char *_Atomic last = "none";

/*
 * Return whether @name is one of the calls that every library thread makes
 * first, to select a device and to set its capture mode. On a busy machine, a
 * thread may make these calls late.
 */
static bool is_of_begin(const char *name)
{
	static _Thread_local bool has_begun;

	if (has_begun)
		return false;
	has_begun = strcmp(name, "cudaThreadExchangeStreamCaptureMode") == 0;
	return has_begun || strcmp(name, "cudaSetDevice") == 0;
}

static void record_call(const char *name)
{
	if (is_ignored || is_of_begin(name))
		return;
	atomic_store(&last, name);
	atomic_fetch_add(&calls, 1);
}

void witness_install(void)
{
	observe_install(place_table(), record_call);
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
