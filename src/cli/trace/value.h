/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_VALUE_H
#define CLI_TRACE_VALUE_H

/*
 * Values of a dump, each looked at for its type and range before it is taken
 *
 * What is wrong with a file's values is kept: the first wrong value of each key in
 * words, and how many more there are.  Strings come without control characters.
 */

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "dump/flight.h"

/* Keys that are told apart; what is wrong with more is only counted. */
#define VALUE_KEYS 16

/* The most that a time or a count may be: differences and sums of two of them do not
 * overflow. */
#define VALUE_MOST ((uint64_t)INT64_MAX - 1)

struct value_wrong {
	const char *key;
	size_t n;
	char text[160]; /* of the first */
};

struct values {
	size_t wrong; /* in all */
	int n;
	struct value_wrong keys[VALUE_KEYS];
};

/* The values below are those of @o, an object.  What is missing or of another type is
 * wrong: then they answer NULL, @otherwise, or "". */
struct json_object *value_object(struct values *v, struct json_object *o,
                                 const char *key);
struct json_object *value_list(struct values *v, struct json_object *o,
                               const char *key);

/* The same for an object that may be null. */
struct json_object *value_maybe(struct values *v, struct json_object *o,
                                const char *key);

/* From @least to @most, which is at most VALUE_MOST. */
uint64_t value_uint(struct values *v, struct json_object *o, const char *key,
                    uint64_t least, uint64_t most, uint64_t otherwise);
int value_int(struct values *v, struct json_object *o, const char *key, int min,
              int max, int otherwise);

/* A count or a time; 0 if it is wrong. */
uint64_t value_count(struct values *v, struct json_object *o, const char *key);

/* A rank from @least, 0 or -1, which is nobody and also what it is if it is wrong. */
int value_rank(struct values *v, struct json_object *o, const char *key,
               int least);

/* Into @to, cut to its @size; answers @to. */
char *value_text(struct values *v, struct json_object *o, const char *key,
                 char *to, size_t size);

/* The number of a name, of @n that @name_of tells, which are @what. */
int value_name(struct values *v, struct json_object *o, const char *key,
               const char *(*name_of)(int), int n, const char *what);

/* Members of a list, which is called @key. */
struct json_object *value_object_at(struct values *v, struct json_object *list,
                                    const char *key, size_t i);
int value_int_at(struct values *v, struct json_object *list, const char *key,
                 size_t i, int min, int max, int otherwise);

/* An entry of a rank, whose tags it adds to.  False if any value that it needs is
 * wrong, so that it cannot be told what was called when. */
bool trace_entry(struct values *v, struct flight_rank *rank,
                 struct json_object *o, struct flight_op *op);

#endif
