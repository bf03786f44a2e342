/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks (see stream_mark.h)
 */

#include "sim/exec/stream_mark.h"

#include "base/clock.h"
#include "base/scoped_lock.h"

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by words_lock: streams that wait for a word. */
static struct stream *word_followers;

/* Atomic; how many streams follow.  seq_cst with the words: either the thread
 * that marks sees the follower, or the follower sees the word. */
static _Atomic unsigned word_follower_count;

/* Whether a word of @bits is what a stream waits for. */
static bool reached(uint64_t now, uint64_t value, int bits,
                    enum compare compare)
{
	const int spare = 64 - bits;

	switch (compare) {
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

static bool word_reached(const struct work *w)
{
	/* seq_cst, see word_follower_count. */
	return reached(__atomic_load_n(w->mark.word, __ATOMIC_SEQ_CST),
	               w->mark.value, 32, (enum compare)w->mark.compare);
}

static bool wide_word_reached(const struct work *w)
{
	/* seq_cst, see word_follower_count. */
	return reached(__atomic_load_n(w->wide_mark.word, __ATOMIC_SEQ_CST),
	               w->wide_mark.value, 64,
	               (enum compare)w->wide_mark.compare);
}

/* A word was stored. */
static void kick_followers(void)
{
	if (!atomic_load(&word_follower_count))
		return;
	SCOPED_LOCK(&words_lock);
	atomic_store(&word_follower_count, 0);
	stream_kick_all_locked(&word_followers);
}

void mark_set(uint32_t *word, uint32_t value)
{
	/* seq_cst, see word_follower_count; also releases everything that the
	 * stream did before. */
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	kick_followers();
}

enum step mark_step(struct stream *s, struct work *w, const struct drive *d)
{
	(void)s;
	(void)d;
	mark_set(w->mark.word, w->mark.value);
	return STEP_DONE;
}

/* Whether the word has come; if not, @s follows the words. */
static bool follow_unless(struct stream *s, const struct work *w,
                          bool (*is_reached)(const struct work *w))
{
	bool is;

	SCOPED_LOCK(&words_lock);
	atomic_fetch_add(&word_follower_count, 1);
	is = is_reached(w);
	if (is)
		stream_unfollow_locked(&word_followers, s);
	else
		stream_follow_locked(&word_followers, s);
	return is;
}

enum step mark_await_step(struct stream *s, struct work *w,
                          const struct drive *d)
{
	(void)d;
	return follow_unless(s, w, word_reached) ? STEP_DONE : STEP_BLOCKED;
}

#define POLL_NS 1000000

enum step mark_poll_step(struct stream *s, struct work *w,
                         const struct drive *d)
{
	if (mark_await_step(s, w, d) == STEP_DONE)
		return STEP_DONE;
	return stream_timer(s, clock_now() + POLL_NS, d);
}

enum step mark_wide_step(struct stream *s, struct work *w,
                         const struct drive *d)
{
	(void)s;
	(void)d;
	/* seq_cst, see word_follower_count. */
	__atomic_store_n(w->wide_mark.word, w->wide_mark.value,
	                 __ATOMIC_SEQ_CST);
	kick_followers();
	return STEP_DONE;
}

enum step mark_wide_poll_step(struct stream *s, struct work *w,
                              const struct drive *d)
{
	return follow_unless(s, w, wide_word_reached)
	               ? STEP_DONE
	               : stream_timer(s, clock_now() + POLL_NS, d);
}
