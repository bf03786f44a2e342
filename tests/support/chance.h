/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHANCE_H
#define CHANCE_H

/*
 * Gradients of float32 by chance: values, weights and which are used, that any thread
 * can compute of any rank and step, and what one thread makes of those of all ranks
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANCE_PARAMETERS 12
#define CHANCE_RANKS 4
#define CHANCE_MOST 40 /* elements of a parameter, and less */

struct chance {
	uint64_t seed;
	bool is_weighted;
	bool has_unused;
};

/* Elements of parameter @i: none, one, few, with an end that does not divide. */
size_t chance_count(int i);

/* A number that follows from three. */
uint64_t chance_mix(uint64_t a, uint64_t b, uint64_t c);

/* Element @k of parameter @i's gradient on @rank at @step; the rank's weight, and
 * whether it has that gradient at all. */
float chance_value(int rank, uint64_t step, int i, size_t k);
double chance_weight(const struct chance *c, int rank, uint64_t step);
bool chance_used(const struct chance *c, int rank, uint64_t step, int i);

/* Each rank's factor; false if all weights are 0. */
bool chance_factors(const struct chance *c, uint64_t step,
                    float factor[CHANCE_RANKS]);

/* The ranks' mean, by those factors if it is weighted, added in rank order. */
float chance_mean(const struct chance *c, uint64_t step, int i, size_t k,
                  const float *factor);

#endif
