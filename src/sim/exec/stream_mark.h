/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_STREAM_MARK_H
#define SIM_EXEC_STREAM_MARK_H

/*
 * Marks: words that a stream sets when it gets there, and that streams wait for
 */

#include "sim/exec/stream_queue.h"

/* What a stream waits for, as the driver numbers it. */
enum compare {
	COMPARE_GEQ, /* cyclically */
	COMPARE_EQ,
	COMPARE_AND, /* any bit in common */
	COMPARE_NOR, /* any bit clear in both */
};

/* Set a word that streams may wait for. */
void mark_set(uint32_t *word, uint32_t value);

/*
 * The step functions of work on a word (work.mark):
 *
 * mark_step       - set it
 * mark_await_step - wait until a mark has set it
 * mark_poll_step  - wait until it is set, with or without a mark: the program
 *                   may write it
 *
 * The wide ones are for words of 64 bits (work.wide_mark).
 */
enum step mark_step(struct stream *stream, struct work *work,
                    const struct drive *drive);
enum step mark_await_step(struct stream *stream, struct work *work,
                          const struct drive *drive);
enum step mark_poll_step(struct stream *stream, struct work *work,
                         const struct drive *drive);
enum step mark_wide_step(struct stream *stream, struct work *work,
                         const struct drive *drive);
enum step mark_wide_poll_step(struct stream *stream, struct work *work,
                              const struct drive *drive);

#endif
