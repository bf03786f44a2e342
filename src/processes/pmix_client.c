/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/pmix_client.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/util.h"
#include "processes/pmix_line.h"

#define LIBRARY "libpmix.so.2"

enum state { CLOSED, STARTING, OPEN, FAILED };

static struct pmix_client client;

/* State of the client.  Guarded by lock from CLOSED to STARTING; after that,
 * only the thread that starts the client changes it.  Stored with release, so
 * that a reader sees the client or the reason why it failed. */
static atomic_int state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *failed; /* the PMIx function that failed */
static int status;         /* what that function returned */
static pid_t pid;          /* the process that started the client */

/* ---- the library ------------------------------------------------------- */

/* Load libpmix.  Called with the lock held. */
static int load(void)
{
	static const char *const names[] = {
#define PMIX_NAME(name, result, arguments) #name,
		PMIX_ABI_FUNCTIONS(PMIX_NAME)
#undef PMIX_NAME
	};
	void **const functions[] = {
#define PMIX_PLACE(name, result, arguments) (void **)(void *)&client.name,
		PMIX_ABI_FUNCTIONS(PMIX_PLACE)
#undef PMIX_PLACE
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	size_t i;

	if (!library)
		return error_set(COHORT_NO_LIBRARY, "cannot open %s: %s",
		                 LIBRARY, dlerror());
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		*functions[i] = dlsym(library, names[i]);
		if (!*functions[i]) {
			dlclose(library);
			return error_set(COHORT_NO_LIBRARY, "%s has no %s()",
			                 LIBRARY, names[i]);
		}
	}
	return COHORT_OK;
}

/* ---- starting ---------------------------------------------------------- */

atomic_int pmix_client_threads;
atomic_bool pmix_client_ends;

/* The socket to the server.  A forked child must not keep it open, because that
 * would hide the end of its parent. */
static int connection = -1; /* constant once started */
static struct sockaddr_in server;

static bool is_connection(int fd)
{
	struct sockaddr_in peer;
	socklen_t size = sizeof(peer);

	return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
	       peer.sin_family == AF_INET && peer.sin_port == server.sin_port &&
	       peer.sin_addr.s_addr == server.sin_addr.s_addr;
}

/* Close the socket in a forked child.  Check it first, because libpmix may have
 * closed it, and another file may have its number. */
static void drop_connection(void)
{
	if (is_connection(connection))
		close(connection);
}

/* Read from @uri ("job.rank;tcp4://1.2.3.4:5") the address at which the server
 * listens. */
static bool read_uri(const char *uri)
{
	const char *host = uri ? strstr(uri, "tcp4://") : NULL;
	char text[INET_ADDRSTRLEN];
	unsigned short port;

	if (!host || sscanf(host, "tcp4://%15[0-9.]:%hu", text, &port) != 2)
		return false;
	server.sin_port = htons(port);
	return inet_pton(AF_INET, text, &server.sin_addr) == 1;
}

/* Find the socket to the server, which libpmix does not reveal, and close it in
 * children. */
static void keep_from_children(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *e;
	int fd;

	if (!all || !read_uri(getenv("PMIX_SERVER_URI41"))) {
		if (all)
			closedir(all);
		return;
	}
	while (connection < 0 && (e = readdir(all))) {
		fd = atoi(e->d_name);
		if (e->d_name[0] != '.' && is_connection(fd))
			connection = fd;
	}
	closedir(all);
	if (connection < 0)
		return;
	fcntl(connection, F_SETFD, FD_CLOEXEC);
	/* Without this option, two messages in a row would wait 40 ms for an
	 * acknowledgment. */
	setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 },
	           sizeof(int));
	pthread_atfork(NULL, NULL, drop_connection);
}

static void finish(void)
{
	const uint64_t deadline = clock_deadline(NS_PER_S);
	struct backoff b = BACKOFF;

	if (getpid() != pid)
		return;
	atomic_store(&pmix_client_ends, true);
	while (atomic_load(&pmix_client_threads) && clock_now() < deadline)
		backoff_wait(&b, deadline);
	if (client.has_events)
		pmix_line_stop();
	client.PMIx_Finalize(NULL, 0);
}

/* Return the PMIx name that stands for the whole job in queries. */
static struct pmix_proc all_of_job(void)
{
	struct pmix_proc job = client.own;

	job.rank = PMIX_ABI_RANK_WILDCARD;
	return job;
}

/* Return true if the launcher is cohort launch.  No other launcher is known to
 * pass messages between processes and to report their ends. */
static bool launcher_has_events(void)
{
	const struct pmix_info here = {
		.key = PMIX_ABI_OPTIONAL,
		.value = { .type = PMIX_ABI_BOOL, .data.flag = true },
	};
	const struct pmix_proc job = all_of_job();
	struct pmix_value *value;
	bool is_ours;

	if (client.PMIx_Get(&job, PMIX_ABI_RM_NAME, &here, 1, &value) !=
	    PMIX_ABI_SUCCESS)
		return false;
	is_ours = value->type == PMIX_ABI_STRING &&
	          strcmp(value->data.string, PMIX_LINE_LAUNCHER) == 0;
	if (value->type == PMIX_ABI_STRING)
		free(value->data.string);
	free(value);
	return is_ours;
}

static int read_size(void)
{
	const struct pmix_proc job = all_of_job();
	struct pmix_value *value;
	int rc;

	rc = client.PMIx_Get(&job, PMIX_ABI_JOB_SIZE, NULL, 0, &value);
	if (rc != PMIX_ABI_SUCCESS)
		return rc;
	client.processes =
		value->type == PMIX_ABI_UINT32 ? value->data.uint32 : 0;
	free(value);
	return PMIX_ABI_SUCCESS;
}

static bool gives_values(void)
{
	static const char *const known[] = { "OpenPMIx 4.2.", "OpenPMIx 5.0." };
	const char *version = client.PMIx_Get_version();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (strncmp(version, known[i], strlen(known[i])) == 0)
			return true;
	return false;
}

static void *start(void *unused)
{
	(void)unused;
	failed = "PMIx_Init";
	status = client.PMIx_Init(&client.own, NULL, 0);
	if (status == PMIX_ABI_SUCCESS) {
		keep_from_children();
		atexit(finish);
		client.gives_values = gives_values();
		client.has_events =
			launcher_has_events() && pmix_line_start(&client);
		failed = "PMIx_Get(PMIX_JOB_SIZE)";
		status = read_size();
	}
	atomic_store_explicit(&state,
	                      status == PMIX_ABI_SUCCESS ? OPEN : FAILED,
	                      memory_order_release);
	return NULL;
}

/* Start the client on a new thread.  Called with the lock held. */
static int begin(void)
{
	pthread_t thread;
	int err, rc = load();

	if (rc != COHORT_OK)
		return rc;
	pid = getpid();
	atomic_store(&state, STARTING);
	err = thread_start(&thread, start, NULL, "cohort pmix");
	if (err) {
		atomic_store(&state, CLOSED);
		return error_set(COHORT_SYSTEM, "pthread_create: %s",
		                 strerror(err));
	}
	pthread_detach(thread);
	return COHORT_OK;
}

int pmix_client_open(const struct patience *patience,
                     const struct pmix_client **out)
{
	const uint64_t deadline = clock_deadline(patience->timeout_ns);
	struct backoff b = BACKOFF;
	int now, rc = COHORT_OK;

	pthread_mutex_lock(&lock);
	if (atomic_load(&state) == CLOSED)
		rc = begin();
	pthread_mutex_unlock(&lock);
	if (rc != COHORT_OK)
		return rc;
	/* The acquire pairs with the starting thread's release, which publishes
	 * the client. */
	while ((now = atomic_load_explicit(&state, memory_order_acquire)) ==
	       STARTING) {
		if (patience_is_aborted(patience))
			return patience_error(patience);
		if (clock_now() >= deadline)
			return error_set(
				COHORT_INIT_TIMEOUT,
				"the launcher's PMIx server has not "
				"answered within %llu ms",
				(unsigned long long)(patience->timeout_ns /
			                             1000000));
		backoff_wait(&b, deadline);
	}
	if (now == FAILED)
		return error_set(COHORT_SYSTEM, "%s: %s (%d)", failed,
		                 client.PMIx_Error_string(status), status);
	*out = &client;
	return COHORT_OK;
}
