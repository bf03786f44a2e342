/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

/*
 * Text of bounded length, put together piece by piece; what does not fit is cut
 * off, which the end of the text then says: "..."
 *
 *	char buffer[100];
 *	struct text t = { buffer, sizeof(buffer) };
 *	text_add(&t, "%d", 1);
 */

#include <stdarg.h>
#include <stddef.h>

/* The end of a text that was cut, after a whole word if one ends nearby. */
#define TEXT_CUT "..."

/* The smallest size of a buffer. */
#define TEXT_LEAST 32

struct text {
	char *at;
	size_t room; /* with the zero; 0: it was cut, and takes no more */
};

void text_add(struct text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void text_vadd(struct text *t, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

/* Add the @n bytes at @from or, if these are more than @most, as many whole
 * characters as leave room for TEXT_CUT, and that.  @most is at least the
 * length of TEXT_CUT. */
void text_add_short(struct text *t, const char *from, size_t n, size_t most);

/* Set a text of one piece. */
void text_set(char *to, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Add a piece to the text in the @room bytes at @to. */
void text_append(char *to, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Cut a text that fills its buffer up to @end, the place of its zero; returns
 * its new end.  A signal handler may call this. */
char *text_cut(char *end);

/* How many bytes the UTF-8 character at @text has; 0: there is none. */
int text_character(const char *text);

/* Replaces a byte that is not part of a character where text must be UTF-8. */
#define TEXT_NO_CHARACTER "\xef\xbf\xbd" /* U+FFFD */

/* Replace control characters, which end a line or drive a terminal, by "?". */
void text_make_plain(char *text);

/* Copy @from to the @size bytes at @to; what does not fit is cut off between
 * two characters. */
void text_copy(char *to, size_t size, const char *from);

/* Return a copy that is never freed, one for all equal texts; NULL if there is
 * no memory. */
const char *text_retain(const char *text);

#endif
