/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All clients are local to this one server, on whatever host they are, so that
 * libpmix itself has what they put, and carries out their fences.
 *
 * A process has ended when it was reaped and has lost its last connection:
 * libpmix has handled all that it had sent then.  One that has only finalized
 * PMIx may live on, and a child of it may have been a client as well.  The
 * library says which connection it uses: once that is lost the process is of no
 * use to its groups, and ends, which takes a while if it has much memory.
 */

#include "cli/launch/server.h"

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

/* ---- libpmix ------------------------------------------------------------ */

#define LIBRARY "libpmix.so.2"

/* An info of type PMIX_ABI_@kind with @x, whose pointers have to outlive it. */
#define PMIX_INFO(name, kind, member, x)                                       \
	((struct pmix_info){                                                   \
		.key = name,                                                   \
		.value = { .type = PMIX_ABI_##kind, .data = { .member = x } }, \
	})

/* There is one in a process: constant once it is loaded. */
static struct {
#define POINTER(name, result, arguments) result(*name) arguments;
	PMIX_ABI_SERVER_FUNCTIONS(POINTER)
#undef POINTER
} library;

/* Returns CLI_OK, or CLI_FAILED after a complaint. */
static int load_library(void)
{
	static const char *const names[] = {
#define NAME(name, result, arguments) #name,
		PMIX_ABI_SERVER_FUNCTIONS(NAME)
#undef NAME
	};
	void **const functions[] = {
#define PLACE(name, result, arguments) (void **)(void *)&library.name,
		PMIX_ABI_SERVER_FUNCTIONS(PLACE)
#undef PLACE
	};
	void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	size_t i;

	if (!opened) {
		cli_complain("launch",
		             "cannot open " LIBRARY
		             ": %s; of Debian, the package libpmix2",
		             dlerror());
		return CLI_FAILED;
	}
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*functions[i] = dlsym(opened, names[i]);
		if (!*functions[i]) {
			cli_complain("launch", LIBRARY " has no %s()",
			             names[i]);
			return CLI_FAILED;
		}
	}
	return CLI_OK;
}

/* Judge what @function has returned: CLI_OK, or CLI_FAILED after a
 * complaint. */
static int check_status(const char *function, int status)
{
	if (status == PMIX_ABI_SUCCESS ||
	    status == PMIX_ABI_OPERATION_SUCCEEDED)
		return CLI_OK;
	cli_complain("launch", "%s: %s (%d)", function,
	             library.PMIx_Error_string(status), status);
	return CLI_FAILED;
}

/* ---- the clients --------------------------------------------------------- */

/* Atomic. */
struct client {
	atomic_int connections;
	atomic_bool was_lost;  /* a connection, without having been finalized */
	atomic_bool is_member; /* the library uses one */
	atomic_bool is_told;   /* the others know of its end */

	/* A process has asked to end it. */
	atomic_bool is_aborted;
};

/* There is one in a process.  Constant once it has started, but for what the
 * clients' fields say. */
static struct {
	struct client *clients;
	int processes;
	int wake;
	char job[PMIX_NSPACE_BYTES];
	char folder[PATH_MAX]; /* for libpmix's files */
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

/* ---- the end of a process ---------------------------------------------- */

/* PMIx_server_finalize() waits for libpmix's thread while it holds a lock that
 * PMIx_Notify_event() needs, so that this thread must not call it any more. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_stopping; /* guarded by lock */

/* The info is copied. */
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

void server_tell_end(int process, bool has_failed)
{
	struct pmix_proc p = name_process(process);
	const struct pmix_info info[] = {
		PMIX_INFO(PMIX_ABI_EVENT_AFFECTED_PROC, PROC, proc, &p),
		/* A process that has not asked for it is to live on. */
		PMIX_INFO(PMIX_ABI_EVENT_NON_DEFAULT, BOOL, flag, true),
	};

	atomic_store(&server.clients[process].is_told, true);
	/* The range is the source's job, so that processes that register later
	 * are told, too. */
	send_event(
		has_failed || !server_has_lost(process) ||
				atomic_load(&server.clients[process].was_lost)
			? PMIX_ABI_ERR_PROC_TERM_WO_SYNC
			: PMIX_ABI_EVENT_PROC_TERMINATED,
		&p, PMIX_ABI_RANGE_NAMESPACE, info, 2);
}

/* One connection less. */
static void lose(const struct pmix_proc *p, bool was_lost)
{
	struct client *c = find_client(p);

	if (!c)
		return;
	if (was_lost)
		atomic_store(&c->was_lost, true);
	atomic_fetch_sub(&c->connections, 1);
	eventfd_write(server.wake, 1);
}

/* libpmix makes one event of connections that it loses together: the source is
 * the first, and the info names the others. */
static void on_lost(size_t id, int code, const struct pmix_proc *source,
                    struct pmix_info *info, size_t n, struct pmix_info *results,
                    size_t n_results, pmix_event_done done, void *arg)
{
	size_t i;

	(void)id, (void)code, (void)results, (void)n_results;
	lose(source, true);
	for (i = 0; i < n; i++)
		if (strcmp(info[i].key, PMIX_ABI_PROCID) == 0 &&
		    info[i].value.type == PMIX_ABI_PROC)
			lose(info[i].value.data.proc, true);
	if (done)
		done(PMIX_ABI_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

/* ---- what clients ask for ---------------------------------------------- */

/* libpmix does not say which the new one is.  Two events in a row would wait 40
 * ms for an acknowledgement. */
static void hurry_connections(void)
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
	hurry_connections();
	if (c)
		atomic_fetch_add(&c->connections, 1);
	if (c && atomic_load(&c->is_told))
		cli_complain("launch",
		             "process %u is there again: the others take it "
		             "for one that has ended",
		             (unsigned)p->rank);
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

static int finalized(const struct pmix_proc *p, void *object,
                     pmix_op_callback callback, void *arg)
{
	(void)object, (void)callback, (void)arg;
	lose(p, false);
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

static void end_process(const struct pmix_proc *p)
{
	struct client *c = find_client(p);
	int i;

	if (c)
		atomic_store(&c->is_aborted, true);
	else if (p->rank == PMIX_ABI_RANK_WILDCARD)
		for (i = 0; i < server.processes; i++)
			atomic_store(&server.clients[i].is_aborted, true);
}

static int abort_processes(const struct pmix_proc *p, void *object, int status,
                           const char *message, struct pmix_proc *targets,
                           size_t n, pmix_op_callback callback, void *arg)
{
	struct pmix_proc all = { .rank = PMIX_ABI_RANK_WILDCARD };
	size_t i;

	(void)object;
	cli_complain("launch",
	             "process %u has called PMIx_Abort() with status %d%s%s",
	             (unsigned)p->rank, status, message ? ": " : "",
	             message ? message : "");
	for (i = 0; i < n; i++)
		end_process(&targets[i]);
	if (n == 0)
		end_process(&all);
	eventfd_write(server.wake, 1);
	callback(PMIX_ABI_SUCCESS, arg);
	return PMIX_ABI_SUCCESS;
}

/* All that take part are here: the data is complete. */
static int fence(const struct pmix_proc *procs, size_t n,
                 const struct pmix_info *info, size_t n_info, char *data,
                 size_t bytes, pmix_modex_callback callback, void *arg)
{
	(void)procs, (void)n, (void)info, (void)n_info;
	callback(PMIX_ABI_SUCCESS, data, bytes, arg, free, data);
	return PMIX_ABI_SUCCESS;
}

/* Pass a message on, to all if there are no targets. */
static int pass_on(const struct pmix_proc *source,
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
	return pass_on(requestor, n ? targets : NULL, directives);
}

/* libpmix has given the event of a client to the others: there is no other
 * server to pass it to. */
static int notify(int code, const struct pmix_proc *source, uint8_t range,
                  struct pmix_info *info, size_t n, pmix_op_callback callback,
                  void *arg)
{
	(void)code, (void)source, (void)range, (void)info, (void)n;
	(void)callback, (void)arg;
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

/* ---- starting ---------------------------------------------------------- */

/* Variables of a launcher that has started this one, which libpmix would
 * follow. */
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
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		cli_complain("launch", "getrandom: %s", strerror(errno));
		return CLI_FAILED;
	}
	end += sprintf(end, "cohort-");
	for (i = 0; i < sizeof(bytes); i++)
		end += sprintf(end, "%02x", bytes[i]);
	return CLI_OK;
}

static int make_folder(void)
{
	const char *in = getenv("TMPDIR");

	snprintf(server.folder, sizeof(server.folder),
	         "%s/cohort-launch-XXXXXX", in && *in ? in : "/tmp");
	if (mkdtemp(server.folder))
		return CLI_OK;
	cli_complain("launch", "%s: %s", server.folder, strerror(errno));
	server.folder[0] = '\0';
	return CLI_FAILED;
}

static int remove_path(const char *path, const struct stat *s, int type,
                       struct FTW *at)
{
	(void)s, (void)type, (void)at;
	return remove(path);
}

static void remove_folder(void)
{
	if (server.folder[0])
		nftw(server.folder, remove_path, 8, FTW_DEPTH | FTW_PHYS);
	server.folder[0] = '\0';
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
	/* Other hosts cannot map a store in shared memory. */
	setenv("PMIX_MCA_gds", "hash", 1);
	/* A lost connection is reported at once, and not after a second in
	 * which no other was lost. */
	setenv("PMIX_MCA_pmix_event_caching_window", "0", 1);
	/* Ends are kept for processes that register later: all, and for
	 * ever. */
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
	int i, rc = CLI_OK;

	for (i = 0; i < server.processes && rc == CLI_OK; i++) {
		p = name_process(i);
		rc = check_status("PMIx_server_register_client",
		                  library.PMIx_server_register_client(
					  &p, geteuid(), getegid(), NULL, NULL,
					  NULL));
	}
	return rc;
}

/* What is known of a process. */
struct facts {
	struct pmix_array array;
	struct pmix_info info[2];
};

static void set_facts(struct pmix_info *info, struct facts *f, uint32_t process)
{
	f->array = (struct pmix_array){ PMIX_ABI_INFO, 2, f->info };
	f->info[0] = PMIX_INFO(PMIX_ABI_RANK, PROC_RANK, uint32, process);
	f->info[1] =
		PMIX_INFO(PMIX_ABI_GLOBAL_RANK, PROC_RANK, uint32, process);
	*info = PMIX_INFO(PMIX_ABI_PROC_DATA, DATA_ARRAY, array, &f->array);
}

/* OpenPMIx 4.2.2 gives a job to no client if it knows nothing of the last
 * process. */
static int register_namespace(const char *job, int n, struct pmix_info *info,
                              struct facts *facts)
{
	const uint32_t count = (uint32_t)n;

	for (uint32_t i = 0; i < count; i++)
		set_facts(&info[i], &facts[i], i);
	info[n] = PMIX_INFO(PMIX_ABI_JOB_SIZE, UINT32, uint32, count);
	info[n + 1] = PMIX_INFO(PMIX_ABI_UNIV_SIZE, UINT32, uint32, count);
	info[n + 2] = PMIX_INFO(PMIX_ABI_MAX_PROCS, UINT32, uint32, count);
	info[n + 3] =
		PMIX_INFO(PMIX_ABI_RM_NAME, STRING, string, PMIX_LINE_LAUNCHER);
	return check_status("PMIx_server_register_nspace",
	                    library.PMIx_server_register_nspace(
				    job, n, info, (size_t)n + 4, NULL, NULL));
}

static int register_job(const char *job, int processes)
{
	const size_t n = (size_t)processes;
	struct pmix_info *info = calloc(n + 4, sizeof(*info));
	struct facts *facts = calloc(n, sizeof(*facts));
	int rc = CLI_FAILED;

	if (info && facts)
		rc = register_namespace(job, processes, info, facts);
	else
		cli_complain("launch", "out of memory");
	free(info);
	free(facts);
	return rc;
}

int server_start(const struct launch *l, int wake)
{
	int rc = load_library();

	if (rc != CLI_OK)
		return rc;
	server.processes = l->n;
	server.wake = wake;
	server.clients = cli_need("launch", calloc((size_t)l->n,
	                                           sizeof(*server.clients)));
	forget_outer_launcher();
	rc = name_job();
	if (rc == CLI_OK)
		rc = make_folder();
	if (rc != CLI_OK)
		return rc;
	rc = init(l);
	if (rc != CLI_OK) {
		remove_folder();
		return rc;
	}
	rc = watch_connections();
	if (rc == CLI_OK)
		rc = register_job(server.job, server.processes);
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
	remove_folder();
	free(server.clients);
}
