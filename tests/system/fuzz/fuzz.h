/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_H
#define FUZZ_H

/*
 * The functions of libFuzzer's interface, for the target and for the replayer
 */

#include <stddef.h>
#include <stdint.h>

/* Run one input. Abort the process if a check fails. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Mutate an input in place. Return its new size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                               unsigned int seed);

/* Mutate bytes in place, as libFuzzer does. Return the new size. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

#endif
