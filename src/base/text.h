/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

/*
 * Strings of bounded length, built piece by piece; a string that does not fit
 * is truncated and ends with "..."
 *
 *	char buffer[100];
 *	struct text t = { buffer, sizeof(buffer) };
 *	text_add(&t, "%d", 1);
 */

#include <stdarg.h>
#include <stddef.h>

/* Suffix of a truncated text.  It follows a whole word if one ends nearby. */
#define TEXT_CUT "..."

/* Smallest allowed size of a buffer. */
#define TEXT_LEAST 32

struct text {
	char *at;
	size_t room; /* including the zero; 0 once the text was cut */
};

/* A text that discards everything that is added. */
#define TEXT_NONE                                                              \
	{                                                                      \
		.room = 0                                                      \
	}

void text_add(struct text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void text_vadd(struct text *t, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/* Add the @n bytes at @from, truncated to @most bytes including TEXT_CUT, which
 * must fit.  Does not split a UTF-8 character. */
void text_add_short(struct text *t, const char *from, size_t n, size_t most);

void text_set(char *to, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Append a piece to the text in the buffer of @room bytes at @to. */
void text_append(char *to, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Replace the last bytes of a text that fills its buffer with TEXT_CUT.  @end
 * is the address of the terminating zero.  Return the new end.
 * Async-signal-safe. */
char *text_cut(char *end);

/* Return the length in bytes of the UTF-8 character at @text, or 0 if there is
 * no valid one. */
int text_character(const char *text);

/* Replacement for invalid bytes in a text that must be UTF-8. */
#define TEXT_NO_CHARACTER "\xef\xbf\xbd" /* U+FFFD */

/* Replace control characters, which would end a line or control a terminal,
 * with "?". */
void text_replace_controls(char *text);

/* Copy @from to the @size bytes at @to, truncated between two UTF-8 characters
 * if it does not fit. */
void text_copy(char *to, size_t size, const char *from);

/* Return a permanent copy of @text, shared by all equal texts; NULL if there is
 * no memory. */
const char *text_retain(const char *text);

#endif
