/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PMIX_ABI_H
#define PROCESSES_PMIX_ABI_H

/*
 * What the library uses of libpmix.so.2, which it opens at run time
 *
 * Values and layouts are those of the PMIx standard's C interface, as OpenPMIx
 * 4 and 5 have them.  tests/system/pmix.sh compares them with pmix.h where that
 * is installed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PMIX_NSPACE_BYTES 256
#define PMIX_KEY_BYTES 512

#define PMIX_ABI_SUCCESS 0
#define PMIX_ABI_OPERATION_SUCCEEDED (-157)
#define PMIX_ABI_ERR_UNREACH (-25)
#define PMIX_ABI_ERR_LOST_CONNECTION (-61)

/* What a value is. */
#define PMIX_ABI_BOOL 1
#define PMIX_ABI_STRING 3
#define PMIX_ABI_INT 6
#define PMIX_ABI_UINT32 14
#define PMIX_ABI_PROC 22
#define PMIX_ABI_BYTE_OBJECT 27

/* For whom a value is: for all processes. */
#define PMIX_ABI_GLOBAL 3

/* For whom an event is: for the job, or for whom an info names. */
#define PMIX_ABI_RANGE_NAMESPACE 3
#define PMIX_ABI_RANGE_CUSTOM 6

/* Events: a process has ended; and those of programs are below a number. */
#define PMIX_ABI_ERR_PROC_ABORTED (-7)
#define PMIX_ABI_ERR_PROC_TERM_WO_SYNC (-200)
#define PMIX_ABI_EVENT_PROC_TERMINATED (-201)
#define PMIX_ABI_ERR_PROC_ABORTED_BY_SIG (-402)
#define PMIX_ABI_EXTERNAL_ERR_BASE (-3000)

/* The rank to ask for what is known of the whole job. */
#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)

#define PMIX_ABI_TIMEOUT "pmix.timeout"   /* an int: seconds */
#define PMIX_ABI_OPTIONAL "pmix.optional" /* a bool: do not ask the server */
#define PMIX_ABI_JOB_SIZE "pmix.job.size" /* an uint32 */
#define PMIX_ABI_RM_NAME "pmix.rm.name"   /* a string: the launcher */
#define PMIX_ABI_EVENT_AFFECTED_PROC "pmix.evproc"   /* a proc */
#define PMIX_ABI_EVENT_CUSTOM_RANGE "pmix.evrange"   /* a proc, or an array */
#define PMIX_ABI_EVENT_NON_DEFAULT "pmix.evnondef"   /* a bool */
#define PMIX_ABI_EVENT_DO_NOT_CACHE "pmix.evnocache" /* a bool */

struct pmix_proc {
	char nspace[PMIX_NSPACE_BYTES]; /* the job */
	uint32_t rank;
};

struct pmix_value {
	uint16_t type;
	union {
		bool flag;
		char *string;
		struct pmix_proc *proc;
		struct pmix_array *array;
		int integer;
		uint32_t uint32;
		struct pmix_bytes {
			char *bytes;
			size_t size;
		} bytes;
		/* The largest member. */
		struct {
			char *name, *value, separator;
		} variable;
	} data;
};

struct pmix_info {
	char key[PMIX_KEY_BYTES];
	uint32_t flags;
	struct pmix_value value;
};

/* @value says something only if @status is PMIX_ABI_SUCCESS.  Whose it is the
 * standard does not say: see struct pmix_client. */
typedef void (*pmix_get_callback)(int status, struct pmix_value *value,
                                  void *arg);

typedef void (*pmix_op_callback)(int status, void *arg);

/* What an event handler's number is. */
typedef void (*pmix_handler_callback)(int status, size_t id, void *arg);

/* The receiver of @info calls @release, if that is not NULL, with
 * @release_arg. */
typedef void (*pmix_info_callback)(int status, struct pmix_info *info, size_t n,
                                   void *arg, void (*release)(void *),
                                   void *release_arg);

/* What an event handler calls at its end, with the handler's @arg as the last
 * one. */
typedef void (*pmix_event_done)(int status, struct pmix_info *results, size_t n,
                                pmix_op_callback callback, void *callback_arg,
                                void *arg);

typedef void (*pmix_event_handler)(size_t id, int code,
                                   const struct pmix_proc *source,
                                   struct pmix_info *info, size_t n,
                                   struct pmix_info *results, size_t n_results,
                                   pmix_event_done done, void *arg);

/*
 * What the library and cohort launch agree on: the launcher's name; a job
 * control request which says that the library uses this connection; and one
 * with a message, which becomes an event of this code with the same message,
 * for the processes that the request is for.
 */
#define PMIX_LINE_LAUNCHER "cohort"
#define PMIX_LINE_MEMBER "cohort.member" /* a bool */
#define PMIX_LINE_MESSAGE "cohort.message"
#define PMIX_LINE_EVENT (PMIX_ABI_EXTERNAL_ERR_BASE - 0x6368)

/* The functions, by name. */
#define PMIX_ABI_FUNCTIONS(X)                                                  \
	X(PMIx_Init, int, (struct pmix_proc *, struct pmix_info *, size_t))    \
	X(PMIx_Finalize, int, (const struct pmix_info *, size_t))              \
	X(PMIx_Put, int, (uint8_t, const char *, struct pmix_value *))         \
	X(PMIx_Commit, int, (void))                                            \
	X(PMIx_Get, int,                                                       \
	  (const struct pmix_proc *, const char *, const struct pmix_info *,   \
	   size_t, struct pmix_value **))                                      \
	X(PMIx_Get_nb, int,                                                    \
	  (const struct pmix_proc *, const char *, const struct pmix_info *,   \
	   size_t, pmix_get_callback, void *))                                 \
	X(PMIx_Register_event_handler, int,                                    \
	  (int *, size_t, struct pmix_info *, size_t, pmix_event_handler,      \
	   pmix_handler_callback, void *))                                     \
	X(PMIx_Job_control_nb, int,                                            \
	  (const struct pmix_proc *, size_t, const struct pmix_info *, size_t, \
	   pmix_info_callback, void *))                                        \
	X(PMIx_Error_string, const char *, (int))                              \
	X(PMIx_Get_version, const char *, (void))

#endif
