/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

/*
 * A writer of JSON, straight to a stream, or to a file of outfile.h, for which
 * it takes no lock and no memory
 *
 * The caller opens and closes what it writes in the right order; the writer
 * puts the commas and the escapes.  @key is the name of the member, or NULL
 * inside an array and at the top.  Output is always valid JSON: numbers that
 * JSON lacks are written as null, bytes that are not UTF-8 as U+FFFD.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct outfile;

struct json {
	FILE *out; /* one of the two */
	struct outfile *file;
	bool comma; /* before the next value */
	bool line;  /* the next value begins a line */
};

/* Begin a line with the next value, so that a reader can go on there after
 * damage. */
void json_line(struct json *json);

void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

/* NULL is written as null. */
void json_string(struct json *json, const char *key, const char *text);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_int(struct json *json, const char *key, int64_t value);
void json_uint(struct json *json, const char *key, uint64_t value);

/* Write @value / 10^@digits, to the last digit. */
void json_fixed(struct json *json, const char *key, uint64_t value, int digits);

/* Write as many digits as it takes to read back the same value. */
void json_float(struct json *json, const char *key, float value);
void json_double(struct json *json, const char *key, double value);

#endif
