/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs random programs of eight threads on the host platform's NCCL and CUDA
 * functions
 *
 * Every round runs one of the fuzzer's programs (tests/system/fuzz/program.h),
 * made from random numbers instead of an input. It consists of inits,
 * collectives, groups, destroys and aborts of several communicators on the same
 * devices. Checks every result, that every communicator is released once, and
 * that nothing leaks.
 */

#include <stdio.h>

#include "support/place.h"
#include "support/stress.h"
#include "system/fuzz/fuzz.h"
#include "system/fuzz/program.h"

#define STEPS 40

/* Make the header: eight threads, and scripted faults in one program of 16. */
static void make_header(uint8_t *data, uint64_t *seed)
{
	data[0] = (uint8_t)(7 | (stress_random(seed) & 0x80));
	data[1] = (uint8_t)(stress_random(seed) % 16 ? 1 : 0);
}

static void make_step(uint8_t *step, uint64_t *seed)
{
	int i;

	for (i = 0; i < STEP_BYTES; i++)
		step[i] = (uint8_t)stress_random(seed);
	if (step[0] % 4)
		step[0] = (uint8_t)(stress_random(seed) % STEP_BYTES_USED);
}

int main(int argc, char **argv)
{
	uint8_t data[HEADER_BYTES + STEPS * STEP_BYTES];
	unsigned long rounds;
	uint64_t seed = 1;
	int i;

	place_need_no_sync("nothing orders launches and memory functions of "
	                   "native communicators");
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		make_header(data, &seed);
		for (i = 0; i < STEPS; i++)
			make_step(data + HEADER_BYTES + i * STEP_BYTES, &seed);
		/* The first step creates a communicator. */
		data[HEADER_BYTES] = 0;
		LLVMFuzzerTestOneInput(data, sizeof(data));
	}
	printf("%lu rounds, %lu results compared\n", rounds, fuzz_results());
	return 0;
}
