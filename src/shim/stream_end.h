/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHIM_STREAM_END_H
#define SHIM_STREAM_END_H

/*
 * Marks: words in shared memory, which a stream writes when all work that was
 * queued before the mark is done
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "platform/cuda_abi.h"
#include "shim/shared_calls.h"

/*
 * Give all devices access to the marks of @all, until the process ends.  Return
 * the context of @device, or NULL if the device cannot write the marks.
 *
 * Before NCCL creates the first communicator, call it with -1 while a context
 * is current: later, the driver might wait for a collective.
 */
void *stream_end_open(int device, struct shared_calls *all);

enum stream_mark {
	STREAM_MARKED,
	STREAM_CAPTURED, /* the stream is being captured, so it runs nothing */
	STREAM_UNMARKED, /* the driver has failed */
};

/* Queue a store of @value to @word on @stream, which belongs to @context. */
enum stream_mark stream_end_mark(void *context, cudaStream_t stream,
                                 const _Atomic uint32_t *word, uint32_t value);

#endif
