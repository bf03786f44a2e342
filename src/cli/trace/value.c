/* SPDX-License-Identifier: Apache-2.0 */

#ifdef HAVE_JSON_C

#include "cli/trace/value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/text.h"
#include "cli/common/cli.h"

typedef struct json_object object;

__attribute__((format(printf, 3, 4))) static void
wrong(struct values *v, const char *key, const char *format, ...)
{
	struct value_wrong *w = v->keys, *end = v->keys + v->n;
	va_list args;

	v->wrong++;
	while (w < end && strcmp(w->key, key) != 0)
		w++;
	if (w == v->keys + VALUE_KEYS)
		return;
	if (w->n++)
		return;
	v->n++;
	w->key = key;
	va_start(args, format);
	vsnprintf(w->text, sizeof(w->text), format, args);
	va_end(args);
}

static struct trace_text found(object *o)
{
	enum json_type type = json_object_get_type(o);
	struct trace_text f;
	char text[40];

	if (type == json_type_array)
		return (struct trace_text){ "an array" };
	if (type == json_type_object)
		return (struct trace_text){ "an object" };
	if (type == json_type_null)
		return (struct trace_text){ "null" };
	text_copy(text, sizeof(text), json_object_get_string(o));
	cli_sanitize(text);
	snprintf(f.at, sizeof(f.at),
	         type == json_type_string ? "the string \"%s\"" : "%s", text);
	return f;
}

static const char *wanted(enum json_type type)
{
	return type == json_type_array     ? "an array"
	       : type == json_type_object  ? "an object"
	       : type == json_type_string  ? "a string"
	       : type == json_type_boolean ? "true or false"
	                                   : "a whole number";
}

object *value_of(struct values *v, object *o, const char *key,
                 enum json_type type)
{
	object *value;

	if (!json_object_object_get_ex(o, key, &value))
		wrong(v, key, "\"%s\" is missing", key);
	else if (!json_object_is_type(value, type))
		wrong(v, key, "\"%s\" is %s, not %s", key, found(value).at,
		      wanted(type));
	else
		return value;
	return NULL;
}

bool value_is_null(object *o, const char *key)
{
	object *value;

	return json_object_object_get_ex(o, key, &value) && !value;
}

/* Return @value as a number. If it is NULL or out of range, return @otherwise.
 * Record a number out of range as wrong. */
static int64_t number(struct values *v, const char *key, object *value,
                      int64_t min, int64_t max, int64_t otherwise)
{
	/* If a number does not fit, json-c returns the nearest limit. */
	int64_t x = json_object_get_int64(value);

	if (!value)
		return otherwise;
	if (x >= min && x <= max)
		return x;
	wrong(v, key, "\"%s\" is %s, not from %" PRId64 " to %" PRId64, key,
	      found(value).at, min, max);
	return otherwise;
}

uint64_t value_uint(struct values *v, object *o, const char *key, uint64_t min,
                    uint64_t max, uint64_t otherwise)
{
	return (uint64_t)number(v, key, value_of(v, o, key, json_type_int),
	                        (int64_t)min, (int64_t)max, (int64_t)otherwise);
}

int value_int(struct values *v, object *o, const char *key, int min, int max,
              int otherwise)
{
	return (int)number(v, key, value_of(v, o, key, json_type_int), min, max,
	                   otherwise);
}

uint64_t value_count(struct values *v, object *o, const char *key)
{
	return value_uint(v, o, key, 0, VALUE_MOST, 0);
}

int value_rank(struct values *v, object *o, const char *key, int least)
{
	return value_int(v, o, key, least, COHORT_MAX_RANKS - 1, -1);
}

bool value_bool(struct values *v, object *o, const char *key)
{
	return json_object_get_boolean(value_of(v, o, key, json_type_boolean));
}

void value_text(struct values *v, object *o, const char *key, char *to,
                size_t size, bool has_lines)
{
	object *value = value_of(v, o, key, json_type_string);
	char *line, *end;

	text_copy(to, size, value ? json_object_get_string(value) : "");
	for (line = to; has_lines && (end = strchr(line, '\n'));
	     line = end + 1) {
		*end = '\0';
		cli_sanitize(line);
		*end = '\n';
	}
	cli_sanitize(line);
}

int value_name(struct values *v, object *o, const char *key,
               const char *(*name_of)(int), int n, const char *what)
{
	object *value = value_of(v, o, key, json_type_string);

	for (int i = 0; value && i < n; i++)
		if (strcmp(json_object_get_string(value), name_of(i)) == 0)
			return i;
	if (value)
		wrong(v, key, "\"%s\" is %s, which is not a %s", key,
		      found(value).at, what);
	return -1;
}

static object *value_at(struct values *v, object *list, const char *key,
                        size_t i, enum json_type type)
{
	object *value = json_object_array_get_idx(list, i);

	if (json_object_is_type(value, type))
		return value;
	wrong(v, key, "\"%s\" contains %s instead of %s", key, found(value).at,
	      wanted(type));
	return NULL;
}

object *value_next(struct values *v, object *list, const char *key, size_t *i)
{
	object *one = NULL;

	while (list && !one && *i < json_object_array_length(list))
		one = value_at(v, list, key, (*i)++, json_type_object);
	return one;
}

void value_ranks(struct values *v, object *o, const char *key, uint64_t *set)
{
	object *list = value_of(v, o, key, json_type_array);
	size_t i, n = list ? json_object_array_length(list) : 0;
	int64_t rank;

	for (i = 0; i < n; i++) {
		rank = number(v, key, value_at(v, list, key, i, json_type_int),
		              0, COHORT_MAX_RANKS - 1, -1);
		if (rank >= 0)
			rank_set_add(set, (int)rank);
	}
}

#endif
