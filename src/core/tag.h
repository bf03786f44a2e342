/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_TAG_H
#define CORE_TAG_H

/*
 * Tags: short texts of the caller, or labels of the library, that describe the
 * purpose of an operation
 *
 * Each text is stored once, and records refer to it by number.  The thread that
 * holds the rank's lock writes them; any thread reads them at any time, without
 * a lock.
 *
 *  A. A text that tag_read() returns is consistent.
 *  B. The last TAG_SLOTS different texts can be read.  Numbers of older texts
 *     read as "", except that numbers are reused after 65535 texts.
 */

#include <stdatomic.h>
#include <stdint.h>

/* Size of a text, with the terminating zero. */
#define TAG_SIZE 48

#define TAG_SLOTS 64

#define TAG_WORDS (TAG_SIZE / 8)

struct tag_slot {
	/* All atomic.  A writer sets the number to 0, writes the words, then
	 * stores the number with release; a reader loads the number before and
	 * after the words. */
	_Atomic uint64_t number;
	_Atomic uint64_t words[TAG_WORDS];
};

struct tags {
	/* Number of texts so far.  Accessed only with the lock held.  In a
	 * cache line apart from members that other threads often read. */
	_Alignas(64) uint64_t count;

	/* Atomic; number of the current text, or 0.  Written with the lock
	 * held.  Relaxed, because it is for diagnostics only. */
	_Atomic unsigned now;

	struct tag_slot slots[TAG_SLOTS];
};

/* Make @text the current text, truncated if too long.  NULL or "" means none.
 * Call it with the lock held. */
void tag_set(struct tags *tags, const char *text);

/* Read the text with this number, or "" if there is none or it was overwritten.
 * May be called from any thread. */
void tag_read(const struct tags *tags, unsigned number, char text[TAG_SIZE]);

#endif
