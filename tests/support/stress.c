/* SPDX-License-Identifier: Apache-2.0 */

#include "support/stress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

/* Return whether @text is a number of rounds ("2000r") and not of seconds
 * ("2"). */
static bool wants_rounds(const char *text)
{
	return text[strspn(text, "0123456789")] == 'r';
}

bool stress_continue(int argc, char **argv)
{
	static uint64_t end, rounds;
	const char *much = argc > 1 ? argv[1] : "1";

	if (wants_rounds(much))
		return rounds++ < strtoull(much, NULL, 10);
	if (end)
		return clock_now() < end;
	end = clock_now() + (uint64_t)(atof(much) * (double)NS_PER_S);
	return true;
}

uint32_t stress_random(uint64_t *state)
{
	return (uint32_t)(random_next(state) >> 32);
}

void stress_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stdout, format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	_exit(1);
}

void stress_spin(uint32_t n)
{
	while (n--)
		__asm__ volatile("");
}
