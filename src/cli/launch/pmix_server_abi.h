/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LAUNCH_PMIX_SERVER_ABI_H
#define CLI_LAUNCH_PMIX_SERVER_ABI_H

/*
 * The parts of libpmix.so.2 that a launcher uses, in addition to those in
 * processes/pmix_abi.h
 */

#include <sys/types.h>

#include "processes/pmix_abi.h"

#define PMIX_ABI_ERR_NOT_SUPPORTED (-47)
#define PMIX_ABI_EVENT_ACTION_COMPLETE (-334)

#define PMIX_ABI_INFO 24
#define PMIX_ABI_DATA_ARRAY 39
#define PMIX_ABI_PROC_RANK 40

#define PMIX_ABI_PROCID "pmix.procid"                  /* value: a proc */
#define PMIX_ABI_UNIV_SIZE "pmix.univ.size"            /* value: a uint32 */
#define PMIX_ABI_MAX_PROCS "pmix.max.size"             /* value: a uint32 */
#define PMIX_ABI_SERVER_TMPDIR "pmix.srvr.tmpdir"      /* value: a string */
#define PMIX_ABI_SYSTEM_TMPDIR "pmix.sys.tmpdir"       /* value: a string */
#define PMIX_ABI_REMOTE_CONNECTIONS "pmix.srvr.remote" /* value: a bool */
/* value: a string of names */
#define PMIX_ABI_TCP_IF_INCLUDE "pmix.tcp.ifinclude"

/* value: an array of infos; the first is the rank */
#define PMIX_ABI_PROC_DATA "pmix.pdata"
#define PMIX_ABI_RANK "pmix.rank" /* value: a rank, which is a uint32 */
#define PMIX_ABI_GLOBAL_RANK "pmix.grank"

struct pmix_array {
	uint16_t type;
	size_t size;
	void *array;
};

/* The receiver of @data calls @release with @release_arg, unless @release is
 * NULL. */
typedef void (*pmix_modex_callback)(int status, const char *data, size_t bytes,
                                    void *arg, void (*release)(void *),
                                    void *release_arg);

/* Functions of a launcher that serve requests. A function that returns
 * PMIX_ABI_SUCCESS must call the callback. A function that returns
 * PMIX_ABI_OPERATION_SUCCEEDED must not call it. */
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
	void *absent[10]; /* unused: direct_modex to listener */
	int (*notify_event)(int code, const struct pmix_proc *source,
	                    uint8_t range, struct pmix_info *info, size_t n,
	                    pmix_op_callback callback, void *arg);
	void *absent_2[4]; /* unused: query to allocate */
	int (*job_control)(const struct pmix_proc *requestor,
	                   const struct pmix_proc *targets, size_t n,
	                   const struct pmix_info *directives,
	                   size_t n_directives, pmix_info_callback callback,
	                   void *arg);
	void *rest[64]; /* room for the functions of later versions */
};

/* The functions of libpmix. If the callback of a registration is NULL, the
 * function blocks until it is done and returns PMIX_ABI_OPERATION_SUCCEEDED. */
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
