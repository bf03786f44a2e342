/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks: words that a stream sets when it gets there, and that streams wait for
 */

#include "platform/host/device.h"
#include "platform/host/stream.h"

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by words_lock: streams that wait for a word. */
static struct stream *word_followers;

/* Atomic; how many follow.  seq_cst with the words: either the one who marks
 * sees the follower, or the follower sees the word. */
static _Atomic unsigned word_follower_count;

static bool word_reached(const uint32_t *word, uint32_t value)
{
	/* seq_cst, see word_follower_count. */
	return (int32_t)(__atomic_load_n(word, __ATOMIC_SEQ_CST) - value) >= 0;
}

static enum step mark_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	(void)s;
	(void)d;
	/* seq_cst, see word_follower_count; also the release of everything
	 * that the stream did before. */
	__atomic_store_n(w->mark.word, w->mark.value, __ATOMIC_SEQ_CST);
	if (atomic_load(&word_follower_count)) {
		pthread_mutex_lock(&words_lock);
		atomic_store(&word_follower_count, 0);
		stream_kick_all_locked(&word_followers);
		pthread_mutex_unlock(&words_lock);
	}
	return STEP_DONE;
}

static enum step await_step(struct stream *s, struct work *w,
                            const struct drive *d)
{
	bool reached;

	(void)d;
	pthread_mutex_lock(&words_lock);
	atomic_fetch_add(&word_follower_count, 1);
	reached = word_reached(w->mark.word, w->mark.value);
	if (reached)
		stream_unfollow_locked(&word_followers, s);
	else
		stream_follow_locked(&word_followers, s);
	pthread_mutex_unlock(&words_lock);
	return reached ? STEP_DONE : STEP_BLOCKED;
}

static cudaError_t push_mark(cudaStream_t stream, step_fn step, uint32_t *word,
                             uint32_t value)
{
	struct stream *s = stream_find(stream);
	struct work w = {
		.step = step,
		.mark = { .word = word, .value = value },
	};

	if (!word)
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	stream_push(s, &w, NULL);
	return cudaSuccess;
}

cudaError_t stream_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	return push_mark(stream, mark_step, word, value);
}

cudaError_t stream_await_mark(cudaStream_t stream, uint32_t *word,
                              uint32_t value)
{
	return push_mark(stream, await_step, word, value);
}

void stream_progress(cudaStream_t stream, const uint32_t *word, uint32_t value,
                     uint64_t until_ns)
{
	struct stream *s = stream_find(stream);
	struct drive d = {
		.effort = EFFORT_HELP,
		.position = UINT64_MAX,
		.word = word,
		.value = value,
		.until_ns = until_ns,
	};

	if (!s || atomic_load_explicit(&s->blocked, memory_order_relaxed))
		return;
	if (drive_is_late(&d))
		d.effort = EFFORT_ENQUEUE;
	stream_drive(s, &d);
	stream_settle();
}
