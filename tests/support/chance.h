/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHANCE_H
#define CHANCE_H

/*
 * Random float32 gradients: any thread can compute the values, the weights and
 * the set of used parameters of any rank and step, and the sum over all ranks
 * on one thread
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANCE_PARAMETERS 12
#define CHANCE_RANKS 4
#define CHANCE_MOST 40 /* most elements of a parameter */

struct chance {
	uint64_t seed;
	bool is_weighted;
	bool has_unused;
};

/*
 * Elements of parameter @i: none, one, few, or a number with an odd remainder.
 */
size_t chance_count(int i);

/* A pseudo-random number that @a, @b and @c determine. */
uint64_t chance_mix(uint64_t a, uint64_t b, uint64_t c);

/* Element @k of parameter @i's gradient on @rank at @step; the rank's weight, and
 * whether it has that gradient at all. */
float chance_value(int rank, uint64_t step, int i, size_t k);
double chance_weight(const struct chance *c, int rank, uint64_t step);
bool chance_used(const struct chance *c, int rank, uint64_t step, int i);

/* Compute each rank's factor; false if all weights are 0. */
bool chance_factors(const struct chance *c, uint64_t step,
                    float factor[CHANCE_RANKS]);

/*
 * The ranks' mean, weighted by those factors where there are any, added in rank
 * order.
 */
float chance_mean(const struct chance *c, uint64_t step, int i, size_t k,
                  const float *factor);

#endif
