/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_H
#define FUZZ_H

/*
 * libFuzzer's interface, which its target and the replayer of inputs share
 */

#include <stddef.h>
#include <stdint.h>

/* Run one input; aborts if a check fails. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Change an input in place; returns its new size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most,
                               unsigned int seed);

/* Provided by libFuzzer. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

#endif
