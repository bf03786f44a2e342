/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/symbolizer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "core/cause.h"

/* The time to take all stacks. */
#define TAKE_NS (50 * UINT64_C(1000000))

/* Frames of the program in the brief form. */
#define BRIEF 8

/* What stands between two frames. */
#define CALLER " < "

/* Bytes for a name, for all names of the brief form, and the shortest length to which
 * a name is cut. */
#define NAME_ROOM 512
#define ALL_ROOM 8192
#define LEAST 8

bool (*symbol_more)(struct text *t, uintptr_t address);

/* ---- symbols ---------------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* True if the address is in the C library, in the linker or the kernel's page beside it,
 * or in this library where that is a shared one: not in the program. */
static bool is_plumbing(uintptr_t address)
{
	static const char *const starts[] = {
		"libc.so",  "libpthread.so", "ld-linux",  "libc.musl",
		"ld-musl-", "linux-vdso",    "libcohort",
	};
	Dl_info info;
	size_t i;

	if (!dladdr((void *)address, &info) || !info.dli_fname)
		return false;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(base_name(info.dli_fname), starts[i],
		            strlen(starts[i])) == 0)
			return true;
	return false;
}

/* "function", or "library+0x1234" where the name is not known, from what the dynamic
 * linker has.  Takes the linker's lock. */
static void add_symbol(struct text *t, uintptr_t address)
{
	Dl_info info;

	if (!dladdr((void *)address, &info) || !info.dli_fname)
		text_add(t, "0x%zx", (size_t)address);
	else if (info.dli_sname)
		text_add(t, "%s", info.dli_sname);
	else
		text_add(t, "%s+0x%zx", base_name(info.dli_fname),
		         (size_t)(address - (uintptr_t)info.dli_fbase));
}

/* ---- frames ----------------------------------------------------------- */

/* The address of a frame.  A return address stands for the call in front of it. */
static uintptr_t address_of(const struct stack *stack, int i)
{
	return (uintptr_t)stack->frames[i] - (i > 0);
}

static bool is_of_program(const struct stack *stack, int i)
{
	return !is_plumbing(address_of(stack, i));
}

/* The innermost frame of the program; the number of frames: there is none. */
static int first_of_program(const struct stack *stack)
{
	int i = 0;

	while (i < stack->count && !is_of_program(stack, i))
		i++;
	return i;
}

static void add_frame(struct text *t, uintptr_t address, bool more)
{
	char name[NAME_ROOM] = "";
	struct text one = { name, sizeof(name) };

	if (!more || !symbol_more(&one, address))
		add_symbol(&one, address);
	text_add(t, "%s", name);
}

/* Where the frame at @at ends. */
static const char *end_of(const char *at)
{
	const char *end = strstr(at, CALLER);

	return end ? end : at + strlen(at);
}

/* The length of @frames if each name is cut to @most bytes. */
static size_t length_of(const char *frames, size_t most)
{
	size_t bytes = 0, n;
	const char *end;

	for (;; frames = end + strlen(CALLER)) {
		end = end_of(frames);
		n = (size_t)(end - frames);
		bytes += n < most ? n : most;
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

	if (part.room > room + 1)
		part.room = room + 1;
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

void symbolizer_name(const struct stack *stack, struct stack_report *out,
                     bool more)
{
	const int program = first_of_program(stack);
	const bool is_there = program < stack->count;
	char all[ALL_ROOM] = "";
	struct text names = { all, sizeof(all) };
	struct text t = { out->text, sizeof(out->text) };
	int i, n = 0;

	/* Only the frames that fit are looked up. */
	for (i = is_there ? program : 0; i < stack->count && n < BRIEF; i++) {
		if (*all)
			text_add(&names, CALLER);
		add_frame(&names, address_of(stack, i), more);
		n += !is_there || is_of_program(stack, i);
	}
	symbolizer_add(&t, all, sizeof(out->text) - 1);
	text_copy(out->brief, sizeof(out->brief), out->text);
	for (; i < stack->count && t.room > 1; i++) {
		text_add(&t, CALLER);
		add_frame(&t, address_of(stack, i), more);
	}
}

static void name_all(struct symbolizer *s, bool more)
{
	int i;

	for (i = 0; i < s->n; i++)
		if (!s->stacks[i].why)
			symbolizer_name(&s->stacks[i], &s->names[more][i],
			                more);
	atomic_store(&s->found, more + 1);
	cause_wake();
}

static bool name_twice(void *arg)
{
	struct symbolizer *s = arg;

	name_all(s, false);
	if (symbol_more)
		name_all(s, true);
	return true;
}

/* ---- asking ----------------------------------------------------------- */

bool symbolizer_is_free(struct symbolizer *s)
{
	return crew_is_done(&s->naming);
}

void symbolizer_take(struct symbolizer *s, const struct stack_report *reports,
                     int n)
{
	int i;

	s->n = n;
	atomic_store(&s->found, 0);
	for (i = 0; i < n; i++)
		s->stacks[i].tid = reports[i].tid;
	stack_take(s->signo, s->stacks, n, clock_deadline(TAKE_NS));
}

void symbolizer_name_all(struct symbolizer *s)
{
	crew_run(&s->naming, name_twice, s, "cohort/names");
}

bool symbolizer_has_all(struct symbolizer *s)
{
	return atomic_load(&s->found) == (symbol_more ? 2 : 1);
}

void symbolizer_refuse(struct stack_report *r, const char *why)
{
	snprintf(r->text, sizeof(r->text), STACK_UNAVAILABLE "%s", why);
	snprintf(r->brief, sizeof(r->brief), STACK_UNAVAILABLE "%s", why);
}

static void copy_names(struct stack_report *to, const struct stack_report *from)
{
	memcpy(to->text, from->text, sizeof(to->text));
	memcpy(to->brief, from->brief, sizeof(to->brief));
}

void symbolizer_collect(struct symbolizer *s, struct stack_report *reports)
{
	int i, found = atomic_load(&s->found);

	crew_cancel(&s->naming);
	for (i = 0; i < s->n; i++) {
		if (s->stacks[i].why)
			symbolizer_refuse(&reports[i], s->stacks[i].why);
		else if (found)
			copy_names(&reports[i], &s->names[found - 1][i]);
		else
			symbolizer_refuse(&reports[i], "no names in time");
	}
}

/* ---- life ------------------------------------------------------------- */

void symbolizer_start(struct symbolizer *s, int signo)
{
	*s = (struct symbolizer){ .signo = signo };
	if (signo)
		stack_prepare();
}

bool symbolizer_stop(struct symbolizer *s, uint64_t deadline_ns)
{
	if (!s->signo)
		return true;
	stack_retire(s->signo);
	return crew_await(&s->naming, deadline_ns) || crew_cancel(&s->naming);
}
