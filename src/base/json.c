/* SPDX-License-Identifier: Apache-2.0 */

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "base/text.h"

static void write_bytes(struct json *json, const char *bytes, size_t n)
{
	if (json->file)
		outfile_put(json->file, bytes, n);
	else
		fwrite(bytes, 1, n, json->out);
}

static void put_char(struct json *json, char c)
{
	struct outfile *f = json->file;

	if (f && f->used < f->size)
		f->buffer[f->used++] = c;
	else
		write_bytes(json, &c, 1);
}

/* Return true if the byte needs no escape. */
static bool is_plain(unsigned char c)
{
	static const bool plain[256] = {
		[0x20 ... '"' - 1] = true,
		['"' + 1 ... '\\' - 1] = true,
		['\\' + 1 ... 0x7e] = true,
	};

	return plain[c];
}

/* Write the character of @n bytes at @s, escaped if necessary.  If @n is 0, the
 * byte at @s is not valid UTF-8, so write U+FFFD. */
static void put_special(struct json *json, const unsigned char *s, int n)
{
	static const char digits[] = "0123456789abcdef";

	if (n == 0) {
		write_bytes(json, "\\ufffd", 6);
	} else if (*s < 0x20 || *s == 0x7f) {
		write_bytes(json, "\\u00", 4);
		put_char(json, digits[*s >> 4]);
		put_char(json, digits[*s & 15]);
	} else {
		if (*s == '"' || *s == '\\')
			put_char(json, '\\');
		write_bytes(json, (const char *)s, (size_t)n);
	}
}

static void put_text(struct json *json, const char *text)
{
	const unsigned char *s = (const unsigned char *)text, *from;
	int n;

	put_char(json, '"');
	while (*s) {
		for (from = s; is_plain(*s);)
			s++;
		write_bytes(json, (const char *)from, (size_t)(s - from));
		if (!*s)
			break;
		n = text_character((const char *)s);
		put_special(json, s, n);
		s += n ? n : 1;
	}
	put_char(json, '"');
}

static void begin(struct json *json, const char *key)
{
	if (json->comma)
		put_char(json, ',');
	if (json->line)
		put_char(json, '\n');
	json->comma = true;
	json->line = false;
	if (!key)
		return;
	put_text(json, key);
	put_char(json, ':');
}

void json_line(struct json *json)
{
	json->line = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
	begin(json, key);
	put_char(json, bracket);
	json->comma = false;
}

void json_close(struct json *json, char bracket)
{
	if (json->line)
		put_char(json, '\n');
	put_char(json, bracket);
	json->comma = true;
	json->line = false;
}

static void put_raw(struct json *json, const char *key, const char *text)
{
	begin(json, key);
	write_bytes(json, text, strlen(text));
}

void json_string(struct json *json, const char *key, const char *text)
{
	if (!text) {
		json_null(json, key);
		return;
	}
	begin(json, key);
	put_text(json, text);
}

void json_bool(struct json *json, const char *key, bool value)
{
	put_raw(json, key, value ? "true" : "false");
}

void json_null(struct json *json, const char *key)
{
	put_raw(json, key, "null");
}

/* Write a number with a decimal point before its last @digits digits, or
 * without a point if @digits is 0.  printf() would be too slow, because a dump
 * has millions of numbers. */
static void put_number(struct json *json, const char *key, uint64_t value,
                       bool is_negative, int digits)
{
	char text[48], *end = text + sizeof(text), *at = end;
	bool has_point = digits;

	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
		if (has_point && --digits == 0)
			*--at = '.';
	} while (value || (has_point && digits >= 0));
	if (is_negative)
		*--at = '-';
	begin(json, key);
	write_bytes(json, at, (size_t)(end - at));
}

void json_int(struct json *json, const char *key, int64_t value)
{
	bool is_negative = value < 0;

	put_number(json, key, is_negative ? -(uint64_t)value : (uint64_t)value,
	           is_negative, 0);
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
	put_number(json, key, value, false, 0);
}

void json_fixed(struct json *json, const char *key, uint64_t value, int digits)
{
	put_number(json, key, value, false, digits);
}

void json_double(struct json *json, const char *key, double value)
{
	char text[32] = "null";

	for (int digits = 1; isfinite(value) && digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	put_raw(json, key, text);
}
