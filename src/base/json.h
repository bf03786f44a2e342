/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

/*
 * Write JSON to a stream or to a file (outfile.h)
 *
 * The caller opens and closes brackets in the right order; the writer adds
 * commas and escapes.  @key is the name of the member, or NULL inside an array
 * and at the top level.  The output is always valid JSON: infinities and NaNs
 * become null, and bytes that are not UTF-8 become U+FFFD.  Writing to a file
 * takes no lock and allocates no memory.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct outfile;

struct json {
	FILE *out; /* exactly one of @out and @file is set */
	struct outfile *file;
	bool comma; /* a comma precedes the next value */
	bool line;  /* a line break precedes the next value */
};

/* Start a new line before the next value, so that a reader of a damaged file
 * can resume at the next line. */
void json_line(struct json *json);

void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

/* Write a string; NULL is written as null. */
void json_string(struct json *json, const char *key, const char *text);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_int(struct json *json, const char *key, int64_t value);
void json_uint(struct json *json, const char *key, uint64_t value);

/* Write @value / 10^@digits exactly. */
void json_fixed(struct json *json, const char *key, uint64_t value, int digits);

/* Write a number with just enough digits to read back the same value. */
void json_double(struct json *json, const char *key, double value);

#endif
