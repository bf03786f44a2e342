/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads a list of tensors: each line has name, shape and number of elements,
 * separated by tabs, as "fc.weight 1000x2048 2048000"; a line that begins with # is a
 * comment
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/average.h"
#include "cli/common/cli.h"

#define MOST_VALUES (UINT64_C(1) << 40)
#define LINE_ROOM 1024
#define ALIGN 64

/* The state of reading a list. */
struct reader {
	const char *command; /* named in complaints */
	const char *file;
	unsigned line;
	struct average_shapes *shapes;
	size_t room;
};

#define COMPLAIN(r, format, ...)                                               \
	(cli_complain((r)->command, "%s:%u: " format, (r)->file, (r)->line,    \
	              __VA_ARGS__),                                            \
	 CLI_FAILED)

/* Read a number of at least 1.  Returns what follows it, or NULL if there is none. */
static const char *read_number(const char *text, uint64_t *value_out)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno || !value ||
	    value > MOST_VALUES)
		return NULL;
	*value_out = value;
	return end;
}

/* Multiply the numbers of a shape such as "64x3x7x7". */
static bool read_shape(const char *text, uint64_t *values_out)
{
	uint64_t product = 1, side;

	for (;;) {
		text = read_number(text, &side);
		if (!text || side > MOST_VALUES / product)
			return false;
		product *= side;
		if (!*text) {
			*values_out = product;
			return true;
		}
		if (*text++ != 'x')
			return false;
	}
}

static int add(struct reader *r, uint64_t count)
{
	struct average_shapes *s = r->shapes;
	struct average_shape *all = s->all;

	if (s->n == r->room) {
		r->room = r->room ? 2 * r->room : 64;
		all = realloc(all, r->room * sizeof(*all));
		if (!all) {
			cli_complain(r->command, "out of memory");
			return CLI_FAILED;
		}
		s->all = all;
	}
	s->all[s->n++] = (struct average_shape){ .count = count };
	s->values += count;
	if (s->values > MOST_VALUES)
		return COMPLAIN(r, "more than %llu values in all",
		                (unsigned long long)MOST_VALUES);
	return CLI_OK;
}

static int read_line(struct reader *r, char *line, uint64_t max_count)
{
	uint64_t product, count;
	char *shape, *number, *more;
	const char *end;

	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return CLI_OK;
	shape = strchr(line, '\t');
	number = shape ? strchr(shape + 1, '\t') : NULL;
	if (!number)
		return COMPLAIN(r,
		                "'%s': not name, shape and count with tabs "
		                "between",
		                line);
	more = strchr(number + 1, '\t');
	if (more)
		*more = '\0';
	*shape++ = *number++ = '\0';
	if (!read_shape(shape, &product))
		return COMPLAIN(r, "'%s': not a shape, such as 64x3x7x7",
		                shape);
	end = read_number(number, &count);
	if (!end || *end)
		return COMPLAIN(r, "'%s': not a count from 1 to %llu", number,
		                (unsigned long long)MOST_VALUES);
	if (product != count)
		return COMPLAIN(r, "%s has %llu values, not %llu", shape,
		                (unsigned long long)product,
		                (unsigned long long)count);
	return max_count && count > max_count ? CLI_OK : add(r, count);
}

static int read_all(struct reader *r, FILE *in, uint64_t max_count)
{
	char line[LINE_ROOM];
	int status = CLI_OK;

	while (status == CLI_OK && fgets(line, sizeof(line), in)) {
		r->line++;
		if (!strchr(line, '\n') && !feof(in))
			return COMPLAIN(r, "more than %d characters",
			                LINE_ROOM - 2);
		status = read_line(r, line, max_count);
	}
	if (status == CLI_OK && ferror(in)) {
		cli_complain(r->command, "%s: %s", r->file, strerror(errno));
		return CLI_FAILED;
	}
	return status;
}

int average_read(const char *command, const char *file, size_t size,
                 uint64_t max_count, struct average_shapes *shapes,
                 size_t *room_out)
{
	struct reader r = { .command = command,
		            .file = file,
		            .shapes = shapes };
	FILE *in = fopen(file, "r");
	size_t i, room = 0;
	int status;

	if (!in) {
		cli_complain(command, "%s: %s", file, strerror(errno));
		return CLI_FAILED;
	}
	status = read_all(&r, in, max_count);
	fclose(in);
	if (status == CLI_OK && !shapes->n) {
		cli_complain(command, "%s: no tensors%s", file,
		             max_count ? " with so few elements" : "");
		return CLI_FAILED;
	}
	for (i = 0; i < shapes->n; i++) {
		shapes->all[i].at = room;
		room += (shapes->all[i].count * size + ALIGN - 1) / ALIGN *
		        ALIGN;
	}
	*room_out = room;
	return status;
}
