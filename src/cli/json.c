/* SPDX-License-Identifier: Apache-2.0 */

/* JSON writer, see json.h. */

#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Bytes of the UTF-8 character at @s, or 0 if there is none.  The second byte
 * tells overlong forms, surrogates and what is beyond U+10FFFF. */
static int utf8_length(const unsigned char *s)
{
	int n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] >= 0x80 && (s[0] < 0xc2 || s[0] > 0xf4))
		return 0;
	for (int i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static void put_text(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', out);
	while (*s) {
		int n = utf8_length(s);

		if (n == 0)
			fputs("\\ufffd", out);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else
			fwrite(s, 1, (size_t)n, out);
		s += n ? n : 1;
	}
	fputc('"', out);
}

/* What stands before a value: the comma and the key. */
static void begin(struct json *json, const char *key)
{
	if (json->comma)
		fputc(',', json->out);
	if (key) {
		put_text(json->out, key);
		fputc(':', json->out);
	}
	json->comma = true;
}

void json_open(struct json *json, const char *key, char bracket)
{
	begin(json, key);
	fputc(bracket, json->out);
	json->comma = false;
}

void json_close(struct json *json, char bracket)
{
	fputc(bracket, json->out);
	json->comma = true;
}

static void put_raw(struct json *json, const char *key, const char *text)
{
	begin(json, key);
	fputs(text, json->out);
}

void json_string(struct json *json, const char *key, const char *text)
{
	if (!text) {
		json_null(json, key);
		return;
	}
	begin(json, key);
	put_text(json->out, text);
}

void json_bool(struct json *json, const char *key, bool value)
{
	put_raw(json, key, value ? "true" : "false");
}

void json_null(struct json *json, const char *key)
{
	put_raw(json, key, "null");
}

void json_int(struct json *json, const char *key, int64_t value)
{
	begin(json, key);
	fprintf(json->out, "%" PRId64, value);
}

void json_uint(struct json *json, const char *key, uint64_t value)
{
	begin(json, key);
	fprintf(json->out, "%" PRIu64, value);
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
