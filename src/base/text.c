/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void text_add(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, t->room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= t->room)
		n = t->room ? (int)t->room - 1 : 0;
	t->at += n;
	t->room -= (size_t)n;
}
