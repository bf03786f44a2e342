/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Files as text, and text as JSON
 */

#ifdef HAVE_JSON_C

#include "cli/trace/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct json_object object;

/* A larger file is not read. */
#define FILE_MOST ((size_t)1 << 30)

/* Open without waiting for the writer of a FIFO, which counts as empty. */
static int open_file(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

/* A disk that lost power may leave zero bytes in a file: they must not end the text. */
static void replace_zeros(char *text, size_t n)
{
	char *zero;

	while ((zero = memchr(text, '\0', n))) {
		*zero = '\1';
		n -= (size_t)(zero + 1 - text);
		text = zero + 1;
	}
}

char *trace_load(const char *file, size_t *n_out)
{
	size_t n = 0, room = 1 << 16;
	int fd = open_file(file), err;
	ssize_t got;
	char *text;

	if (fd < 0)
		return NULL;
	text = trace_need(malloc(room + 1));
	do {
		if (n == room) {
			room *= 2;
			text = trace_need(realloc(text, room + 1));
		}
		got = read(fd, text + n, room - n);
		n += got > 0 ? (size_t)got : 0;
	} while ((got > 0 && n < FILE_MOST) || (got < 0 && errno == EINTR));
	err = got < 0 ? errno : got ? EFBIG : 0;
	close(fd);
	if (err) {
		free(text);
		errno = err;
		return NULL;
	}
	text[n] = '\0';
	replace_zeros(text, n);
	*n_out = n;
	return text;
}

object *trace_parse(const char *text, size_t n, const char **rest_out)
{
	json_tokener *tokener = trace_need(json_tokener_new());
	object *o = json_tokener_parse_ex(tokener, text, (int)n + 1);
	size_t end = json_tokener_get_parse_end(tokener);

	*rest_out = text + (end < n ? end : n);
	json_tokener_free(tokener);
	return o;
}

object *trace_parse_line(const char *line, const char *end)
{
	size_t n = strlen(line);
	char *text = trace_need(malloc(n + strlen(end) + 1));
	const char *rest;
	object *o;

	strcpy(text, line);
	if (!*end && n && text[n - 1] == ',')
		text[n - 1] = '\0';
	strcat(text, end);
	o = trace_parse(text, strlen(text), &rest);
	if (!json_object_is_type(o, json_type_object) || *rest) {
		json_object_put(o);
		o = NULL;
	}
	free(text);
	return o;
}

#endif
