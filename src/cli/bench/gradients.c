/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The gradients of average and overlap: their list, which is read from a file,
 * and what is in them
 *
 * Each line of the file has name, shape and number of elements, separated by
 * tabs, as "fc.weight 1000x2048 2048000"; a line that begins with # is a
 * comment.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

#define MOST_VALUES (UINT64_C(1) << 40)
#define LINE_ROOM 1024
#define ALIGN 64

/* The state of reading a list. */
struct reader {
	const struct bench_options *options;
	struct bench_shapes *shapes;
	unsigned line;
};

#define COMPLAIN(r, format, ...)                                               \
	(cli_complain((r)->options->operation->command, "%s:%u: " format,      \
	              (r)->options->shapes, (r)->line, __VA_ARGS__),           \
	 CLI_FAILED)

/* Read a number of at least 1.  Returns what follows it, or NULL if there is
 * none. */
static const char *read_number(const char *text, uint64_t *value_out)
{
	char *end;

	errno = 0;
	*value_out = strtoull(text, &end, 10);
	return *text < '0' || *text > '9' || errno || !*value_out ||
	                       *value_out > MOST_VALUES
	               ? NULL
	               : end;
}

/* Multiply the numbers of a shape such as "64x3x7x7". */
static bool read_shape(const char *text, uint64_t *values_out)
{
	uint64_t side;

	for (*values_out = 1; (text = read_number(text, &side)); text++) {
		if (side > MOST_VALUES / *values_out)
			return false;
		*values_out *= side;
		if (*text != 'x')
			return !*text;
	}
	return false;
}

static int add(struct reader *r, uint64_t count)
{
	struct bench_shapes *s = r->shapes;

	if (r->options->max_count && count > r->options->max_count)
		return CLI_OK;
	s->all = bench_grow(s->all, s->n, sizeof(*s->all));
	s->all[s->n++] = (struct bench_shape){ .count = count };
	s->values += count;
	s->most = MAX(s->most, count);
	if (s->values > MOST_VALUES)
		return COMPLAIN(r, "more than %llu values in all",
		                (unsigned long long)MOST_VALUES);
	return CLI_OK;
}

static int read_line(struct reader *r, char *line)
{
	uint64_t product, count;
	char *shape, *number;
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
	*shape++ = *number++ = '\0';
	number[strcspn(number, "\t")] = '\0';
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
	return add(r, count);
}

static int read_all(struct reader *r, FILE *in)
{
	char line[LINE_ROOM];
	int status = CLI_OK;

	while (status == CLI_OK && fgets(line, sizeof(line), in)) {
		r->line++;
		if (!strchr(line, '\n') && !feof(in))
			return COMPLAIN(r, "more than %d characters",
			                LINE_ROOM - 2);
		status = read_line(r, line);
	}
	if (status == CLI_OK && ferror(in))
		return COMPLAIN(r, "%s", strerror(errno));
	return status;
}

int gradients_read(struct bench *b, size_t size)
{
	const struct bench_options *o = b->options;
	const char *command = o->operation->command;
	struct bench_shapes *s = &b->shapes;
	struct reader r = { .options = o, .shapes = s };
	FILE *in = fopen(o->shapes, "r");
	int status;

	if (!in) {
		cli_complain(command, "%s: %s", o->shapes, strerror(errno));
		return CLI_FAILED;
	}
	status = read_all(&r, in);
	fclose(in);
	if (status == CLI_OK && !s->n) {
		cli_complain(command, "%s: no tensors%s", o->shapes,
		             o->max_count ? " with so few elements" : "");
		return CLI_FAILED;
	}
	for (size_t i = 0; i < s->n; i++) {
		s->all[i].at = s->room;
		s->room += (s->all[i].count * size + ALIGN - 1) / ALIGN * ALIGN;
	}
	return status;
}

bool gradients_place(struct lane *l,
                     char *(*place)(struct lane *lane, size_t i))
{
	const struct bench_options *o = l->bench->options;
	const struct bench_shapes *s = &l->bench->shapes;

	l->tensors = calloc(s->n, sizeof(*l->tensors));
	if (!l->tensors)
		return lane_fail(l, "gradients", "out of memory");
	for (size_t i = 0; i < s->n; i++) {
		char *at = place(l, i);

		l->tensors[i] = (struct cohort_tensor){ at, at, s->all[i].count,
			                                o->type };
	}
	pattern_of_rank(&l->pattern, o->type, o->op, l->rank, o->ranks);
	pattern_of_fold(&l->expected, o->type, o->op, o->ranks);
	return true;
}

bool gradients_rewrite(struct lane *l)
{
	for (size_t i = 0; i < l->bench->shapes.n; i++) {
		const struct cohort_tensor *t = &l->tensors[i];
		char *at = lane_host(l, t->recv);

		pattern_put(&l->pattern, at, t->count);
		if (!lane_copy(l, t->recv, at, t->count * l->pattern.size))
			return false;
	}
	return true;
}

bool gradients_compare(struct lane *l)
{
	for (size_t i = 0; i < l->bench->shapes.n; i++) {
		const struct cohort_tensor *t = &l->tensors[i];
		char *at = lane_host(l, t->recv);

		if (!lane_copy(l, at, t->recv, t->count * l->pattern.size))
			return false;
		lane_add_wrong(l, pattern_wrong(&l->expected, at, 0, t->count));
	}
	return true;
}
