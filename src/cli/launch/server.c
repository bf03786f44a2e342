/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The PMIx server of cohort launch
 *
 * All processes, on any host, are clients of this one server. So libpmix itself
 * stores their data and executes their fences.
 *
 * A process has ended once it was reaped and its last connection is lost,
 * because libpmix has then handled everything that the process sent. A process
 * that has finalized PMIx can continue to run, and a child of it can have been
 * a client as well. The Cohort library in a process announces which connection
 * it uses. Once this connection is lost, the process is ending, and its groups
 * need not wait until the kernel has freed its memory.
 */

#include "cli/launch/job.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/common/cli.h"
#include "cli/launch/pmix_server_abi.h"

#define LIBRARY "libpmix.so.2"

/* A struct pmix_info of type PMIX_ABI_@kind with value @x. Memory that @x
 * points to must outlive it. */
#define PMIX_INFO(name, kind, member, x)                                       \
	((struct pmix_info){                                                   \
		.key = name,                                                   \
		.value = { .type = PMIX_ABI_##kind, .data = { .member = x } }, \
	})

/* Functions of libpmix, constant after load_library() */
static struct {
#define POINTER(name, result, arguments) result(*name) arguments;
	PMIX_ABI_SERVER_FUNCTIONS(POINTER)
#undef POINTER
} library;

/* Load libpmix. Return CLI_OK, or CLI_FAILED after printing an error. */
static int load_library(void)
{
	void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL;

	if (!opened)
		return cli_fail("cannot open " LIBRARY
		                ": %s; install it (Debian: libpmix2)",
		                dlerror());
#define LOAD(name, result, arguments)                                          \
	*(void **)&library.name = dlsym(opened, #name);                        \
	if (!library.name)                                                     \
		missing = #name;
	PMIX_ABI_SERVER_FUNCTIONS(LOAD)
#undef LOAD
	return missing ? cli_fail(LIBRARY " has no %s()", missing) : CLI_OK;
}

/* Check the status that @function returned. Return CLI_OK, or CLI_FAILED after
 * printing an error. */
static int check_status(const char *function, int status)
{
	if (status == PMIX_ABI_SUCCESS ||
	    status == PMIX_ABI_OPERATION_SUCCEEDED)
		return CLI_OK;
	return cli_fail("%s: %s (%d)", function,
	                library.PMIx_Error_string(status), status);
}

/* A client process. All fields are atomic. */
struct client {
	atomic_int connections;
	atomic_bool was_lost;  /* lost a connection without finalizing PMIx */
	atomic_bool is_member; /* the library has announced a connection */
	/* the other processes were notified of its end */
	atomic_bool is_notified;

	/* a process has requested the end of this process */
	atomic_bool is_aborted;
};

/* The server. Constant after the start, except for the clients' fields. */
static struct {
	struct client *clients;
	int processes;
	int wake;
	char job[PMIX_NSPACE_BYTES];
	char folder[PATH_MAX]; /* folder for libpmix's files */
} server;

static struct pmix_proc name_process(int process)
{
	struct pmix_proc p = { .rank = (uint32_t)process };

	memcpy(p.nspace, server.job, sizeof(p.nspace));
	return p;
}

static struct client *find_client(const struct pmix_proc *p)
{
	return strcmp(p->nspace, server.job) == 0 &&
	                       p->rank < (uint32_t)server.processes
	               ? &server.clients[p->rank]
	               : NULL;
}

/* Guards is_stopping. PMIx_server_finalize() waits for libpmix's thread while
 * it holds a lock that PMIx_Notify_event() needs. So libpmix's thread must not
 * call PMIx_Notify_event() once the server is stopping. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_stopping; /* the server is stopping; guarded by lock */

/* Send an event to clients. PMIx_Notify_event() copies @info. */
static int send_event(int code, const struct pmix_proc *source, uint8_t range,
                      const struct pmix_info *info, size_t n)
{
	int status = PMIX_ABI_ERR_UNREACH;

	pthread_mutex_lock(&lock);
	if (!is_stopping)
		status = library.PMIx_Notify_event(code, source, range, info, n,
		                                   NULL, NULL);
	pthread_mutex_unlock(&lock);
	return status;
}

bool server_has_lost(int process)
{
	return atomic_load(&server.clients[process].connections) <= 0;
}

bool server_has_left(int process)
{
	return atomic_load(&server.clients[process].is_member) &&
	       server_has_lost(process);
}

void server_notify_end(int process, bool has_failed)
{
	struct pmix_proc p = name_process(process);
	const struct pmix_info info[] = {
		PMIX_INFO(PMIX_ABI_EVENT_AFFECTED_PROC, PROC, proc, &p),
		/* The event must not end a process that has no handler for
		 * it. */
		PMIX_INFO(PMIX_ABI_EVENT_NON_DEFAULT, BOOL, flag, true),
	};

	atomic_store(&server.clients[process].is_notified, true);
	/* Send the event to the whole job, so that processes that register
	 * later also receive it. */
	send_event(
		has_failed || !server_has_lost(process) ||
				atomic_load(&server.clients[process].was_lost)
			? PMIX_ABI_ERR_PROC_TERM_WO_SYNC
			: PMIX_ABI_EVENT_PROC_TERMINATED,
		&p, PMIX_ABI_RANGE_NAMESPACE, info, 2);
}

static void drop_connection(const struct pmix_proc *p, bool was_lost)
{
	struct client *c = find_client(p);

	if (!c)
		return;
	if (was_lost)
		atomic_store(&c->was_lost, true);
	atomic_fetch_sub(&c->connections, 1);
	eventfd_write(server.wake, 1);
}

/* Handle lost connections. libpmix reports connections that are lost at the
 * same time in one event. The source is the first process, and @info names the
 * others. */
static void on_lost(size_t id, int code, const struct pmix_proc *source,
                    struct pmix_info *info, size_t n, struct pmix_info *results,
                    size_t n_results, pmix_event_done done, void *arg)
{
	(void)id, (void)code, (void)results, (void)n_results;
	drop_connection(source, true);
	for (size_t i = 0; i < n; i++)
		if (strcmp(info[i].key, PMIX_ABI_PROCID) == 0 &&
		    info[i].value.type == PMIX_ABI_PROC)
			drop_connection(info[i].value.data.proc, true);
	if (done)
		done(PMIX_ABI_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

/* Disable Nagle's algorithm on all sockets, because libpmix does not say which
 * connection is new. Otherwise the second of two events in a row would wait 40
 * ms for an acknowledgment. */
static void disable_nagle(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *e;

	while (all && (e = readdir(all)))
		if (e->d_name[0] != '.')
			setsockopt(atoi(e->d_name), IPPROTO_TCP, TCP_NODELAY,
			           &(int){ 1 }, sizeof(int));
	if (all)
		closedir(all);
}

static int connected(const struct pmix_proc *p, void *object,
                     pmix_op_callback callback, void *arg)
{
	struct client *c = find_client(p);

	(void)object, (void)callback, (void)arg;
	disable_nagle();
	if (c)
		atomic_fetch_add(&c->connections, 1);
	if (c && atomic_load(&c->is_notified))
		cli_error("process %u has connected again, but the others "
		          "have been notified of its end",
		          (unsigned)p->rank);
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

static int finalized(const struct pmix_proc *p, void *object,
                     pmix_op_callback callback, void *arg)
{
	(void)object, (void)callback, (void)arg;
	drop_connection(p, false);
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

static void end_process(const struct pmix_proc *p)
{
	struct client *c = find_client(p);

	if (c)
		atomic_store(&c->is_aborted, true);
	else if (p->rank == PMIX_ABI_RANK_WILDCARD)
		for (int i = 0; i < server.processes; i++)
			atomic_store(&server.clients[i].is_aborted, true);
}

static int abort_processes(const struct pmix_proc *p, void *object, int status,
                           const char *message, struct pmix_proc *targets,
                           size_t n, pmix_op_callback callback, void *arg)
{
	struct pmix_proc all = { .rank = PMIX_ABI_RANK_WILDCARD };

	(void)object;
	cli_error("process %u has called PMIx_Abort() with status %d%s%s",
	          (unsigned)p->rank, status, message ? ": " : "",
	          message ? message : "");
	for (size_t i = 0; i < n; i++)
		end_process(&targets[i]);
	if (n == 0)
		end_process(&all);
	eventfd_write(server.wake, 1);
	callback(PMIX_ABI_SUCCESS, arg);
	return PMIX_ABI_SUCCESS;
}

/* Complete a fence. All its participants are clients of this server, so @data
 * is complete. */
static int fence(const struct pmix_proc *procs, size_t n,
                 const struct pmix_info *info, size_t n_info, char *data,
                 size_t bytes, pmix_modex_callback callback, void *arg)
{
	(void)procs, (void)n, (void)info, (void)n_info;
	callback(PMIX_ABI_SUCCESS, data, bytes, arg, free, data);
	return PMIX_ABI_SUCCESS;
}

/* Forward a message to @target, or to all processes if @target is NULL. */
static int forward(const struct pmix_proc *source,
                   const struct pmix_proc *target,
                   const struct pmix_info *message)
{
	struct pmix_proc to = target ? *target : (struct pmix_proc){ 0 };
	const struct pmix_info info[] = {
		*message,
		PMIX_INFO(PMIX_ABI_EVENT_NON_DEFAULT, BOOL, flag, true),
		PMIX_INFO(PMIX_ABI_EVENT_DO_NOT_CACHE, BOOL, flag, true),
		PMIX_INFO(PMIX_ABI_EVENT_CUSTOM_RANGE, PROC, proc, &to),
	};
	int status;

	status = send_event(PMIX_LINE_EVENT, source,
	                    target ? PMIX_ABI_RANGE_CUSTOM
	                           : PMIX_ABI_RANGE_NAMESPACE,
	                    info, target ? 4 : 3);
	return status == PMIX_ABI_SUCCESS ? PMIX_ABI_OPERATION_SUCCEEDED
	                                  : status;
}

static int control(const struct pmix_proc *requestor,
                   const struct pmix_proc *targets, size_t n,
                   const struct pmix_info *directives, size_t n_directives,
                   pmix_info_callback callback, void *arg)
{
	struct client *c = find_client(requestor);

	(void)callback, (void)arg;
	if (c && n_directives == 1 &&
	    strcmp(directives->key, PMIX_LINE_MEMBER) == 0) {
		atomic_store(&c->is_member, directives->value.data.flag);
		return PMIX_ABI_OPERATION_SUCCEEDED;
	}
	if (n_directives != 1 || n > 1 ||
	    strcmp(directives->key, PMIX_LINE_MESSAGE) != 0)
		return PMIX_ABI_ERR_NOT_SUPPORTED;
	return forward(requestor, n ? targets : NULL, directives);
}

/* Accept a client's event. There is nothing to do: libpmix has delivered it to
 * the other clients, and there is no other server. */
static int notify(int code, const struct pmix_proc *source, uint8_t range,
                  struct pmix_info *info, size_t n, pmix_op_callback callback,
                  void *arg)
{
	(void)code, (void)source, (void)range, (void)info, (void)n;
	(void)callback, (void)arg;
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

/* Unset the variables of an outer launcher that has started this one, because
 * libpmix would obey them. */
static void forget_outer_launcher(void)
{
	char name[256];
	char **e = environ;

	while (*e) {
		if (strncmp(*e, "PMIX_", 5) == 0 &&
		    strncmp(*e, "PMIX_MCA_", 9) != 0 &&
		    strcspn(*e, "=") < sizeof(name)) {
			snprintf(name, sizeof(name), "%.*s",
			         (int)strcspn(*e, "="), *e);
			unsetenv(name);
			e = environ;
		} else {
			e++;
		}
	}
}

static int name_job(void)
{
	unsigned char bytes[16];
	char *end = server.job;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return cli_fail("getrandom: %s", strerror(errno));
	end += sprintf(end, "cohort-");
	for (size_t i = 0; i < sizeof(bytes); i++)
		end += sprintf(end, "%02x", bytes[i]);
	return CLI_OK;
}

static int remove_path(const char *path, const struct stat *s, int type,
                       struct FTW *at)
{
	(void)s, (void)type, (void)at;
	return remove(path);
}

static void remove_folder(void)
{
	nftw(server.folder, remove_path, 8, FTW_DEPTH | FTW_PHYS);
}

static int make_folder(void)
{
	const char *in = getenv("TMPDIR");

	snprintf(server.folder, sizeof(server.folder),
	         "%s/cohort-launch-XXXXXX", in && *in ? in : "/tmp");
	if (mkdtemp(server.folder) && !atexit(remove_folder))
		return CLI_OK;
	return cli_fail("%s: %s", server.folder, strerror(errno));
}

static int init(const struct launch *l)
{
	static struct pmix_server_module module = {
		.client_connected = connected,
		.client_finalized = finalized,
		.abort = abort_processes,
		.fence_nb = fence,
		.notify_event = notify,
		.job_control = control,
	};
	struct pmix_info info[4];
	size_t n = 0;
	int status;

	info[n++] = PMIX_INFO(PMIX_ABI_SERVER_TMPDIR, STRING, string,
	                      server.folder);
	info[n++] = PMIX_INFO(PMIX_ABI_SYSTEM_TMPDIR, STRING, string,
	                      server.folder);
	if (launch_has(l, true))
		info[n++] = PMIX_INFO(PMIX_ABI_REMOTE_CONNECTIONS, BOOL, flag,
		                      true);
	if (l->interface)
		info[n++] = PMIX_INFO(PMIX_ABI_TCP_IF_INCLUDE, STRING, string,
		                      (char *)(uintptr_t)l->interface);
	/* Processes on other hosts cannot map a store in shared memory. */
	setenv("PMIX_MCA_gds", "hash", 1);
	/* Report a lost connection immediately, instead of collecting further
	 * losses for a second. */
	setenv("PMIX_MCA_pmix_event_caching_window", "0", 1);
	/* Keep all events without a time limit, for processes that register
	 * later. */
	setenv("PMIX_MCA_pmix_max_events", "2048", 1);
	setenv("PMIX_MCA_pmix_event_eviction_time", "1000000000", 1);
	status = library.PMIx_server_init(&module, info, n);
	unsetenv("PMIX_MCA_pmix_event_eviction_time");
	unsetenv("PMIX_MCA_pmix_max_events");
	unsetenv("PMIX_MCA_pmix_event_caching_window");
	unsetenv("PMIX_MCA_gds");
	return check_status("PMIx_server_init", status);
}

struct registration {
	sem_t done;
	int status;
};

static void on_registered(int status, size_t id, void *arg)
{
	struct registration *r = arg;

	(void)id;
	r->status = status;
	sem_post(&r->done);
}

static int watch_connections(void)
{
	int code = PMIX_ABI_ERR_LOST_CONNECTION;
	struct registration r;

	sem_init(&r.done, 0, 0);
	library.PMIx_Register_event_handler(&code, 1, NULL, 0, on_lost,
	                                    on_registered, &r);
	while (sem_wait(&r.done))
		;
	sem_destroy(&r.done);
	return check_status("PMIx_Register_event_handler", r.status);
}

static int register_clients(void)
{
	struct pmix_proc p;
	int rc = CLI_OK;

	for (int i = 0; i < server.processes && rc == CLI_OK; i++) {
		p = name_process(i);
		rc = check_status("PMIx_server_register_client",
		                  library.PMIx_server_register_client(
					  &p, geteuid(), getegid(), NULL, NULL,
					  NULL));
	}
	return rc;
}

struct facts {
	struct pmix_array array;
	struct pmix_info info[2];
};

/* Register the job. OpenPMIx 4.2.2 sends the job to no client if the data about
 * the last process is missing. */
static int register_job(int n)
{
	const uint32_t count = (uint32_t)n;
	struct pmix_info *info = cli_need(calloc(count + 4, sizeof(*info)));
	struct facts *facts = cli_need(calloc(count, sizeof(*facts)));
	int status;

	for (uint32_t i = 0; i < count; i++) {
		struct facts *f = &facts[i];

		f->array = (struct pmix_array){ PMIX_ABI_INFO, 2, f->info };
		f->info[0] = PMIX_INFO(PMIX_ABI_RANK, PROC_RANK, uint32, i);
		f->info[1] =
			PMIX_INFO(PMIX_ABI_GLOBAL_RANK, PROC_RANK, uint32, i);
		info[i] = PMIX_INFO(PMIX_ABI_PROC_DATA, DATA_ARRAY, array,
		                    &f->array);
	}
	info[n] = PMIX_INFO(PMIX_ABI_JOB_SIZE, UINT32, uint32, count);
	info[n + 1] = PMIX_INFO(PMIX_ABI_UNIV_SIZE, UINT32, uint32, count);
	info[n + 2] = PMIX_INFO(PMIX_ABI_MAX_PROCS, UINT32, uint32, count);
	info[n + 3] =
		PMIX_INFO(PMIX_ABI_RM_NAME, STRING, string, PMIX_LINE_LAUNCHER);
	status = library.PMIx_server_register_nspace(server.job, n, info,
	                                             count + 4, NULL, NULL);
	free(info);
	free(facts);
	return check_status("PMIx_server_register_nspace", status);
}

int server_start(const struct launch *l, int wake)
{
	int rc = load_library();

	if (rc != CLI_OK)
		return rc;
	server.processes = l->n;
	server.wake = wake;
	server.clients =
		cli_need(calloc((size_t)l->n, sizeof(*server.clients)));
	forget_outer_launcher();
	rc = name_job();
	if (rc == CLI_OK)
		rc = make_folder();
	if (rc != CLI_OK)
		return rc;
	rc = init(l);
	if (rc != CLI_OK)
		return rc;
	rc = watch_connections();
	if (rc == CLI_OK)
		rc = register_job(server.processes);
	if (rc == CLI_OK)
		rc = register_clients();
	if (rc == CLI_OK)
		return CLI_OK;
	server_stop();
	return rc;
}

const char *server_job(void)
{
	return server.job;
}

char **server_environment(int process)
{
	struct pmix_proc p = name_process(process);
	char **out = NULL;

	if (check_status("PMIx_server_setup_fork",
	                 library.PMIx_server_setup_fork(&p, &out)) == CLI_OK)
		return out;
	return NULL;
}

bool server_take_abort(int process)
{
	return atomic_exchange(&server.clients[process].is_aborted, false);
}

void server_stop(void)
{
	pthread_mutex_lock(&lock);
	is_stopping = true;
	pthread_mutex_unlock(&lock);
	library.PMIx_server_finalize();
	free(server.clients);
}
