/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_VALUE_H
#define CLI_TRACE_VALUE_H

/*
 * The JSON of a dump: values, whose types and ranges are checked, and what is
 * made of them
 *
 * For each key the first wrong value is kept in words, and how many there are.
 * Strings are returned without control characters.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/trace/trace.h"

/* The most keys that are kept apart; wrong values of further keys are only
 * counted. */
#define VALUE_KEYS 16

/* The greatest time or count: sums and differences of two do not overflow. */
#define VALUE_MOST ((uint64_t)INT64_MAX - 1)

struct value_wrong {
	const char *key;
	size_t n;
	char text[160]; /* about the first wrong value */
};

struct values {
	size_t wrong; /* in total */
	int n;
	struct value_wrong keys[VALUE_KEYS];
};

/* The functions below read values of the object @o.  A value that is missing or
 * has another type is wrong: the result is then NULL, @otherwise, "", false, or
 * 0. */
struct json_object *value_of(struct values *v, struct json_object *o,
                             const char *key, enum json_type type);

/* True if the value is there, and is null. */
bool value_is_null(struct json_object *o, const char *key);

/* Read a number from @min to @max; @max is at most VALUE_MOST. */
uint64_t value_uint(struct values *v, struct json_object *o, const char *key,
                    uint64_t min, uint64_t max, uint64_t otherwise);
int value_int(struct values *v, struct json_object *o, const char *key, int min,
              int max, int otherwise);

/* Read a count or a time. */
uint64_t value_count(struct values *v, struct json_object *o, const char *key);

/* Read a rank, at least @least, which is 0 or -1. -1 stands for no rank, and
 * for a wrong value. */
int value_rank(struct values *v, struct json_object *o, const char *key,
               int least);

bool value_bool(struct values *v, struct json_object *o, const char *key);

/* Read a text into @to, cut to @size.  Line feeds remain if @has_lines. */
void value_text(struct values *v, struct json_object *o, const char *key,
                char *to, size_t size, bool has_lines);

/* Read a name; returns its number, or -1.  @name_of has the @n names, which are
 * names of @what. */
int value_name(struct values *v, struct json_object *o, const char *key,
               const char *(*name_of)(int), int n, const char *what);

/* Add the ranks in a list to @set. */
void value_ranks(struct values *v, struct json_object *o, const char *key,
                 uint64_t *set);

/* Return the next object in a list that is called @key, from index *@i on,
 * which is advanced; NULL at the end.  @list may be NULL. */
struct json_object *value_next(struct values *v, struct json_object *list,
                               const char *key, size_t *i);

/* ---- parse.c ---------------------------------------------------------- */

/* Read the facts at the head of a dump; those that are unknown are 0 or
 * empty. */
void parse_facts(struct values *v, struct json_object *o, struct flight *f);

/* Read the stacks at the head of a dump of @process. */
void parse_stacks(struct values *v, struct json_object *o, const char *process,
                  struct trace_stacks *stacks);

/* Read the head of a rank, without its number. */
struct flight_rank parse_rank(struct values *v, struct json_object *o);

/* Read an entry of a rank, to whose tags it may add.  False if a value that it
 * needs is wrong. */
bool parse_entry(struct values *v, struct flight_rank *rank,
                 struct json_object *o, struct flight_op *op);

#endif
