/* SPDX-License-Identifier: Apache-2.0 */

/* Sets words, and makes streams wait for words (see stream_mark.h) */

#include "sim/exec/stream_mark.h"

#include "base/clock.h"
#include "base/scoped_lock.h"

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;

/* Streams that wait for any of the words.  Guarded by words_lock. */
static struct stream *word_followers;

/* Atomic, seq_cst; not 0 if streams might be waiting for a word.  The words are
 * also accessed with seq_cst: either the thread that sets a word sees that a
 * stream waits, or that stream sees the new value. */
static _Atomic unsigned word_follower_count;

static bool word_reached(const struct work *w)
{
	const uint64_t value = w->mark.value;
	const unsigned int spare = 64 - w->mark.bits;
	uint64_t now;

	/* seq_cst, as word_follower_count requires. */
	if (spare)
		now = __atomic_load_n((uint32_t *)w->mark.word,
		                      __ATOMIC_SEQ_CST);
	else
		now = __atomic_load_n((uint64_t *)w->mark.word,
		                      __ATOMIC_SEQ_CST);
	switch ((enum compare)w->mark.compare) {
	case COMPARE_GEQ:
		return (int64_t)((now - value) << spare) >= 0;
	case COMPARE_EQ:
		return now == value;
	case COMPARE_AND:
		return now & value;
	case COMPARE_NOR:
		return ~(now | value) << spare;
	}
	return true;
}

void mark_set(const struct work *w)
{
	/* seq_cst, as word_follower_count requires.  The store also releases
	 * everything that the stream did before. */
	if (w->mark.bits == 32)
		__atomic_store_n((uint32_t *)w->mark.word,
		                 (uint32_t)w->mark.value, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n((uint64_t *)w->mark.word, w->mark.value,
		                 __ATOMIC_SEQ_CST);
	if (!atomic_load(&word_follower_count))
		return;
	SCOPED_LOCK(&words_lock);
	atomic_store(&word_follower_count, 0);
	stream_kick_all_locked(&word_followers);
}

enum step mark_step(struct stream *s, struct work *w, const struct drive *d)
{
	(void)s;
	(void)d;
	mark_set(w);
	return STEP_DONE;
}

/* If the word does not fulfill the condition, add @s to the streams that wait
 * for a word. */
enum step mark_await_step(struct stream *s, struct work *w,
                          const struct drive *d)
{
	(void)d;
	SCOPED_LOCK(&words_lock);
	atomic_fetch_add(&word_follower_count, 1);
	if (word_reached(w)) {
		stream_unfollow_locked(&word_followers, s);
		return STEP_DONE;
	}
	stream_follow_locked(&word_followers, s);
	return STEP_BLOCKED;
}

#define POLL_NS 1000000

enum step mark_poll_step(struct stream *s, struct work *w,
                         const struct drive *d)
{
	if (mark_await_step(s, w, d) == STEP_DONE)
		return STEP_DONE;
	return stream_timer(s, clock_now() + POLL_NS, d);
}
