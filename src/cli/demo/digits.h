/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_DIGITS_H
#define CLI_DEMO_DIGITS_H

/*
 * The images of handwritten digits that are part of the binary, see
 * data/README.md
 *
 * Every fifth image is held out, the others are for training.  Pixels are scaled to
 * 0..1.
 */

#include "cli/demo/mlp.h"

enum {
	DIGITS_ROWS = 1797,
	DIGITS_HELD_OUT = DIGITS_ROWS / 5,
	DIGITS_TRAIN = DIGITS_ROWS - DIGITS_HELD_OUT,
};

struct digits {
	struct mlp_sample train[DIGITS_TRAIN];
	struct mlp_sample held_out[DIGITS_HELD_OUT];
};

/* Read the embedded table; the result is to be freed by free().  NULL, and why in
 * @error_out, if there is no memory or the table is damaged. */
struct digits *digits_load(const char **error_out);

#endif
