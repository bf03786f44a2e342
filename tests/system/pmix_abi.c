/* SPDX-License-Identifier: Apache-2.0 */

/* Checks that the library's declarations of libpmix match pmix.h. */

#include <pmix.h>
#include <pmix_server.h>

/* The library's names for the same types */
#define pmix_proc own_proc
#define pmix_value own_value
#define pmix_info own_info
#include "cli/launch/pmix_server_abi.h"
#include "processes/pmix_abi.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)

SAME(PMIX_ABI_SUCCESS, PMIX_SUCCESS);
SAME(PMIX_ABI_ERR_UNREACH, PMIX_ERR_UNREACH);
SAME(PMIX_ABI_ERR_LOST_CONNECTION, PMIX_ERR_LOST_CONNECTION);
SAME(PMIX_ABI_INT, PMIX_INT);
SAME(PMIX_ABI_UINT32, PMIX_UINT32);
SAME(PMIX_ABI_BYTE_OBJECT, PMIX_BYTE_OBJECT);
SAME(PMIX_ABI_BOOL, PMIX_BOOL);
SAME(PMIX_ABI_STRING, PMIX_STRING);
SAME(PMIX_ABI_PROC, PMIX_PROC);
SAME(PMIX_ABI_GLOBAL, PMIX_GLOBAL);
SAME(PMIX_ABI_RANGE_NAMESPACE, PMIX_RANGE_NAMESPACE);
SAME(PMIX_ABI_RANGE_CUSTOM, PMIX_RANGE_CUSTOM);
SAME(PMIX_ABI_ERR_PROC_ABORTED, PMIX_ERR_PROC_ABORTED);
SAME(PMIX_ABI_ERR_PROC_TERM_WO_SYNC, PMIX_ERR_PROC_TERM_WO_SYNC);
SAME(PMIX_ABI_EVENT_PROC_TERMINATED, PMIX_EVENT_PROC_TERMINATED);
SAME(PMIX_ABI_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED_BY_SIG);
SAME(PMIX_ABI_EXTERNAL_ERR_BASE, PMIX_EXTERNAL_ERR_BASE);
SAME(sizeof(uint8_t), sizeof(pmix_data_range_t));
SAME(PMIX_ABI_RANK_WILDCARD, PMIX_RANK_WILDCARD);
_Static_assert(!__builtin_strcmp(PMIX_ABI_TIMEOUT, PMIX_TIMEOUT), "a key");
_Static_assert(!__builtin_strcmp(PMIX_ABI_JOB_SIZE, PMIX_JOB_SIZE), "a key");

SAME(sizeof(struct own_proc), sizeof(pmix_proc_t));
SAME(offsetof(struct own_proc, rank), offsetof(pmix_proc_t, rank));
SAME(sizeof(struct own_value), sizeof(pmix_value_t));
SAME(offsetof(struct own_value, data), offsetof(pmix_value_t, data));
SAME(sizeof(struct pmix_bytes), sizeof(pmix_byte_object_t));
SAME(offsetof(struct pmix_bytes, size), offsetof(pmix_byte_object_t, size));
SAME(sizeof(struct own_info), sizeof(pmix_info_t));
SAME(offsetof(struct own_info, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(struct own_info, value), offsetof(pmix_info_t, value));
SAME(sizeof(uint8_t), sizeof(pmix_scope_t));
SAME(sizeof(int), sizeof(pmix_status_t));

/* The constants of a launcher */
SAME(PMIX_ABI_ERR_NOT_SUPPORTED, PMIX_ERR_NOT_SUPPORTED);
SAME(PMIX_ABI_OPERATION_SUCCEEDED, PMIX_OPERATION_SUCCEEDED);
SAME(PMIX_ABI_EVENT_ACTION_COMPLETE, PMIX_EVENT_ACTION_COMPLETE);
SAME(PMIX_ABI_INFO, PMIX_INFO);
SAME(PMIX_ABI_DATA_ARRAY, PMIX_DATA_ARRAY);
SAME(PMIX_ABI_PROC_RANK, PMIX_PROC_RANK);

#define SAME_KEY(key)                                                          \
	_Static_assert(!__builtin_strcmp(PMIX_ABI_##key, PMIX_##key), "a key")

SAME_KEY(OPTIONAL);
SAME_KEY(RM_NAME);
SAME_KEY(EVENT_AFFECTED_PROC);
SAME_KEY(EVENT_CUSTOM_RANGE);
SAME_KEY(EVENT_NON_DEFAULT);
SAME_KEY(EVENT_DO_NOT_CACHE);
SAME_KEY(PROCID);
SAME_KEY(UNIV_SIZE);
SAME_KEY(MAX_PROCS);
SAME_KEY(SERVER_TMPDIR);
SAME_KEY(SYSTEM_TMPDIR);
SAME_KEY(TCP_IF_INCLUDE);
SAME_KEY(PROC_DATA);
SAME_KEY(RANK);
SAME_KEY(GLOBAL_RANK);
_Static_assert(!__builtin_strcmp(PMIX_ABI_REMOTE_CONNECTIONS,
                                 PMIX_SERVER_REMOTE_CONNECTIONS),
               "a key");

SAME(sizeof(struct pmix_array), sizeof(pmix_data_array_t));
SAME(offsetof(struct pmix_array, size), offsetof(pmix_data_array_t, size));
SAME(offsetof(struct pmix_array, array), offsetof(pmix_data_array_t, array));
SAME(sizeof(uint32_t), sizeof(pmix_rank_t));

#define SAME_PLACE(function)                                                   \
	SAME(offsetof(struct pmix_server_module, function),                    \
	     offsetof(pmix_server_module_t, function))

SAME_PLACE(client_connected);
SAME_PLACE(client_finalized);
SAME_PLACE(abort);
SAME_PLACE(fence_nb);
SAME_PLACE(notify_event);
SAME_PLACE(job_control);
_Static_assert(sizeof(struct pmix_server_module) >=
                       sizeof(pmix_server_module_t),
               "the module is read whole");
