/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_PMIX_SERVER_ABI_H
#define CLI_LAUNCH_PMIX_SERVER_ABI_H

/*
 * What a launcher uses of libpmix.so.2 beside processes/pmix_abi.h
 */

#include <sys/types.h>

#include "processes/pmix_abi.h"

#define PMIX_ABI_ERR_NOT_SUPPORTED (-47)
#define PMIX_ABI_EVENT_ACTION_COMPLETE (-334)

#define PMIX_ABI_INFO 24
#define PMIX_ABI_DATA_ARRAY 39
#define PMIX_ABI_PROC_RANK 40

#define PMIX_ABI_PROCID "pmix.procid"                  /* a proc */
#define PMIX_ABI_UNIV_SIZE "pmix.univ.size"            /* an uint32 */
#define PMIX_ABI_MAX_PROCS "pmix.max.size"             /* an uint32 */
#define PMIX_ABI_SERVER_TMPDIR "pmix.srvr.tmpdir"      /* a string */
#define PMIX_ABI_SYSTEM_TMPDIR "pmix.sys.tmpdir"       /* a string */
#define PMIX_ABI_REMOTE_CONNECTIONS "pmix.srvr.remote" /* a bool */
#define PMIX_ABI_TCP_IF_INCLUDE "pmix.tcp.ifinclude"   /* a string: names */

#define PMIX_ABI_PROC_DATA "pmix.pdata" /* an array of infos, first the rank */
#define PMIX_ABI_RANK "pmix.rank"       /* a rank, which is an uint32 */
#define PMIX_ABI_GLOBAL_RANK "pmix.grank"

struct pmix_array {
	uint16_t type;
	size_t size;
	void *array;
};

/* The receiver of @data calls @release, if that is not NULL, with
 * @release_arg. */
typedef void (*pmix_modex_callback)(int status, const char *data, size_t bytes,
                                    void *arg, void (*release)(void *),
                                    void *release_arg);

/* How a launcher answers.  A function that returns PMIX_ABI_SUCCESS calls the
 * callback; one that returns PMIX_ABI_OPERATION_SUCCEEDED does not. */
struct pmix_server_module {
	int (*client_connected)(const struct pmix_proc *client, void *object,
	                        pmix_op_callback callback, void *arg);
	int (*client_finalized)(const struct pmix_proc *client, void *object,
	                        pmix_op_callback callback, void *arg);
	int (*abort)(const struct pmix_proc *client, void *object, int status,
	             const char *message, struct pmix_proc *targets, size_t n,
	             pmix_op_callback callback, void *arg);
	int (*fence_nb)(const struct pmix_proc *procs, size_t n,
	                const struct pmix_info *info, size_t n_info, char *data,
	                size_t bytes, pmix_modex_callback callback, void *arg);
	void *absent[10]; /* direct_modex to listener */
	int (*notify_event)(int code, const struct pmix_proc *source,
	                    uint8_t range, struct pmix_info *info, size_t n,
	                    pmix_op_callback callback, void *arg);
	void *absent_2[4]; /* query to allocate */
	int (*job_control)(const struct pmix_proc *requestor,
	                   const struct pmix_proc *targets, size_t n,
	                   const struct pmix_info *directives,
	                   size_t n_directives, pmix_info_callback callback,
	                   void *arg);
	/* Versions differ in how many follow: there is room for more. */
	void *rest[64];
};

/* The functions, by name.  Those that register wait for their end if the
 * callback is NULL, and return PMIX_ABI_OPERATION_SUCCEEDED then. */
#define PMIX_ABI_SERVER_FUNCTIONS(X)                                           \
	X(PMIx_server_init, int,                                               \
	  (struct pmix_server_module *, struct pmix_info *, size_t))           \
	X(PMIx_server_finalize, int, (void))                                   \
	X(PMIx_server_register_nspace, int,                                    \
	  (const char *, int, struct pmix_info *, size_t, pmix_op_callback,    \
	   void *))                                                            \
	X(PMIx_server_register_client, int,                                    \
	  (const struct pmix_proc *, uid_t, gid_t, void *, pmix_op_callback,   \
	   void *))                                                            \
	X(PMIx_server_setup_fork, int, (const struct pmix_proc *, char ***))   \
	X(PMIx_Register_event_handler, int,                                    \
	  (int *, size_t, struct pmix_info *, size_t, pmix_event_handler,      \
	   pmix_handler_callback, void *))                                     \
	X(PMIx_Notify_event, int,                                              \
	  (int, const struct pmix_proc *, uint8_t, const struct pmix_info *,   \
	   size_t, pmix_op_callback, void *))                                  \
	X(PMIx_Error_string, const char *, (int))

#endif
