/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The gradients of bench average and bench overlap: the list of tensors, which
 * is read from a file, and their contents
 *
 * Each line of the file has name, shape and number of elements, separated by
 * tabs, such as "fc.weight 1000x2048 2048000". The shape is ignored. A line
 * that starts with # is a comment.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

#define MOST_VALUES (UINT64_C(1) << 40)
#define ALIGN 64

struct reader {
	const struct bench_options *options;
	struct bench_shapes *shapes;
	unsigned line;
};

#define COMPLAIN(r, format, ...)                                               \
	cli_fail("%s:%u: " format, (r)->options->shapes, (r)->line, __VA_ARGS__)

static bool read_count(const char *text, uint64_t *count_out)
{
	char *end;

	errno = 0;
	*count_out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *count_out &&
	       *count_out <= MOST_VALUES;
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
		return COMPLAIN(r, "more than %llu values in total",
		                (unsigned long long)MOST_VALUES);
	return CLI_OK;
}

static int read_line(struct reader *r, char *line)
{
	const char *shape;
	char *number;
	uint64_t count;

	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return CLI_OK;
	shape = strchr(line, '\t');
	number = shape ? strchr(shape + 1, '\t') : NULL;
	if (!number)
		return COMPLAIN(r,
		                "\"%s\" is not name, shape and count, "
		                "separated by tabs",
		                line);
	number++;
	number[strcspn(number, "\t")] = '\0';
	if (!read_count(number, &count))
		return COMPLAIN(r, "\"%s\" is not a count from 1 to %llu",
		                number, (unsigned long long)MOST_VALUES);
	return add(r, count);
}

static int read_all(struct reader *r, FILE *in)
{
	char *line = NULL;
	size_t room = 0;
	int status = CLI_OK;

	while (status == CLI_OK && getline(&line, &room, in) >= 0) {
		r->line++;
		status = read_line(r, line);
	}
	free(line);
	if (status == CLI_OK && ferror(in))
		return COMPLAIN(r, "%s", strerror(errno));
	return status;
}

int gradients_read(struct bench *b, size_t size)
{
	const struct bench_options *o = b->options;
	struct bench_shapes *s = &b->shapes;
	struct reader r = { .options = o, .shapes = s };
	FILE *in = fopen(o->shapes, "r");
	int status;

	if (!in)
		return cli_fail("%s: %s", o->shapes, strerror(errno));
	status = read_all(&r, in);
	fclose(in);
	if (status == CLI_OK && !s->n)
		return cli_fail(
			"%s: no tensors%s", o->shapes,
			o->max_count ? " of at most --max-count elements" : "");
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
