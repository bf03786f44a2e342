/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ABI_FACTS_H
#define ABI_FACTS_H

/*
 * Facts about the ABI, as one translation unit sees them
 *
 * facts.c is compiled twice: with the project's own headers, and with NCCL's
 * and CUDA's. So entry i has the same meaning in both arrays.
 */

#include <stddef.h>

struct abi_fact {
	const char *name;
	long long value;
};

extern const struct abi_fact abi_ours[];
extern const size_t abi_ours_count;

extern const struct abi_fact abi_real[];
extern const size_t abi_real_count;

#endif
