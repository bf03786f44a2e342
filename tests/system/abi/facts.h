/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ABI_FACTS_H
#define ABI_FACTS_H

/*
 * The facts of the ABI as one translation unit saw them: ours from the
 * project's own headers, the real ones from NCCL's and CUDA's.  Both come from
 * facts.c, compiled twice, so entry i means the same in either array.
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
