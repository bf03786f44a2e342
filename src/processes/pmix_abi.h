/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PMIX_ABI_H
#define PROCESSES_PMIX_ABI_H

/*
 * The part of the interface of libpmix.so.2 that this library uses.
 * libpmix.so.2 is opened at run time.
 *
 * Values and layouts are those of the PMIx standard's C interface in OpenPMIx 4
 * and 5.  tests/system/pmix.sh compares them with pmix.h where pmix.h is
 * installed.
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

/* Types of values. */
#define PMIX_ABI_BOOL 1
#define PMIX_ABI_STRING 3
#define PMIX_ABI_INT 6
#define PMIX_ABI_UINT32 14
#define PMIX_ABI_PROC 22
#define PMIX_ABI_BYTE_OBJECT 27

/* Scope of a value that all processes can read. */
#define PMIX_ABI_GLOBAL 3

/* Ranges of an event: the whole job, or the processes that an info names. */
#define PMIX_ABI_RANGE_NAMESPACE 3
#define PMIX_ABI_RANGE_CUSTOM 6

/* Event codes: four codes for the end of a process, and the base below which
 * programs define their own. */
#define PMIX_ABI_ERR_PROC_ABORTED (-7)
#define PMIX_ABI_ERR_PROC_TERM_WO_SYNC (-200)
#define PMIX_ABI_EVENT_PROC_TERMINATED (-201)
#define PMIX_ABI_ERR_PROC_ABORTED_BY_SIG (-402)
#define PMIX_ABI_EXTERNAL_ERR_BASE (-3000)

/* The rank that stands for the whole job in a query. */
#define PMIX_ABI_RANK_WILDCARD (UINT32_MAX - 1)

#define PMIX_ABI_TIMEOUT "pmix.timeout"   /* an int: seconds */
#define PMIX_ABI_OPTIONAL "pmix.optional" /* a bool: do not ask the server */
#define PMIX_ABI_JOB_SIZE "pmix.job.size" /* a uint32 */
#define PMIX_ABI_RM_NAME "pmix.rm.name"   /* a string: the launcher */
#define PMIX_ABI_EVENT_AFFECTED_PROC "pmix.evproc"   /* a proc */
#define PMIX_ABI_EVENT_CUSTOM_RANGE "pmix.evrange"   /* a proc, or an array */
#define PMIX_ABI_EVENT_NON_DEFAULT "pmix.evnondef"   /* a bool */
#define PMIX_ABI_EVENT_DO_NOT_CACHE "pmix.evnocache" /* a bool */

struct pmix_proc {
	char nspace[PMIX_NSPACE_BYTES]; /* name of the job */
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
		/* The largest member, which determines the size of the
		 * union. */
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

/* Callback of PMIx_Get_nb().  @value is valid only if @status is
 * PMIX_ABI_SUCCESS.  The standard does not define which side frees it: see
 * struct pmix_client. */
typedef void (*pmix_get_callback)(int status, struct pmix_value *value,
                                  void *arg);

typedef void (*pmix_op_callback)(int status, void *arg);

/* Callback of PMIx_Register_event_handler(), with the number of the handler. */
typedef void (*pmix_handler_callback)(int status, size_t id, void *arg);

/* Callback of PMIx_Job_control_nb().  The receiver of @info calls @release with
 * @release_arg, unless @release is NULL. */
typedef void (*pmix_info_callback)(int status, struct pmix_info *info, size_t n,
                                   void *arg, void (*release)(void *),
                                   void *release_arg);

/* Function that an event handler calls when it is done.  @arg is the argument
 * that the handler received together with this function. */
typedef void (*pmix_event_done)(int status, struct pmix_info *results, size_t n,
                                pmix_op_callback callback, void *callback_arg,
                                void *arg);

typedef void (*pmix_event_handler)(size_t id, int code,
                                   const struct pmix_proc *source,
                                   struct pmix_info *info, size_t n,
                                   struct pmix_info *results, size_t n_results,
                                   pmix_event_done done, void *arg);

/*
 * Names and codes shared between the library and cohort launch
 *
 * PMIX_LINE_LAUNCHER  name of the launcher
 * PMIX_LINE_MEMBER    job control request that says whether the library uses
 *                     this connection
 * PMIX_LINE_MESSAGE   job control request with a message for some processes
 * PMIX_LINE_EVENT     event by which the launcher forwards the message to these
 *                     processes
 */
#define PMIX_LINE_LAUNCHER "cohort"
#define PMIX_LINE_MEMBER "cohort.member" /* a bool */
#define PMIX_LINE_MESSAGE "cohort.message"
#define PMIX_LINE_EVENT (PMIX_ABI_EXTERNAL_ERR_BASE - 0x6368)

/* The PMIx functions that the library uses. */
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
