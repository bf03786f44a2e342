/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the table that digits_data.S has put into the binary: each row has 64 pixels
 * 0..16 and a class 0..9, separated by commas, and ends with a newline
 */

#include <stdlib.h>

#include "cli/demo/mlp.h"

/* Defined in digits_data.S. */
extern const char digits_csv[] __attribute__((visibility("hidden")));

/* Read a number, and move @text to the next one. */
static int read_number(const char **text)
{
	char *end;
	long number = strtol(*text, &end, 10);

	*text = end + 1;
	return (int)number;
}

static void read_sample(const char **text, struct mlp_sample *sample)
{
	for (int i = 0; i < MLP_INPUTS; i++)
		sample->inputs[i] = (float)read_number(text) / 16.0f;
	sample->label = read_number(text);
}

const struct digits *digits_load(void)
{
	static struct digits digits;
	struct mlp_sample *train = digits.train, *held_out = digits.held_out;
	const char *text = digits_csv;

	for (int row = 0; row < DIGITS_ROWS; row++)
		read_sample(&text, row % 5 == 4 ? held_out++ : train++);
	return &digits;
}
