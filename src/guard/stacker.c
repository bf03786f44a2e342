/* SPDX-License-Identifier: Apache-2.0 */

#include "guard/stacker.h"

#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "guard/symbol.h"

/* All stacks are taken, and have names, within these. */
#define TAKE_NS (50 * UINT64_C(1000000))
#define NAME_NS (45 * UINT64_C(1000000))

/* Frames of the short form. */
#define BRIEF 8

/* ---- names ------------------------------------------------------------ */

/* Of a return address the call before it. */
static uintptr_t address_of(const struct stack *stack, int i)
{
	return (uintptr_t)stack->frames[i] - (i > 0);
}

/* The innermost frame of the program; 0: there is none. */
static int first_of_program(const struct stack *stack)
{
	int i = 0;

	while (i < stack->count && symbol_is_plumbing(address_of(stack, i)))
		i++;
	return i < stack->count ? i : 0;
}

static void add_frame(struct text *t, uintptr_t address, bool more)
{
	if (!more || !symbol_more(t, address))
		symbol_add(t, address);
}

void stacker_name(const struct stack *stack, struct stack_report *out,
                  bool more)
{
	struct text t = { out->text, sizeof(out->text) };
	struct text brief = { out->brief, sizeof(out->brief) };
	int i, first = first_of_program(stack);
	char *end = out->text;

	out->text[0] = out->brief[0] = '\0';
	/* More than fit are not looked up. */
	for (i = first; i < stack->count && t.room > 1; i++) {
		if (i > first)
			text_add(&t, " < ");
		add_frame(&t, address_of(stack, i), more);
		if (i == first || (i < first + BRIEF &&
		                   t.at - out->text < (long)sizeof(out->brief)))
			end = t.at;
	}
	text_add(&brief, "%.*s", (int)(end - out->text), out->text);
}

static void name_all(struct stacker *s, bool more)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (!s->stacks[i].why)
			stacker_name(&s->stacks[i], &s->names[more][i], more);
}

static void *stacker_main(void *arg)
{
	struct stacker *s = arg;
	unsigned question;

	for (;;) {
		while (sem_wait(&s->asked))
			;
		if (atomic_load(&s->stop))
			break;
		question = atomic_load(&s->question);
		name_all(s, false);
		atomic_store(&s->simple, question);
		if (symbol_more)
			name_all(s, true);
		atomic_store(&s->best, question);
	}
	atomic_store(&s->has_ended, true);
	return NULL;
}

/* ---- asking ----------------------------------------------------------- */

static void unavailable(struct stack_report *r, const char *why)
{
	snprintf(r->text, sizeof(r->text), STACK_UNAVAILABLE "%s", why);
	snprintf(r->brief, sizeof(r->brief), STACK_UNAVAILABLE "%s", why);
}

/* Wait for names of question @question: 2, the best; 1, the simple; 0: none. */
static int await(struct stacker *s, unsigned question, uint64_t deadline)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&s->best) != question && clock_now() < deadline)
		backoff_wait(&b, deadline);
	if (atomic_load(&s->best) == question)
		return symbol_more ? 2 : 1;
	return atomic_load(&s->simple) == question;
}

static void take(struct stacker *s, const struct stack_report *reports, int n)
{
	int i;

	s->n = n;
	for (i = 0; i < n; i++)
		s->stacks[i].tid = reports[i].tid;
	stack_take(s->signo, s->stacks, n, clock_deadline(TAKE_NS));
}

static void copy_names(struct stack_report *to, const struct stack_report *from)
{
	memcpy(to->text, from->text, sizeof(to->text));
	memcpy(to->brief, from->brief, sizeof(to->brief));
}

void stacker_report(struct stacker *s, struct stack_report *reports, int n)
{
	unsigned question = atomic_load(&s->question);
	int i, found;

	if (atomic_load(&s->best) != question) {
		for (i = 0; i < n; i++)
			unavailable(&reports[i], "names are still looked up");
		return;
	}
	take(s, reports, n);
	atomic_store(&s->question, ++question);
	sem_post(&s->asked);
	found = await(s, question, clock_deadline(NAME_NS));
	for (i = 0; i < n; i++) {
		if (s->stacks[i].why)
			unavailable(&reports[i], s->stacks[i].why);
		else if (found)
			copy_names(&reports[i], &s->names[found - 1][i]);
		else
			unavailable(&reports[i], "no names in time");
	}
}

/* ---- life ------------------------------------------------------------- */

int stacker_start(struct stacker *s, int signo, const char *group)
{
	int err;

	*s = (struct stacker){ .signo = signo };
	if (!signo)
		return COHORT_OK;
	stack_prepare();
	sem_init(&s->asked, 0, 0);
	err = thread_start(&s->thread, stacker_main, s, "%.8s/names", group);
	if (!err)
		return COHORT_OK;
	s->signo = 0;
	sem_destroy(&s->asked);
	return error_set(COHORT_SYSTEM,
	                 "cannot start the thread for stacks: %s",
	                 strerror(err));
}

bool stacker_stop(struct stacker *s, uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;

	if (!s->signo)
		return true;
	stack_retire(s->signo);
	atomic_store(&s->stop, true);
	sem_post(&s->asked);
	while (!atomic_load(&s->has_ended) && clock_now() < deadline_ns)
		backoff_wait(&b, deadline_ns);
	if (!atomic_load(&s->has_ended)) {
		pthread_detach(s->thread);
		return false;
	}
	pthread_join(s->thread, NULL);
	sem_destroy(&s->asked);
	return true;
}
