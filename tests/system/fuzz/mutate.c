/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The mutator for libFuzzer, which changes inputs by whole steps as well as by
 * bytes
 */

#include <stdbool.h>
#include <string.h>

#include "system/fuzz/fuzz.h"
#include "system/fuzz/program.h"

/* Return the offset of step @n. */
static size_t at(size_t n)
{
	return HEADER_BYTES + n * STEP_BYTES;
}

static size_t insert(uint8_t *data, size_t steps, size_t where,
                     const uint8_t *step)
{
	uint8_t copy[STEP_BYTES];

	memcpy(copy, step, STEP_BYTES);
	memmove(data + at(where + 1), data + at(where),
	        (steps - where) * STEP_BYTES);
	memcpy(data + at(where), copy, STEP_BYTES);
	return at(steps + 1);
}

static size_t drop(uint8_t *data, size_t steps, size_t where)
{
	memmove(data + at(where), data + at(where + 1),
	        (steps - where - 1) * STEP_BYTES);
	return at(steps - 1);
}

/* Mutate one step. If libFuzzer returns fewer bytes, the remaining bytes are
 * unchanged. */
static void mutate_step(uint8_t *step)
{
	uint8_t copy[STEP_BYTES];
	size_t left;

	memcpy(copy, step, STEP_BYTES);
	left = LLVMFuzzerMutate(copy, STEP_BYTES, STEP_BYTES);
	memcpy(step, copy, left < STEP_BYTES ? left : STEP_BYTES);
}

/*
 * Mutate an input: add, repeat, remove or change a whole step, or let libFuzzer
 * change bytes anywhere.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                               unsigned int seed)
{
	size_t steps =
		size < HEADER_BYTES ? 0 : (size - HEADER_BYTES) / STEP_BYTES;
	size_t where = steps ? seed / 16 % steps : 0;
	size_t from = steps ? seed / 4096 % steps : 0;
	bool room = at(steps + 1) <= most && steps < MOST_STEPS;

	switch (steps ? seed % 16 : 15) {
	case 0:
	case 1:
	case 2:
		if (room)
			return insert(data, steps, where, data + at(from));
		break;
	case 3:
	case 4:
		if (steps > 1)
			return drop(data, steps, where);
		break;
	case 5:
	case 6:
	case 7:
		if (!room)
			break;
		size = insert(data, steps, where, data + at(from));
		mutate_step(data + at(where));
		return size;
	case 8:
	case 9:
	case 10:
	case 11:
		mutate_step(data + at(where));
		return size;
	}
	return LLVMFuzzerMutate(data, size, most);
}
