/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_STREAM_MARK_H
#define SIM_EXEC_STREAM_MARK_H

/* Marks: words in memory that a stream writes, and that streams can wait for */

#include "sim/exec/stream_queue.h"

/* Conditions that end a stream's wait for a word.  The values are those of
 * CUDA's driver API. */
enum compare {
	/* true if the word has reached the value, modulo 2^32 or 2^64 */
	COMPARE_GEQ,
	COMPARE_EQ,
	/* true if some bit is set in both the word and the value */
	COMPARE_AND,
	/* true if some bit is clear in both the word and the value */
	COMPARE_NOR,
};

/* Set the word of work.mark, and kick the streams that wait for a word. */
void mark_set(const struct work *work);

/* Step function: call mark_set(). */
enum step mark_step(struct stream *stream, struct work *work,
                    const struct drive *drive);

/* Step function: wait until the word of work.mark fulfills its condition.  Only
 * mark_set() may write to the word. */
enum step mark_await_step(struct stream *stream, struct work *work,
                          const struct drive *drive);

/* Step function: wait as mark_await_step() does, for a word that the program
 * may also write itself.  The worker polls the word. */
enum step mark_poll_step(struct stream *stream, struct work *work,
                         const struct drive *drive);

#endif
