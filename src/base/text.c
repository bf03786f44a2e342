/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* A longer word is cut itself. */
#define LONGEST_WORD 24

char *text_cut(char *end)
{
	char *at = end - strlen(TEXT_CUT), *word = at;

	while (word > at - LONGEST_WORD && *word != ' ')
		word--;
	if (*word == ' ')
		at = word;
	else /* not inside a character of UTF-8 */
		while ((*at & 0xc0) == 0x80)
			at--;
	memcpy(at, TEXT_CUT, sizeof(TEXT_CUT));
	return at + strlen(TEXT_CUT);
}

void text_vadd(struct text *t, const char *format, va_list args)
{
	int n = vsnprintf(t->at, t->room, format, args);

	if (n >= 0 && (size_t)n < t->room) {
		t->at += n;
		t->room -= (size_t)n;
	} else if (t->room) {
		t->at = text_cut(t->at + t->room - 1);
		t->room = 0;
	}
}

void text_add(struct text *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_vadd(t, format, args);
	va_end(args);
}

void text_set(char *to, size_t room, const char *format, ...)
{
	struct text t = { to, room };
	va_list args;

	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
}
