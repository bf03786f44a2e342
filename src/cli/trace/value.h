/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_VALUE_H
#define CLI_TRACE_VALUE_H

/*
 * Functions that read values and objects from the JSON of a dump, and check
 * types and ranges
 *
 * For each key, the first wrong value is described, and all wrong values are
 * counted. Strings are returned without control characters.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/trace/trace.h"

/* Largest number of keys whose wrong values are described */
#define VALUE_KEYS 16

/* Largest time or count. The sum or difference of two of these does not
 * overflow. */
#define VALUE_MOST ((uint64_t)INT64_MAX - 1)

struct value_wrong {
	const char *key;
	size_t n;
	char text[160]; /* description of the first wrong value */
};

struct values {
	size_t wrong; /* total number of wrong values */
	int n;
	struct value_wrong keys[VALUE_KEYS];
};

/* Read a value of the object @o. The functions below do this for one type each.
 * If the value is missing or has the wrong type, it is recorded as wrong, and
 * the result is NULL, @otherwise, "", false or 0. */
struct json_object *value_of(struct values *v, struct json_object *o,
                             const char *key, enum json_type type);

bool value_is_null(struct json_object *o, const char *key);

/* Read a number from @min to @max. @max is at most VALUE_MOST. */
uint64_t value_uint(struct values *v, struct json_object *o, const char *key,
                    uint64_t min, uint64_t max, uint64_t otherwise);
int value_int(struct values *v, struct json_object *o, const char *key, int min,
              int max, int otherwise);

/* Read a count or a time. */
uint64_t value_count(struct values *v, struct json_object *o, const char *key);

/* Read a rank of at least @least, which is 0 or -1. Return -1 for no rank and
 * for a wrong value. */
int value_rank(struct values *v, struct json_object *o, const char *key,
               int least);

bool value_bool(struct values *v, struct json_object *o, const char *key);

/* Read a text into @to, truncated to @size bytes. Keep line feeds if @has_lines
 * is true. */
void value_text(struct values *v, struct json_object *o, const char *key,
                char *to, size_t size, bool has_lines);

/* Read a name. Return its number, or -1. @name_of returns the @n names, and
 * @what describes them in errors. */
int value_name(struct values *v, struct json_object *o, const char *key,
               const char *(*name_of)(int), int n, const char *what);
void value_ranks(struct values *v, struct json_object *o, const char *key,
                 uint64_t *set);

/* Return the next object in @list at or after index *@i, and advance *@i.
 * Return NULL at the end. @key is the name of the list; @list may be NULL. */
struct json_object *value_next(struct values *v, struct json_object *list,
                               const char *key, size_t *i);

/* ---- parse.c ---------------------------------------------------------- */

/* Read the facts in the head of a dump. Unknown facts are 0 or empty. */
void parse_facts(struct values *v, struct json_object *o, struct flight *f);

/* Read the stacks in the head of a dump of @process. */
void parse_stacks(struct values *v, struct json_object *o, const char *process,
                  struct trace_stacks *stacks);

/* Read the members of a rank but its number and its entries. */
struct flight_rank parse_rank(struct values *v, struct json_object *o);

/* Read an entry of a rank, and add its tag and label to the rank's tags. Return
 * false if a value that the entry needs is wrong. */
bool parse_entry(struct values *v, struct flight_rank *rank,
                 struct json_object *o, struct flight_op *op);

#endif
