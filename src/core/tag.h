/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TAG_H
#define CORE_TAG_H

/*
 * Tags: labels of what is done, the caller's or the library's own, each kept
 * once, by a number that a record has room for
 *
 * Written by the one thread that holds the rank's lock, read by any thread
 * at any time, without a lock.
 *
 *  A. A text that tag_read() returns is whole.
 *  B. The last TAG_SLOTS different texts can be read; numbers of older ones
 *     answer "", but for one that was given out 65536 texts before.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TAG_SIZE 48 /* with the zero */
#define TAG_SLOTS 64

#define TAG_WORDS (TAG_SIZE / 8)

struct tag_slot {
	/* Atomic, all of them: the number is 0 while the others are written,
	 * then stored with release; a reader loads it before and after. */
	_Atomic uint64_t number;
	_Atomic uint64_t words[TAG_WORDS];
};

struct tags {
	/* The number of texts so far; with the lock held only.  In no cache
	 * line with what other threads often read. */
	_Alignas(64) uint64_t count;

	/* Atomic; the number of the text that is set, 0 if none is.  Written
	 * with the lock held.  Relaxed: for diagnostics only. */
	_Atomic unsigned now;

	struct tag_slot slots[TAG_SLOTS];
};

/* Set @text, cut to the room for it; NULL or "": set none.  With the lock
 * held. */
void tag_set(struct tags *tags, const char *text);

/* The text with this number, "" if there is none or it was overwritten.  Any
 * thread. */
void tag_read(const struct tags *tags, unsigned number, char text[TAG_SIZE]);

#endif
