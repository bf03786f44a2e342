/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/symbolizer.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/pages.h"
#include "base/text.h"
#include "base/util.h"
#include "core/cause.h"

/* Maximum time to take all stacks. */
#define TAKE_NS (50 * UINT64_C(1000000))

/* Maximum number of frames of the program in the brief form. */
#define BRIEF 8

/* Separator between two frames. */
#define CALLER " < "

/* Maximum number of threads of the process that are considered. */
#define OTHERS_LISTED 1024

/* Size of a name in bytes. */
#define NAME_ROOM 512

/* Total size of all names of the brief form, in bytes. */
#define ALL_ROOM 8192

/* Shortest length to which a name is cut. */
#define LEAST 8

bool (*symbol_more)(struct text *t, uintptr_t address);

/* ---- symbols ---------------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Return true if the address is in the C library, the dynamic linker, the vDSO,
 * or this library if it is a shared one. */
static bool is_plumbing(const struct places *p, uintptr_t address)
{
	static const char *const starts[] = {
		"libc.so",  "libc-2.",   "libpthread.so", "libpthread-2.",
		"ld-linux", "ld-2.",     "libc.musl",     "ld-musl-",
		"[vdso]",   "libcohort",
	};
	const struct code_place *place = places_find(p, address);
	const char *name;
	size_t i;

	if (!place || place->module < 0)
		return false;
	name = base_name(p->modules[place->module].path);
	for (i = 0; i < ARRAY_SIZE(starts); i++)
		if (strncmp(name, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

/* Add "function+0x2a", or "library+0x1234" if the function is unknown. */
static void add_symbol(struct text *t, const struct places *p,
                       uintptr_t address, bool named)
{
	const struct code_place *place = places_find(p, address);

	if (!place || place->module < 0)
		text_add(t, "0x%zx", (size_t)address);
	else if (named && place->name >= 0)
		text_add(t, "%s+0x%x", p->names + place->name, place->into);
	else
		text_add(t, "%s+0x%zx",
		         base_name(p->modules[place->module].path),
		         (size_t)place->offset);
}

/* ---- frames ----------------------------------------------------------- */

/* Return a frame's address.  For a return address, which follows its call, this
 * is an address in the call. */
static uintptr_t address_of(const struct stack *stack, int i)
{
	return (uintptr_t)stack->frames[i] - (i > 0);
}

static bool is_of_program(const struct places *p, const struct stack *stack,
                          int i)
{
	return !is_plumbing(p, address_of(stack, i));
}

/* Return the index of the innermost frame of the program, or the number of
 * frames if there is none. */
static int first_of_program(const struct places *p, const struct stack *stack)
{
	int i = 0;

	while (i < stack->count && !is_of_program(p, stack, i))
		i++;
	return i;
}

static void add_frame(struct text *t, const struct places *p, uintptr_t address,
                      enum symbolizer_stage stage)
{
	char name[NAME_ROOM] = "";
	struct text one = { name, sizeof(name) };

	if (stage < SYMBOLIZER_LINES || !symbol_more(&one, address))
		add_symbol(&one, p, address, stage >= SYMBOLIZER_FUNCTIONS);
	text_add(t, "%s", name);
}

static const char *end_of(const char *at)
{
	const char *end = strstr(at, CALLER);

	return end ? end : at + strlen(at);
}

/* Return the length of @frames if each name is cut to @most bytes. */
static size_t length_of(const char *frames, size_t most)
{
	size_t bytes = 0, n;
	const char *end;

	for (;; frames = end + strlen(CALLER)) {
		end = end_of(frames);
		n = (size_t)(end - frames);
		bytes += MIN(n, most);
		if (!*end)
			return bytes;
		bytes += strlen(CALLER);
	}
}

void symbolizer_add(struct text *t, const char *frames, size_t room)
{
	size_t most = strlen(frames);
	struct text part = *t;
	const char *end;

	part.room = MIN(part.room, room + 1);
	while (most > LEAST && length_of(frames, most) >= part.room)
		most--;
	for (;; frames = end + strlen(CALLER)) {
		end = end_of(frames);
		text_add_short(&part, frames, (size_t)(end - frames), most);
		if (!*end)
			break;
		text_add(&part, CALLER);
	}
	t->room = t->room > (size_t)(part.at - t->at)
	                  ? t->room - (size_t)(part.at - t->at)
	                  : 0;
	t->at = part.at;
}

void symbolizer_map(struct places *places, const struct stack *stacks, int n)
{
	int i, k;

	places_clear(places);
	for (i = 0; i < n; i++)
		for (k = 0; !stacks[i].why && k < stacks[i].count; k++)
			places_add(places, address_of(&stacks[i], k));
	places_map(places);
}

void symbolizer_name(const struct places *places, const struct stack *stack,
                     struct stack_report *out, enum symbolizer_stage stage)
{
	const int program = first_of_program(places, stack);
	const bool is_there = program < stack->count;
	char all[ALL_ROOM] = "";
	struct text names = { all, sizeof(all) };
	struct text t = { out->text, sizeof(out->text) };
	int i, n = 0;

	/* Look up only the frames that fit. */
	for (i = is_there ? program : 0; i < stack->count && n < BRIEF; i++) {
		if (*all)
			text_add(&names, CALLER);
		add_frame(&names, places, address_of(stack, i), stage);
		n += !is_there || is_of_program(places, stack, i);
	}
	symbolizer_add(&t, all, sizeof(out->text) - 1);
	text_copy(out->brief, sizeof(out->brief), out->text);
	for (; i < stack->count && t.room > 1; i++) {
		text_add(&t, CALLER);
		add_frame(&t, places, address_of(stack, i), stage);
	}
}

/* Name all frames in the form of @stage, and publish the names. */
static void name_all(struct symbolizer *s, enum symbolizer_stage stage)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (!s->stacks[i].why)
			symbolizer_name(&s->places, &s->stacks[i],
			                &s->names[stage][i], stage);
	atomic_store(&s->found, (int)stage + 1);
	cause_wake();
}

static void name_files(struct symbolizer *s)
{
	symbolizer_map(&s->places, s->stacks, s->n);
	name_all(s, SYMBOLIZER_FILES);
}

static bool name_stages(void *arg)
{
	struct symbolizer *s = arg;

	name_files(s);
	places_name(&s->places);
	name_all(s, SYMBOLIZER_FUNCTIONS);
	if (symbol_more)
		name_all(s, SYMBOLIZER_LINES);
	return true;
}

/* ---- asking ----------------------------------------------------------- */

bool symbolizer_is_free(struct symbolizer *s)
{
	return crew_await(&s->naming, 0);
}

static bool is_asked(const struct symbolizer *s, int tid)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (s->stacks[i].tid == tid)
			return true;
	return false;
}

/* Add the other threads of the process, except threads that block the signal,
 * as all threads of the library do.  Return the number of threads that there
 * was no room for. */
static int add_others(struct symbolizer *s)
{
	int tids[OTHERS_LISTED], i, left_out = 0;
	int listed = thread_list(tids, OTHERS_LISTED);

	if (listed > OTHERS_LISTED) {
		left_out = listed - OTHERS_LISTED;
		listed = OTHERS_LISTED;
	}
	for (i = 0; i < listed; i++) {
		if (tids[i] == thread_id() || is_asked(s, tids[i]) ||
		    thread_blocks(tids[i], s->signo))
			continue;
		if (s->n == STACKS)
			left_out++;
		else
			s->stacks[s->n++].tid = tids[i];
	}
	return left_out;
}

void symbolizer_take(struct symbolizer *s, const struct stack_report *reports,
                     int n)
{
	int i;

	s->n = s->asked = n;
	atomic_store(&s->found, 0);
	for (i = 0; i < n; i++)
		s->stacks[i].tid = reports[i].tid;
	s->traces.left_out = s->all ? add_others(s) : 0;
	stack_take(s->signo, s->stacks, s->n, clock_deadline(TAKE_NS));
}

void symbolizer_name_all(struct symbolizer *s)
{
	crew_run(&s->naming, name_stages, s, "cohort/names");
}

bool symbolizer_has_all(struct symbolizer *s)
{
	return atomic_load(&s->found) ==
	       (symbol_more ? SYMBOLIZER_LINES : SYMBOLIZER_FUNCTIONS) + 1;
}

bool symbolizer_awaits_python(const struct stack_report *r)
{
	/* A stripped file has only the names of exported functions. */
	static const char *const names[] = {
		"take_gil",
		"PyEval_RestoreThread",
		"PyEval_AcquireThread",
		"PyGILState_Ensure",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (strstr(r->text, names[i]))
			return r->holds_python == 0;
	return false;
}

void symbolizer_refuse(struct stack_report *r, const char *why)
{
	snprintf(r->text, sizeof(r->text), STACK_UNAVAILABLE "%s", why);
	snprintf(r->brief, sizeof(r->brief), STACK_UNAVAILABLE "%s", why);
}

/* Write the names that were found for stack @i, or the reason why there are
 * none. */
static void put_names(const struct symbolizer *s, int i, int stage,
                      struct stack_report *to)
{
	const struct stack_report *from;

	to->holds_python = s->stacks[i].why ? -1 : s->stacks[i].holds_python;
	if (s->stacks[i].why) {
		symbolizer_refuse(to, s->stacks[i].why);
	} else if (stage < 0) {
		symbolizer_refuse(
			to,
			"the names of its functions were not found in time");
	} else {
		from = &s->names[stage][i];
		memcpy(to->text, from->text, sizeof(to->text));
		memcpy(to->brief, from->brief, sizeof(to->brief));
	}
}

static void put_frames(const struct symbolizer *s, int i,
                       struct stack_trace *to)
{
	const struct stack *stack = &s->stacks[i];
	const struct code_place *place;
	int k;

	for (k = 0; k < stack->count; k++) {
		place = places_find(&s->places, address_of(stack, k));
		to->frames[k].module = place ? place->module : -1;
		to->frames[k].offset = place && place->module >= 0
		                               ? place->offset
		                               : address_of(stack, k);
	}
	to->count = stack->count;
}

/* Fill in the traces.  @reports are the reports of the first @n stacks. */
static void put_traces(struct symbolizer *s, const struct stack_report *reports,
                       int n, int stage)
{
	struct stack_traces *t = &s->traces;
	struct stack_report report;
	struct stack_trace *to;
	int i;

	for (i = 0; i < s->n; i++) {
		to = &t->at[i];
		to->rank = i < n ? reports[i].rank : -1;
		to->tid = s->stacks[i].tid;
		to->count = 0;
		thread_lives(to->tid, to->thread);
		thread_state(to->tid, to->state);
		if (i >= n)
			put_names(s, i, stage, &report);
		to->holds_python =
			i < n ? reports[i].holds_python : report.holds_python;
		memcpy(to->text, i < n ? reports[i].text : report.text,
		       sizeof(to->text));
		if (stage >= 0 && !s->stacks[i].why)
			put_frames(s, i, to);
	}
	t->n = s->n;
	t->n_modules = stage >= 0 ? s->places.n_modules : 0;
	memcpy(t->modules, s->places.modules,
	       (size_t)t->n_modules * sizeof(*t->modules));
}

void symbolizer_collect(struct symbolizer *s, struct stack_report *reports)
{
	const int stage = atomic_load(&s->found) - 1;
	int i;

	s->traces.n = 0;
	crew_cancel(&s->naming);
	for (i = 0; i < s->asked; i++)
		put_names(s, i, stage, &reports[i]);
	put_traces(s, reports, s->asked, stage);
}

bool symbolizer_trace(int signo, struct stack_report *reports, int n,
                      struct stack_traces *out)
{
	struct symbolizer *s = pages_alloc(sizeof(*s));

	if (!s)
		return false;
	s->signo = signo;
	symbolizer_take(s, reports, n);
	name_files(s);
	symbolizer_collect(s, reports);
	*out = s->traces;
	pages_free(s, sizeof(*s));
	return true;
}

/* ---- life ------------------------------------------------------------- */

void symbolizer_start(struct symbolizer *s, int signo)
{
	/* The remaining members are zero, and use no memory until they are
	 * written. */
	s->all = signo & COHORT_STACK_ALL;
	s->signo = signo & ~COHORT_STACK_ALL;
	if (s->signo)
		stack_prepare();
}

bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns)
{
	if (!s->signo)
		return true;
	stack_retire(s->signo);
	return crew_await(&s->naming, deadline_ns) || crew_cancel(&s->naming);
}
