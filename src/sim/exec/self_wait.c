/* SPDX-License-Identifier: Apache-2.0 */

/* Finding that a thread waits for itself (see self_wait.h) */

#include "sim/exec/self_wait.h"

#include <dirent.h>

#include "base/clock.h"
#include "base/scoped_lock.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/exec/rendezvous.h"
#include "sim/exec/scheduler.h"

/* Long enough for what is only slow. */
#define SOON_NS UINT64_C(5000000)

/* True if all other threads of the process are the simulator's own: those count
 * themselves only once they are in the folder. */
static bool is_only_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	if (!tasks)
		return false;
	while ((entry = readdir(tasks)))
		n += entry->d_name[0] != '.';
	closedir(tasks);
	return n - stream_own_threads() == 1;
}

/* True if @l needs rank @other, which has nothing queued: stores for which
 * call. */
static bool needs_locked(const struct launch *l, const struct member *other,
                         struct call *why)
{
	size_t i;

	if (other->rounds != other->turn || member_is_struck(other))
		return false;
	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].peer == other->rank &&
		    !l->transfers[i].partner) {
			*why = transfer_call(&l->transfers[i]);
			return true;
		}
	if (mismatch_calls_met(l) == l->call_count)
		return false;
	*why = l->calls[mismatch_calls_met(l)];
	return true;
}

static void check_wait(const struct launch *l)
{
	struct world *w = l->member->world;
	const struct member *other;
	char text[CALL_WORDS];
	struct call why;
	int r;

	SCOPED_LOCK(&w->lock);
	if (!l->joined || launch_is_over(l) || w->span || world_is_broken(w))
		return;
	for (r = 0; r < w->n; r++) {
		other = w->members[r];
		if (other == l->member || !needs_locked(l, other, &why))
			continue;
		member_die(call_function(why.kind), l->member,
		           "%s is waited for, outside a group, by the only "
		           "thread, and rank %d, device %d has queued nothing",
		           call_words(&why, text), other->rank, other->device);
	}
}

void self_wait_check(struct stream *s, uint64_t since_ns)
{
	struct stream *next;
	const struct work *first;
	int i;

	if (clock_now() - since_ns <= SOON_NS || !is_only_thread())
		return;
	/* Not for ever: streams may wait for each other. */
	for (i = 0; s && i < 100 && stream_hold(s); i++, s = next) {
		next = NULL;
		first = stream_first(s);
		if (first && first->step == rendezvous_step)
			check_wait(first->launch);
		else if (first && first->step == stream_wait_step)
			next = first->wait.on;
		stream_release(s);
	}
	stream_settle();
}
