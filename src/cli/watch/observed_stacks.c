/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/common/symbols.h"

#define MOST_FRAMES 12

/* py-spy indents the frames of a thread. */
#define INDENT "    "

static int read_frames(struct text *t, FILE *from, int tid)
{
	const size_t indent = strlen(INDENT);
	bool is_own = false;
	char *line = NULL;
	size_t room = 0;
	int n = 0, other;

	while (getline(&line, &room, from) > 0) {
		if (strncmp(line, INDENT, indent) != 0) {
			is_own = sscanf(line, "Thread %d ", &other) == 1 &&
			         other == tid;
			continue;
		}
		if (!is_own || n == MOST_FRAMES)
			continue;
		line[strcspn(line, "\n")] = '\0';
		text_add(t, "%s%s", n++ ? " < " : "", line + indent);
	}
	free(line);
	return n;
}

/*
 * Add the Python frames of a thread of process @pid, starting with the
 * innermost one: "step (train.py:12) < main (train.py:80)".  Return false if
 * the thread has none, or if py-spy is missing or has no permission.
 */
static bool add_python_frames(struct text *t, int64_t pid, int tid)
{
	char command[128];
	FILE *from;
	int n = 0;

	/* Do not let py-spy stop the threads, because it would wait forever for
	 * a thread in uninterruptible sleep. */
	snprintf(command, sizeof(command),
	         "exec timeout -s KILL 5 py-spy dump --nonblocking --pid "
	         "%" PRId64 " 2>&-",
	         pid);
	from = popen(command, "re");
	if (!from)
		return false;
	n = read_frames(t, from, tid);
	pclose(from);
	return n > 0;
}

/* Return whether a rank's thread can be stopped.  A thread in uninterruptible
 * sleep cannot, and the wait for it would have no limit. */
static bool can_stop(const struct rank_snapshot *r)
{
	const char *asleep = thread_state_name('D');

	return strncmp(r->state, asleep, strlen(asleep)) != 0;
}

static void take_stack(struct rank_snapshot *r, struct stack_report *out)
{
	struct text t = { out->text, sizeof(out->text) };

	*out = (struct stack_report){
		.rank = r->rank,
		.tid = r->tid,
		.holds_python = -1,
	};
	/* The pid is untrusted, because a program has written it. */
	if (r->alive != 1 || !started_has(r->pid))
		return;
	if (!add_python_frames(&t, r->pid, r->tid) &&
	    (!can_stop(r) || !symbols_add_stack(&t, r->pid, r->tid)))
		return;
	cli_sanitize(out->text);
	memcpy(out->brief, out->text, sizeof(out->brief));
	r->stack = out;
}

void observed_stacks(struct observed *o, bool is_transfer)
{
	struct snapshot *s = &o->now;
	struct rank_snapshot *r;
	int n = 0;

	if (s->waits.culprit_count && s->waits.culprits[0].at.rank >= 0) {
		take_stack(&s->waits.culprits[0].at, o->stacks);
		return;
	}
	for (r = s->ranks; r < s->ranks + s->size && n < STACK_RANKS; r++)
		if (is_transfer ? r->rank == s->transfer.peer
		                : !r->joined || r->in_call || r->meets)
			take_stack(r, &o->stacks[n++]);
}
