/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A wrapper of libnccl.so.2 that shows each GPU as several devices (see
 * shared.h). It wraps the one function that takes devices.
 */

#include "shared.h"

#define MOST_RANKS 64

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
	SHARED_REAL(ncclCommInitAll);
	int gpus[MOST_RANKS], i;

	if (n < 1 || n > MOST_RANKS)
		return real_ncclCommInitAll(comms, n, devices);
	for (i = 0; i < n; i++)
		gpus[i] = (devices ? devices[i] : i) / shared_ranks();
	return real_ncclCommInitAll(comms, n, gpus);
}
