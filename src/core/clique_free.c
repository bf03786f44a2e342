/* SPDX-License-Identifier: Apache-2.0 */

/* Frees a clique: its ranks' resources first, then, with the last reference,
 * its memory */

#include "core/clique.h"

#include <stdlib.h>

#include "base/pages.h"
#include "core/batch.h"
#include "core/clique_tree.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/pair.h"
#include "core/register.h"
#include "core/remote.h"

/* Return true while a stream may still wait for a done word. */
static bool words_are_awaited(const struct cohort_comm *c)
{
	uint32_t k, first = c->after.count > AFTER_WORDS
	                            ? c->after.count - AFTER_WORDS + 1
	                            : 1;

	if (c->after.have_lost)
		return true;
	for (k = first; k <= c->after.count; k++)
		if (__atomic_load_n(&c->after.words[k % AFTER_WORDS],
		                    __ATOMIC_ACQUIRE) != k)
			return true;
	return false;
}

/* Free the words that marks write.  If a stream still waits for one of them,
 * leak them all. */
static void free_words(struct cohort_comm *c)
{
	if (c->tickets.done && !words_are_awaited(c))
		c->clique->platform->cudaFreeHost(c->tickets.done);
	c->tickets.done = NULL;
}

static bool has_abandoned_threads(const struct clique *q)
{
	return atomic_load(&clique_tree_root(q)->abandoned_threads) > 0;
}

/* Free the resources of a rank, once.  While there are abandoned threads, keep
 * the words, the stream and the staging memory, because these threads may still
 * query tickets, run work of the stream, or copy data; the last abandoned
 * thread frees them with the clique. */
static void comm_release(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	bool is_left_in = has_abandoned_threads(c->clique);
	enum cudaStreamCaptureMode mode;
	struct device_scope scope;

	if (!c->stream)
		return;
	memory_section_begin();
	if (device_enter(&scope, p, c->device) != COHORT_OK) {
		memory_section_end();
		return;
	}
	mode = native_relax(p);
	if (!c->is_released) {
		p->cudaFree(c->barrier);
		list_release(c);
		p->cudaEventDestroy(c->after.event);
	}
	c->is_released = true;
	if (!is_left_in) {
		staging_release(c);
		if (c->stream)
			p->cudaStreamDestroy(c->stream);
		c->stream = NULL;
		free_words(c);
	}
	native_restore(p, mode);
	device_leave(&scope);
	memory_section_end();
}

/* Free all resources of a rank, including those that its calls have allocated.
 * comm_init() may have failed partway. */
static void comm_fini(struct cohort_comm *c)
{
	comm_release(c);
	if (c->former)
		cause_put(c->former);
	batch_free(c->batch);
	pairs_free(c->transfers.pairs);
	register_free_all(c->registrations);
	pages_free(c->agreement.slots,
	           c->clique->slots * sizeof(*c->agreement.slots));
	free(c->tickets.done_then);
	call_shapes_fini(&c->shapes);
	recorder_fini(&c->recorder);
}

void clique_release(struct clique *q)
{
	int r;

	for (r = 0; r < q->size; r++)
		comm_release(&q->comms[r]);
}

void clique_forget_calls(struct clique *q)
{
	struct cohort_comm *c = q->comms;

	if (clique_update_state(q) != CLIQUE_RECLAIMED)
		return;
	for (; c < q->comms + q->size; c++) {
		call_shapes_forget(&c->shapes);
		recorder_forget(&c->recorder);
		pages_forget(c->agreement.slots,
		             q->slots * sizeof(*c->agreement.slots));
	}
}

static void free_memory(struct clique *q)
{
	if (q->is_forgotten)
		pages_abandon(q, q->bytes);
	else
		pages_release(q, q->bytes);
}

void clique_free(struct clique *q, int comms)
{
	struct clique *parent = q->parent;

	clique_tree_free(q);
	while (comms--)
		comm_fini(&q->comms[comms]);
	if (q->end)
		cause_put(q->end);
	free(clique_take_orphans(q));
	if (q->remote)
		q->remote->release(q);
	free(q->agreed);
	free(q->halves);
	free_memory(q);
	if (parent)
		clique_put(parent);
}

void clique_get(struct clique *q)
{
	/* Relaxed, because the caller's own reference keeps the clique
	 * alive. */
	atomic_fetch_add_explicit(&q->users, 1, memory_order_relaxed);
}

void clique_put(struct clique *q)
{
	/* The release and acquire make every other thread's accesses to the
	 * clique come before the free. */
	if (atomic_fetch_sub_explicit(&q->users, 1, memory_order_acq_rel) > 1)
		return;
	clique_free(q, q->size);
}

void clique_get_abandoned(struct clique *q)
{
	clique_get(q);
	atomic_fetch_add(&q->abandoned_threads, 1);
}

void clique_put_abandoned(struct clique *q)
{
	atomic_fetch_sub(&q->abandoned_threads, 1);
	clique_put(q);
}

void clique_retire(struct clique *q)
{
	struct clique *root = clique_tree_root(q);

	crew_await(&q->reaper, UINT64_MAX);
	crew_await(&q->releaser, UINT64_MAX);
	clique_tree_leave(q);
	clique_tree_detach(q);
	if (root != q && has_abandoned_threads(q))
		clique_tree_retain(root, q);
	else
		clique_put(q);
	crew_put();
}

void clique_leak(struct clique *q)
{
	/* If a job is queued, prevent it from starting; if it is running,
	 * abandon it. */
	crew_cancel(&q->reaper);
	crew_cancel(&q->releaser);
	clique_tree_leave(q);
	clique_tree_detach(q);
	leak_on_purpose(q);
	crew_put();
}
