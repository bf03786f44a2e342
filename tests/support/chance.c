/* SPDX-License-Identifier: Apache-2.0 */

#include "support/chance.h"

#include "base/random.h"

size_t chance_count(int i)
{
	return (size_t)(i * i * 3 % CHANCE_MOST);
}

uint64_t chance_mix(uint64_t a, uint64_t b, uint64_t c)
{
	return random_of(a * 7919 + b * 104729 + c * 1299709);
}

float chance_value(int rank, uint64_t step, int i, size_t k)
{
	uint64_t x =
		chance_mix((uint64_t)rank, step, (uint64_t)i * CHANCE_MOST + k);

	return (float)((double)(x >> 40) / 1048576.0 - 8.0);
}

double chance_weight(const struct chance *c, int rank, uint64_t step)
{
	return (double)(chance_mix(c->seed, step, (uint64_t)rank) % 4);
}

bool chance_used(const struct chance *c, int rank, uint64_t step, int i)
{
	return !c->has_unused ||
	       chance_mix(c->seed + 1, step, (uint64_t)(rank * 100 + i)) % 5;
}

bool chance_factors(const struct chance *c, uint64_t step,
                    float factor[CHANCE_RANKS])
{
	double sum = 0.0;
	int r;

	for (r = 0; r < CHANCE_RANKS; r++)
		sum += chance_weight(c, r, step);
	for (r = 0; r < CHANCE_RANKS; r++)
		factor[r] = (float)(chance_weight(c, r, step) / sum);
	return sum > 0.0;
}

float chance_mean(const struct chance *c, uint64_t step, int i, size_t k,
                  const float *factor)
{
	float sum = 0.0f, x;
	int r;

	for (r = 0; r < CHANCE_RANKS; r++) {
		x = chance_used(c, r, step, i) ? chance_value(r, step, i, k)
		                               : 0.0f;
		if (c->is_weighted)
			x = factor[r] == 0.0f ? 0.0f : x * factor[r];
		sum = r ? sum + x : x;
	}
	return c->is_weighted ? sum : sum / CHANCE_RANKS;
}
