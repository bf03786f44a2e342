/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the table that digits_data.S has put into the binary: each row has 64 pixels
 * 0..16 and a class 0..9, separated by commas, and ends with a newline
 */

#include "cli/demo/digits.h"

#include <stdbool.h>
#include <stdlib.h>

/* Defined in digits_data.S. */
extern const char digits_csv[] __attribute__((visibility("hidden")));
extern const char digits_csv_end[] __attribute__((visibility("hidden")));

/* Read a number of up to two digits and the character @end behind it, and move
 * @text past them. -1 if there is something else. */
static int read_number(const char **text, const char *limit, char end)
{
	const char *p = *text;
	int value = 0;

	while (p < limit && *p >= '0' && *p <= '9' && p - *text < 2)
		value = value * 10 + (*p++ - '0');
	if (p == *text || p == limit || *p != end)
		return -1;
	*text = p + 1;
	return value;
}

static bool read_sample(const char **text, const char *limit,
                        struct mlp_sample *sample)
{
	for (int i = 0; i < MLP_INPUTS; i++) {
		int pixel = read_number(text, limit, ',');

		if (pixel < 0 || pixel > 16)
			return false;
		sample->inputs[i] = (float)pixel / 16.0f;
	}
	sample->label = read_number(text, limit, '\n');
	return sample->label >= 0 && sample->label < MLP_OUTPUTS;
}

static bool read_table(const char *text, const char *limit,
                       struct digits *digits)
{
	struct mlp_sample *train = digits->train;
	struct mlp_sample *held_out = digits->held_out;

	for (int row = 0; row < DIGITS_ROWS; row++) {
		bool keep = row % 5 == 4;

		if (!read_sample(&text, limit, keep ? held_out++ : train++))
			return false;
	}
	return text == limit;
}

struct digits *digits_load(const char **error_out)
{
	struct digits *digits = malloc(sizeof(*digits));

	if (!digits) {
		*error_out = "out of memory";
		return NULL;
	}
	if (!read_table(digits_csv, digits_csv_end, digits)) {
		*error_out = "the embedded images are damaged";
		free(digits);
		return NULL;
	}
	return digits;
}
