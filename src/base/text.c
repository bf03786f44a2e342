/* SPDX-License-Identifier: Apache-2.0 */

#include "base/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* A word longer than this may be cut in the middle. */
#define LONGEST_WORD 24

char *text_cut(char *end)
{
	char *at = end - strlen(TEXT_CUT), *word = at, *character = at;

	while (word > at - LONGEST_WORD && *word != ' ')
		word--;
	/* Do not cut inside a UTF-8 character, which has at most three more
	 * bytes. */
	while (character > at - 3 && (*character & 0xc0) == 0x80)
		character--;
	at = *word == ' ' ? word : character;
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

void text_add_short(struct text *t, const char *from, size_t n, size_t most)
{
	const size_t room = most - strlen(TEXT_CUT);
	size_t kept = room;

	if (n <= most) {
		text_add(t, "%.*s", (int)n, from);
		return;
	}
	/* Do not cut inside a UTF-8 character, see text_cut(). */
	while (kept && kept + 3 > room && (from[kept] & 0xc0) == 0x80)
		kept--;
	text_add(t, "%.*s" TEXT_CUT, (int)kept, from);
}

void text_set(char *to, size_t room, const char *format, ...)
{
	struct text t = { to, room };
	va_list args;

	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
}

void text_append(char *to, size_t room, const char *format, ...)
{
	const size_t used = strlen(to);
	struct text t = { to + used, room - used };
	va_list args;

	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
}

/* The second byte reveals overlong forms, surrogates and values above
 * U+10FFFF. */
int text_character(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	int n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] >= 0x80 && (s[0] < 0xc2 || s[0] > 0xf4))
		return 0;
	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void text_replace_controls(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

void text_copy(char *to, size_t size, const char *from)
{
	size_t n = strnlen(from, size), back = 1;

	if (n == size) {
		n--;
		while (back < 4 && back <= n && (from[n - back] & 0xc0) == 0x80)
			back++;
		if (back <= n && text_character(from + n - back) > (int)back)
			n -= back;
	}
	memcpy(to, from, n);
	to[n] = '\0';
}

const char *text_retain(const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct retained {
		struct retained *next;
		char text[];
	} * all; /* guarded by lock */
	struct retained *r;

	pthread_mutex_lock(&lock);
	list_find(r, all, next, strcmp(r->text, text) == 0);
	if (!r && (r = malloc(sizeof(*r) + strlen(text) + 1))) {
		strcpy(r->text, text);
		list_add(all, r, next);
	}
	pthread_mutex_unlock(&lock);
	return r ? r->text : NULL;
}
