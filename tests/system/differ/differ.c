/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs scenes, each in its own process
 *
 *  differ [NAME]...
 *  differ --mix SECONDS [RANKS]
 *
 * Without a name, all scenes run. Each prints one line: its name, and the text
 * of each actor (M is the thread that sets the scene; 0, 1, ... are the ranks).
 * --mix runs random programs in one process (mix.c), and aborts half of them.
 */

#include "differ.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct scene *const lists[] = {
	argument_scenes, rank_scenes, end_scenes, graph_scenes, random_scenes,
};

static struct stage stage;
static const struct scene the_mix = { .name = "mix" };
static const struct scene *shown;

/* ---- output of actors ------------------------------------------------- */

static void put(struct actor *a, const char *format, va_list args)
{
	size_t room = sizeof(a->text) - a->length;
	int n = vsnprintf(a->text + a->length, room, format, args);

	if (n > 0)
		a->length += (size_t)n < room ? (size_t)n : room - 1;
}

void note(struct actor *a, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put(a, format, args);
	va_end(args);
}

static int name_length(const char *call)
{
	return (int)strcspn(call, "(");
}

void enter(struct actor *a, const char *call)
{
	a->inside = call;
}

int leave(struct actor *a, int result)
{
	note(a, " %.*s=%d", name_length(a->inside), a->inside, result);
	a->inside = NULL;
	return result;
}

void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", shown->name, what);
	_exit(2);
}

/* ---- output line ------------------------------------------------------ */

static void show_actor(const char *name, const struct actor *a, const char *end)
{
	const char *inside = a->inside;

	if (!a->length && !inside)
		return;
	printf(" %s:%s", name, a->text);
	if (end && inside)
		printf(" %s in %.*s", end, name_length(inside), inside);
}

/*
 * Print the scene's line and exit. @end says why the scene did not end by
 * itself.
 */
__attribute__((noreturn)) static void show(const char *end)
{
	char name[] = "0";
	int i;

	printf("%s", shown->name);
	show_actor("M", &stage.main, end);
	for (i = 0; i < stage.n; i++, name[0]++)
		show_actor(name, &stage.actors[i], end);
	putchar('\n');
	fflush(stdout);
	_exit(0);
}

static void *watch(void *unused)
{
	const struct timespec time = { shown->seconds, 0 };

	(void)unused;
	nanosleep(&time, NULL);
	show("blocked");
}

static void crashed(int number)
{
	(void)number;
	show("crashed");
}

static void catch_crashes(void)
{
	static char stack[65536];
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = crashed,
		                    .sa_flags = SA_ONSTACK };

	sigaltstack(&other, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGABRT, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
}

/* ---- ranks ------------------------------------------------------------ */

static void open_ranks(int n)
{
	const size_t bytes = FLOATS * sizeof(float);
	struct actor *a;
	int i;

	stage.n = n;
	stage.main.stage = &stage;
	for (i = n - 1; i >= 0; i--) {
		a = &stage.actors[i];
		a->stage = &stage;
		a->rank = i;
		must(cudaSetDevice(i) == cudaSuccess &&
		             cudaStreamCreate(&a->stream) == cudaSuccess &&
		             cudaMalloc((void **)&a->send, bytes) ==
		                     cudaSuccess &&
		             cudaMalloc((void **)&a->recv, bytes) ==
		                     cudaSuccess,
		     "no device, stream or memory");
		fill(a);
	}
}

void fill(struct actor *a)
{
	float values[FLOATS];
	int i;

	for (i = 0; i < FLOATS; i++)
		values[i] = (float)(1 + (i + a->rank) % 7);
	must(cudaMemcpyAsync(a->send, values, sizeof(values),
	                     cudaMemcpyHostToDevice,
	                     a->stream) == cudaSuccess &&
	             cudaMemsetAsync(a->recv, 0, sizeof(values), a->stream) ==
	                     cudaSuccess &&
	             cudaStreamSynchronize(a->stream) == cudaSuccess,
	     "a buffer cannot be filled");
}

void digest(struct actor *a)
{
	unsigned char bytes[FLOATS * sizeof(float)];
	uint32_t hash = 2166136261u;
	size_t i;

	if (CALL(a, cudaStreamSynchronize(a->stream)) != cudaSuccess)
		return;
	must(cudaMemcpy(bytes, a->recv, sizeof(bytes),
	                cudaMemcpyDeviceToHost) == cudaSuccess,
	     "a buffer cannot be read");
	for (i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	note(a, " data=%08x", hash);
}

struct part {
	struct actor *actor;
	void (*run)(struct actor *a);
	pthread_t thread;
};

static void *run_part(void *user)
{
	struct part *p = user;

	must(cudaSetDevice(p->actor->rank) == cudaSuccess, "no device");
	p->run(p->actor);
	return NULL;
}

void each(struct stage *g, void (*run)(struct actor *a))
{
	struct part parts[MOST_ACTORS];
	int i;

	for (i = 0; i < g->n; i++) {
		parts[i] = (struct part){ &g->actors[i], run, 0 };
		must(pthread_create(&parts[i].thread, NULL, run_part,
		                    &parts[i]) == 0,
		     "no thread");
	}
	for (i = 0; i < g->n; i++)
		pthread_join(parts[i].thread, NULL);
}

/* Send a first message between each pair of ranks, and make a first
 * collective. */
static void use_all(struct stage *g)
{
	const size_t count = FLOATS / MOST_ACTORS;
	struct actor *a;
	int i, k;

	must(ncclGroupStart() == ncclSuccess, "no group");
	for (i = 0; i < g->n; i++) {
		a = &g->actors[i];
		for (k = 0; k < g->n; k++) {
			ncclSend(a->send, 1, ncclFloat, k, a->comm, a->stream);
			ncclRecv(a->recv + k, 1, ncclFloat, k, a->comm,
			         a->stream);
		}
		ncclAllReduce(a->send, a->recv, count, ncclFloat, ncclSum,
		              a->comm, a->stream);
	}
	must(ncclGroupEnd() == ncclSuccess, "first calls fail");
	for (i = 0; i < g->n; i++)
		fill(&g->actors[i]);
}

void connect_all(struct stage *g)
{
	int i;

	must(ncclGetUniqueId(&g->id) == ncclSuccess, "no id");
	must(ncclGroupStart() == ncclSuccess, "no group");
	for (i = 0; i < g->n; i++) {
		cudaSetDevice(i);
		ncclCommInitRank(&g->actors[i].comm, g->n, g->id, i);
	}
	must(ncclGroupEnd() == ncclSuccess, "no communicator");
	use_all(g);
	cudaSetDevice(0);
}

void sum_all(struct stage *g)
{
	struct actor *a;
	int i;

	CALL(&g->main, ncclGroupStart());
	for (i = 0; i < g->n; i++) {
		a = &g->actors[i];
		CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat,
		                      ncclSum, a->comm, a->stream));
	}
	if (CALL(&g->main, ncclGroupEnd()) != ncclSuccess)
		return;
	for (i = 0; i < g->n; i++)
		digest(&g->actors[i]);
}

void destroy_all(struct stage *g)
{
	int i;

	CALL(&g->main, ncclGroupStart());
	for (i = 0; i < g->n; i++)
		CALL(&g->actors[i], ncclCommDestroy(g->actors[i].comm));
	CALL(&g->main, ncclGroupEnd());
}

void abort_all(struct stage *g)
{
	int i;

	CALL(&g->main, ncclGroupStart());
	for (i = 0; i < g->n; i++)
		CALL(&g->main, ncclCommAbort(g->actors[i].comm));
	CALL(&g->main, ncclGroupEnd());
}

void await_blocked(struct actor *a)
{
	const struct timespec tenth = { 0, 100000000 };
	const char *before;
	size_t length;

	do {
		before = a->inside;
		length = a->length;
		nanosleep(&tenth, NULL);
	} while (!before || a->inside != before || a->length != length);
}

/* ---- running scenes --------------------------------------------------- */

/* Run a scene in its own process, so that its leftovers do not matter. */
static int run(const struct scene *s)
{
	pthread_t watcher;
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child > 0) {
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("%s killed by %d\n", s->name, WTERMSIG(status));
		return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	}
	shown = s;
	catch_crashes();
	pthread_create(&watcher, NULL, watch, NULL);
	open_ranks(s->ranks);
	s->run(&stage);
	show(NULL);
}

static bool is_wanted(const struct scene *s, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (strcmp(argv[i], s->name) == 0)
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	const struct scene *s;
	int failed = 0;
	size_t i;

	if (argc >= 3 && strcmp(argv[1], "--mix") == 0) {
		shown = &the_mix;
		open_ranks(argc > 3 ? atoi(argv[3]) : 4);
		return mix(&stage, atoi(argv[2]));
	}

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
			for (s = lists[i]; s->name; s++)
				puts(s->name);
		return 0;
	}
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (s = lists[i]; s->name; s++)
			if (is_wanted(s, argc, argv))
				failed |= run(s);
	return failed;
}
