/* SPDX-License-Identifier: Apache-2.0 */

/* Reads COHORT_HOST_STRICT, and ends the program if strict mode finds an
 * error */

#include "sim/strict/strict.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

atomic_bool strict_on;

void strict_die(const char *function, const char *which, const char *format,
                va_list args)
{
	static atomic_flag is_reported = ATOMIC_FLAG_INIT;
	char line[512], what[320];
	int n;

	/* If several threads find an error, only one of them prints a line. */
	while (atomic_flag_test_and_set(&is_reported))
		pause();
	vsnprintf(what, sizeof(what), format, args);
	n = snprintf(line, sizeof(line), "strict host platform: %s:%s %s\n",
	             function, which, what);
	/* Nothing more can be done if write() fails. */
	if (write(STDERR_FILENO, line, (size_t)n) != n)
		_exit(1);
	abort();
}

static void read_environment(void)
{
	const char *text = getenv("COHORT_HOST_STRICT");

	if (!text || !*text || strcmp(text, "0") == 0)
		return;
	store_relaxed(&strict_on, true);
}

void strict_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_environment);
}
