/* SPDX-License-Identifier: Apache-2.0 */

/* JSON writer, see json.h. */

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/outfile.h"
#include "base/text.h"

static void put(struct json *json, const char *bytes, size_t n)
{
	if (json->file)
		outfile_put(json->file, bytes, n);
	else
		fwrite(bytes, 1, n, json->out);
}

static void put_char(struct json *json, char c)
{
	put(json, &c, 1);
}

/* True if the byte stands for itself. */
static bool is_plain(unsigned char c)
{
	static const bool plain[256] = {
		[0x20 ... '"' - 1] = true,
		['"' + 1 ... '\\' - 1] = true,
		['\\' + 1 ... 0x7e] = true,
	};

	return plain[c];
}

/* Write the character of @n bytes at @s, escaped if need be; 0: it is not a
 * character. */
static void put_special(struct json *json, const unsigned char *s, int n)
{
	static const char digits[] = "0123456789abcdef";

	if (n == 0) {
		put(json, "\\ufffd", 6);
	} else if (*s < 0x20 || *s == 0x7f) {
		put(json, "\\u00", 4);
		put_char(json, digits[*s >> 4]);
		put_char(json, digits[*s & 15]);
	} else {
		if (*s == '"' || *s == '\\')
			put_char(json, '\\');
		put(json, (const char *)s, (size_t)n);
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
		put(json, (const char *)from, (size_t)(s - from));
		if (!*s)
			break;
		n = text_character((const char *)s);
		put_special(json, s, n);
		s += n ? n : 1;
	}
	put_char(json, '"');
}

/* ---- short pieces ----------------------------------------------------- */

/* A value is put together with what stands before it, in the file's buffer if
 * there is one: a dump has millions of them. */
struct piece {
	char *at;
	char *from;
	bool is_own; /* else of the file */
	char own[192];
};

/* Room in a piece for a text with its key, both with their quotes. */
#define SHORT 64

static void piece_begin(struct json *json, struct piece *p)
{
	p->from = json->file ? outfile_room(json->file, sizeof(p->own)) : NULL;
	p->is_own = !p->from;
	if (p->is_own)
		p->from = p->own;
	p->at = p->from;
}

static void piece_end(struct json *json, struct piece *p)
{
	size_t n = (size_t)(p->at - p->from);

	if (p->is_own)
		put(json, p->from, n);
	else
		outfile_did_put(json->file, n);
}

/* Add a text with its quotes, if it is short and needs no escape; false: it was
 * not added. */
static bool add_text(struct piece *p, const char *text)
{
	char *at = p->at, *end = at + SHORT;

	*at++ = '"';
	while (is_plain((unsigned char)*text) && at < end)
		*at++ = *text++;
	if (*text)
		return false;
	*at++ = '"';
	p->at = at;
	return true;
}

/* Add what stands before a value: the comma and the key. */
static void begin_piece(struct json *json, struct piece *p, const char *key)
{
	piece_begin(json, p);
	if (json->comma)
		*p->at++ = ',';
	if (json->line)
		*p->at++ = '\n';
	json->comma = true;
	json->line = false;
	if (!key)
		return;
	if (!add_text(p, key)) {
		piece_end(json, p);
		put_text(json, key);
		piece_begin(json, p);
	}
	*p->at++ = ':';
}

static void begin(struct json *json, const char *key)
{
	struct piece p;

	begin_piece(json, &p, key);
	piece_end(json, &p);
}

/* ---- values ----------------------------------------------------------- */

void json_line(struct json *json)
{
	json->line = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
	struct piece p;

	begin_piece(json, &p, key);
	*p.at++ = bracket;
	piece_end(json, &p);
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
	put(json, text, strlen(text));
}

void json_string(struct json *json, const char *key, const char *text)
{
	struct piece p;
	bool is_short;

	if (!text) {
		json_null(json, key);
		return;
	}
	begin_piece(json, &p, key);
	is_short = add_text(&p, text);
	piece_end(json, &p);
	if (!is_short)
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

/* Add a number, with a point before the last @digits, or none for 0.  (A dump
 * has millions of numbers, for which printf() is too slow.) */
static void put_number(struct json *json, const char *key, uint64_t value,
                       bool is_negative, int digits)
{
	char text[48], *at = text + sizeof(text);
	bool has_point = digits;
	struct piece p;

	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
		if (has_point && --digits == 0)
			*--at = '.';
	} while (value || (has_point && digits >= 0));
	if (is_negative)
		*--at = '-';
	begin_piece(json, &p, key);
	while (at < text + sizeof(text))
		*p.at++ = *at++;
	piece_end(json, &p);
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

void json_float(struct json *json, const char *key, float value)
{
	char text[32] = "null";

	for (int digits = 1; isfinite(value) && digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	put_raw(json, key, text);
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
