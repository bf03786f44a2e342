/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests gathering by the server of a PMIx launcher, which starts this program
 * several times
 *
 *  pmix gather    gather in several rounds, for two groups with one name, and
 *                 for groups with two names at the same time
 *  pmix absent    the last process does not call at first, and falls behind
 *  pmix stopped   the server is stopped while a process opens (mpirun is the
 *                 parent and the server)
 *  pmix children  children do not keep the connection to the server
 *  pmix refused   there is no server
 *
 * The program prints one line. It exits with 0 if everything is correct, and
 * with 77 without libpmix.so.2.
 */

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "processes/own_bootstrap.h"

#define SOON UINT64_C(60000000000)

static const struct patience soon = { SOON, NULL };
#define MOST 64
#define REASON 256

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "pmix.c:%d: %s; process %d: %s\n",     \
			        __LINE__, #condition, number,                  \
			        cohort_last_error());                          \
			exit(1);                                               \
		}                                                              \
	} while (0)

static int number = -1, count; /* this process, and number of processes */

struct group {
	struct cohort_bootstrap table;
	const struct own_bootstrap *own;
};

static struct group enter(const char *name)
{
	struct group g;

	CHECK(pmix_bootstrap_create(name, sizeof(int), &soon, &g.table,
	                            &g.own) == COHORT_OK);
	number = g.table.process;
	count = g.table.processes;
	CHECK(count >= 1 && count <= MOST);
	return g;
}

static void leave(struct group *g)
{
	g->own->free(g->table.info);
}

/*
 * Wait until all processes reach this point. A process must not exit earlier,
 * because a server then no longer sends that process's data to other machines.
 */
static void await_all(void)
{
	void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
	int (*fence)(const void *, size_t, const void *, size_t) =
		(int (*)(const void *, size_t, const void *,
	                 size_t))dlsym(library, "PMIx_Fence");

	CHECK(fence(NULL, 0, NULL, 0) == 0);
}

/* Gather @own. Return the result of the last test. */
static int gather(struct group *g, int own, int *all, uint64_t timeout_ns)
{
	const uint64_t deadline = clock_deadline(timeout_ns);
	struct backoff b = BACKOFF;
	void *request;
	int answer;

	CHECK(g->table.allgather(&own, all, sizeof(own), g->table.info,
	                         &request) == 0);
	while ((answer = g->table.req_test(request)) == 1 &&
	       clock_now() < deadline)
		backoff_wait(&b, deadline);
	g->table.req_free(request);
	return answer;
}

/* Store in @text why the last request is not done. */
static void explain(const struct group *g, char text[REASON])
{
	text[0] = '\0';
	g->own->explain(g->table.info, &(struct text){ text, REASON });
}

static void gather_well(struct group *g, int add)
{
	int all[MOST], i, answer = gather(g, number + add, all, SOON);
	char text[REASON];

	if (answer) {
		explain(g, text);
		fprintf(stderr, "process %d: req_test: %d%s\n", number, answer,
		        text);
	}
	CHECK(answer == 0);
	for (i = 0; i < count; i++)
		CHECK(all[i] == i + add);
}

/* Wait until @reason is why the request is not done. */
static void await_reason(const struct group *g, const char *reason)
{
	const uint64_t deadline = clock_deadline(SOON);
	struct backoff b = BACKOFF;
	char text[REASON];

	do {
		backoff_wait(&b, deadline);
		explain(g, text);
	} while (strcmp(text, reason) != 0 && clock_now() < deadline);
	if (strcmp(text, reason) != 0)
		fprintf(stderr, "\"%s\", not \"%s\"\n", text, reason);
	CHECK(strcmp(text, reason) == 0);
}

/* ---- gather ------------------------------------------------------------ */

static void *gather_name(void *name)
{
	struct group g = enter(name);

	gather_well(&g, *(const char *)name);
	gather_well(&g, 1000);
	leave(&g);
	return NULL;
}

static void test_gather(void)
{
	struct group first = enter("g"), second;
	const struct own_bootstrap *own;
	struct cohort_bootstrap table;
	pthread_t thread;

	CHECK(pmix_bootstrap_create("g", sizeof(int), &soon, &table, &own) ==
	      COHORT_STATE);
	gather_well(&first, 0);
	second = enter("g"); /* now that all have the first group */
	gather_well(&first, 10);
	gather_well(&second, 20);
	gather_well(&first, 30);
	leave(&first);
	gather_well(&second, 40);
	leave(&second);

	/* The order of the names differs between processes. */
	CHECK(!pthread_create(&thread, NULL, gather_name,
	                      number % 2 ? "a" : "b"));
	gather_name(number % 2 ? "b" : "a");
	pthread_join(thread, NULL);
	await_all();
}

/* ---- absent processes -------------------------------------------------- */

/* Open a group in two rounds. Return the number of attempts. */
static int open_group(const char *name)
{
	struct group g;
	int all[MOST], tries = 0, round, answer;
	char text[REASON] = "";

	do {
		tries++;
		answer = 0;
		g = enter(name);
		for (round = 0; round < 2 && answer == 0; round++)
			answer = gather(&g, number, all, SOON);
		if (answer)
			explain(&g, text);
		leave(&g);
	} while (answer == -1 && tries < 3);
	CHECK(answer == 0);
	CHECK(all[0] == 0 && all[count - 1] == count - 1);
	if (tries > 1)
		CHECK(strstr(text, " has left: open the group again"));
	return tries;
}

static void test_absent(void)
{
	struct group g = enter("all"), other;
	char reason[64];
	int all[MOST], last;

	gather_well(&g, 0);
	last = count - 1;
	snprintf(reason, sizeof(reason), "; process %d has not arrived", last);
	if (number != last) {
		other = enter("other");
		CHECK(gather(&other, 1, all, 0) == 1);
		await_reason(&other, reason);
		leave(&other);
	}
	gather_well(&g, 1);
	/* The last process joins the opening that the others have abandoned. */
	CHECK(open_group("other") == (number == last ? 2 : 1));
	CHECK(open_group("other") == 1);
	leave(&g);
	await_all();
}

/* ---- stopped server ---------------------------------------------------- */

static void test_stopped(void)
{
	const pid_t server = getppid();
	const struct own_bootstrap *own;
	struct cohort_bootstrap table;
	struct group g;

	CHECK(kill(server, SIGSTOP) == 0);
	CHECK(pmix_bootstrap_create("g", sizeof(int),
	                            &(struct patience){ UINT64_C(300000000),
	                                                NULL },
	                            &table, &own) == COHORT_INIT_TIMEOUT);
	CHECK(strstr(cohort_last_error(),
	             "PMIx server has not answered within 300 ms"));
	CHECK(kill(server, SIGCONT) == 0);
	g = enter("g");
	CHECK(kill(server, SIGSTOP) == 0);
	CHECK(gather(&g, 1, (int[MOST]){ 0 }, 0) == 1);
	await_reason(&g, "; the launcher's PMIx server does not answer");
	leave(&g);
	CHECK(kill(server, SIGCONT) == 0);
}

/* ---- refused without a server ------------------------------------------ */

static void test_refused(void)
{
	const struct own_bootstrap *own;
	struct cohort_bootstrap table;

	void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		exit(77);
	CHECK(!pmix_bootstrap_suits());
	CHECK(pmix_bootstrap_create("g", 4, &soon, &table, &own) ==
	      COHORT_INVALID);
	CHECK(strstr(cohort_last_error(), "PMIX_NAMESPACE"));
	setenv("PMIX_NAMESPACE", "nobody", 1);
	setenv("PMIX_RANK", "0", 1);
	CHECK(pmix_bootstrap_suits());
	CHECK(pmix_bootstrap_create("g", 4, &soon, &table, &own) ==
	      COHORT_SYSTEM);
	CHECK(strstr(cohort_last_error(), "PMIx_Init: "));
	/* PMIx cannot be started a second time after the failure. */
	CHECK(pmix_bootstrap_create("g", 4, &soon, &table, &own) ==
	      COHORT_SYSTEM);
}

/* ---- children ---------------------------------------------------------- */

/* Count this process's connections to its server or, if @only_kept is true,
 * those that exec() keeps. */
static int count_connections(bool only_kept)
{
	const char *host = strstr(getenv("PMIX_SERVER_URI41"), "tcp4://");
	struct sockaddr_in peer;
	socklen_t size;
	char text[64];
	int fd, n = 0;

	CHECK(host);
	for (fd = 0; fd < 1024; fd++) {
		size = sizeof(peer);
		if (getpeername(fd, (struct sockaddr *)&peer, &size) ||
		    peer.sin_family != AF_INET)
			continue;
		snprintf(text, sizeof(text), "%s:%d", inet_ntoa(peer.sin_addr),
		         ntohs(peer.sin_port));
		if (strcmp(host + strlen("tcp4://"), text) == 0 &&
		    !(only_kept && fcntl(fd, F_GETFD) & FD_CLOEXEC))
			n++;
	}
	return n;
}

static void test_children(void)
{
	struct group g = enter("g");
	int status;
	pid_t child;

	CHECK(count_connections(false) == 1);
	CHECK(count_connections(true) == 0);
	child = fork();
	if (child == 0)
		_exit(count_connections(false));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	gather_well(&g, 0);
	leave(&g);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "gather", test_gather },   { "absent", test_absent },
		{ "stopped", test_stopped }, { "children", test_children },
		{ "refused", test_refused },
	};
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(tests) / sizeof(tests[0]); i++)
		if (strcmp(argv[1], tests[i].name) == 0) {
			tests[i].run();
			printf("process %d of %d: %s\n", number, count,
			       argv[1]);
			return 0;
		}
	fprintf(stderr, "usage: pmix gather|absent|stopped|children|refused\n");
	return 2;
}
