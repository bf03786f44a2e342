/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHANCE_H
#define CHANCE_H

/*
 * Random float32 gradients
 *
 * For any rank and step, every thread can compute the gradients, the weight,
 * the set of used parameters, and the mean over all ranks.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANCE_PARAMETERS 12
#define CHANCE_RANKS 4
#define CHANCE_MOST 40 /* maximum number of elements of a parameter */

struct chance {
	uint64_t seed;
	bool is_weighted;
	bool has_unused;
};

/* Return the number of elements of parameter @i, from 0 to CHANCE_MOST - 1. */
size_t chance_count(int i);

/* Return a pseudo-random number that depends only on @a, @b and @c. */
uint64_t chance_mix(uint64_t a, uint64_t b, uint64_t c);

/* Return element @k of the gradient of parameter @i on @rank at @step. */
float chance_value(int rank, uint64_t step, int i, size_t k);

/* Return the weight of @rank at @step. */
double chance_weight(const struct chance *c, int rank, uint64_t step);

/* Return whether @rank uses parameter @i at @step. */
bool chance_used(const struct chance *c, int rank, uint64_t step, int i);

/* Compute the factor of each rank: its weight divided by the sum of all
 * weights. Return false if all weights are 0. */
bool chance_factors(const struct chance *c, uint64_t step,
                    float factor[CHANCE_RANKS]);

/*
 * Return the mean of element @k of parameter @i over all ranks, added in rank
 * order. @factor is used only if @c is weighted.
 */
float chance_mean(const struct chance *c, uint64_t step, int i, size_t k,
                  const float *factor);

#endif
