/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_VALUE_H
#define CLI_TRACE_VALUE_H

/*
 * Values of a dump, whose types and ranges are checked
 *
 * For each key the first wrong value is kept in words, and how many there are.  Strings
 * are returned without control characters.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "dump/flight.h"

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
 * has another type is wrong: the result is then NULL, @otherwise, or "". */
struct json_object *value_object(struct values *v, struct json_object *o,
                                 const char *key);
struct json_object *value_list(struct values *v, struct json_object *o,
                               const char *key);

/* Read an object that may be null. */
struct json_object *value_maybe(struct values *v, struct json_object *o,
                                const char *key);

/* Read a number from @least to @most; @most is at most VALUE_MOST. */
uint64_t value_uint(struct values *v, struct json_object *o, const char *key,
                    uint64_t least, uint64_t most, uint64_t otherwise);
int value_int(struct values *v, struct json_object *o, const char *key, int min,
              int max, int otherwise);

/* Read a truth value; false if it is wrong. */
bool value_bool(struct values *v, struct json_object *o, const char *key);

/* Read a count or a time; 0 if it is wrong. */
uint64_t value_count(struct values *v, struct json_object *o, const char *key);

/* Read a rank, at least @least, which is 0 or -1. -1 stands for no rank, and for a
 * wrong value. */
int value_rank(struct values *v, struct json_object *o, const char *key,
               int least);

/* Read a text into @to, cut to @size; returns @to. */
char *value_text(struct values *v, struct json_object *o, const char *key,
                 char *to, size_t size);

/* The same, but line feeds in the text remain. */
char *value_lines(struct values *v, struct json_object *o, const char *key,
                  char *to, size_t size);

/* Read a name; returns its number, or -1.  @name_of has the @n names, which are
 * names of @what. */
int value_name(struct values *v, struct json_object *o, const char *key,
               const char *(*name_of)(int), int n, const char *what);

/* Read member @i of a list that is called @key. */
struct json_object *value_object_at(struct values *v, struct json_object *list,
                                    const char *key, size_t i);
int value_int_at(struct values *v, struct json_object *list, const char *key,
                 size_t i, int min, int max, int otherwise);

/* Read an entry of a rank, to whose tags it may add.  False if a value that it
 * needs is wrong. */
bool trace_entry(struct values *v, struct flight_rank *rank,
                 struct json_object *o, struct flight_op *op);

#endif
