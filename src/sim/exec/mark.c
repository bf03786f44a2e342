/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks (see mark.h)
 */

#include "sim/exec/mark.h"

#include "base/clock.h"

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by words_lock: streams that wait for a word. */
static struct stream *word_followers;

/* Atomic; how many streams follow.  seq_cst with the words: either the thread
 * that marks sees the follower, or the follower sees the word. */
static _Atomic unsigned word_follower_count;

static bool word_reached(const uint32_t *word, uint32_t value,
                         enum compare compare)
{
	/* seq_cst, see word_follower_count. */
	const uint32_t now = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	switch (compare) {
	case COMPARE_GEQ:
		return (int32_t)(now - value) >= 0;
	case COMPARE_EQ:
		return now == value;
	case COMPARE_AND:
		return now & value;
	case COMPARE_NOR:
		return ~(now | value);
	}
	return true;
}

static bool wide_word_reached(const uint64_t *word, uint64_t value,
                              enum compare compare)
{
	/* seq_cst, see word_follower_count. */
	const uint64_t now = __atomic_load_n(word, __ATOMIC_SEQ_CST);

	switch (compare) {
	case COMPARE_GEQ:
		return (int64_t)(now - value) >= 0;
	case COMPARE_EQ:
		return now == value;
	case COMPARE_AND:
		return now & value;
	case COMPARE_NOR:
		return ~(now | value);
	}
	return true;
}

/* A word was stored. */
static void kick_followers(void)
{
	if (!atomic_load(&word_follower_count))
		return;
	pthread_mutex_lock(&words_lock);
	atomic_store(&word_follower_count, 0);
	stream_kick_all_locked(&word_followers);
	pthread_mutex_unlock(&words_lock);
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

/* Let @s follow the words unless @reached; called with words_lock held, counted as a
 * follower before the word was read. */
static void follow_unless_locked(struct stream *s, bool reached)
{
	if (reached)
		stream_unfollow_locked(&word_followers, s);
	else
		stream_follow_locked(&word_followers, s);
}

enum step mark_await_step(struct stream *s, struct work *w,
                          const struct drive *d)
{
	bool reached;

	(void)d;
	pthread_mutex_lock(&words_lock);
	atomic_fetch_add(&word_follower_count, 1);
	reached = word_reached(w->mark.word, w->mark.value,
	                       (enum compare)w->mark.compare);
	follow_unless_locked(s, reached);
	pthread_mutex_unlock(&words_lock);
	return reached ? STEP_DONE : STEP_BLOCKED;
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
	bool reached;

	pthread_mutex_lock(&words_lock);
	atomic_fetch_add(&word_follower_count, 1);
	reached = wide_word_reached(w->wide_mark.word, w->wide_mark.value,
	                            (enum compare)w->wide_mark.compare);
	follow_unless_locked(s, reached);
	pthread_mutex_unlock(&words_lock);
	return reached ? STEP_DONE : stream_timer(s, clock_now() + POLL_NS, d);
}
