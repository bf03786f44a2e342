/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

/*
 * Text of bounded length, put together piece by piece; what does not fit is cut
 * off
 *
 *	char buffer[100];
 *	struct text t = { buffer, sizeof(buffer) };
 *	text_add(&t, "%d", 1);
 */

#include <stddef.h>

struct text {
	char *at;
	size_t room;
};

void text_add(struct text *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
