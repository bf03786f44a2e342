/* SPDX-License-Identifier: Apache-2.0 */

/* Unique IDs, and the joins by them */

#include "api/join.h"

#include <string.h>
#include <unistd.h>

#include "api/communicator.h"
#include "api/options.h"
#include "base/environment.h"
#include "base/process.h"
#include "base/status.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* ---- ids -------------------------------------------------------------- */

#define ID_MAGIC UINT32_C(0x63684964)

_Static_assert(sizeof(struct join_id) <= sizeof(struct cohort_unique_id),
               "an id has room");

int cohort_unique_id(int platform, struct cohort_unique_id *out)
{
	const struct platform *p;
	struct join_id id = { .magic = ID_MAGIC, .process = getpid() };
	int rc;

	if (!out)
		return error_set(COHORT_INVALID, "id is NULL");
	process_watch();
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = platform_open(platform, &p);
	if (rc == COHORT_OK)
		rc = NATIVE_NCCL(p, NULL, ncclGetUniqueId, (&id.native));
	if (rc != COHORT_OK)
		return rc;
	id.platform = p->kind;
	id.instance = process_number();
	*out = (struct cohort_unique_id){ { 0 } };
	memcpy(out->bytes, &id, sizeof(id));
	return COHORT_OK;
}

ncclUniqueId join_native_id(const struct cohort_unique_id *bytes,
                            const struct platform **platform)
{
	struct join_id id;

	memcpy(&id, bytes->bytes, sizeof(id));
	platform_open(id.platform, platform);
	return id.native;
}

/* ---- joining ---------------------------------------------------------- */

/* Let @abort end the clique of @c from now on.  Close @c if this fails, or if
 * @abort has been fired already. */
static int follow(struct cohort_comm *c, struct cohort_abort *abort)
{
	char error[256];
	int rc = cause_forward(abort, c->clique->end);

	if (rc == COHORT_OK)
		return rc;
	text_set(error, sizeof(error), "%s", cohort_last_error());
	cohort_comm_close(c);
	return error_set(rc, "%s", error);
}

int join_read_id(const struct cohort_unique_id *bytes, int wanted,
                 const char *how, struct join_id *id,
                 const struct platform **platform_out)
{
	int rc;

	memcpy(id, bytes->bytes, sizeof(*id));
	if (id->magic != ID_MAGIC)
		return error_set(COHORT_INVALID,
		                 "id was not made by cohort_unique_id()");
	if (wanted != COHORT_PLATFORM_AUTO && wanted != id->platform)
		return error_set(COHORT_INVALID,
		                 "%s is %d, but the id is for platform %d", how,
		                 wanted, id->platform);
	rc = platform_open(id->platform, platform_out);
	if (rc == COHORT_OK && (*platform_out)->is_one_process &&
	    (id->process != getpid() || id->instance != process_number()))
		return error_set(
			COHORT_UNSUPPORTED,
			"the id was created in process %lld, but this is "
			"process %lld: the %s platform joins ranks of "
			"one process only, unless COHORT_HOST_SHARED=1 is set",
			(long long)id->process, (long long)getpid(),
			(*platform_out)->name);
	return rc;
}

static int place_check(const struct platform *p, int size, int rank, int device)
{
	int count, rc;

	if (size < 1 || size > COHORT_MAX_RANKS)
		return error_set(COHORT_INVALID, "nranks is %d, not 1 to %d",
		                 size, COHORT_MAX_RANKS);
	if (rank < 0 || rank >= size)
		return error_set(COHORT_INVALID, "rank is %d, not 0 to %d",
		                 rank, size - 1);
	rc = NATIVE_CUDA(p, cudaGetDeviceCount, (&count));
	if (rc != COHORT_OK)
		return rc;
	if (device < 0 || device >= count)
		return error_set(COHORT_INVALID, "device is %d, not 0 to %d",
		                 device, count - 1);
	return COHORT_OK;
}

int cohort_comm_join(const struct cohort_unique_id *id, int nranks, int rank,
                     int device, const struct cohort_group_options *options,
                     struct cohort_comm **comm)
{
	struct cohort_group_options o;
	struct join_arguments a = {
		.size = nranks, .rank = rank, .device = device, .options = &o
	};
	struct log log;
	int rc;

	if (!id || !comm)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 id ? "comm" : "id");
	process_watch();
	rc = process_check_closely();
	if (rc == COHORT_OK)
		rc = memory_section_check("comm_join");
	if (rc == COHORT_OK)
		rc = options_read(options, &o);
	if (rc != COHORT_OK)
		return rc;
	log = log_parse(o.log);
	environment_report(&log);
	rc = environment_check();
	if (rc == COHORT_OK && o.bootstrap)
		rc = error_set(COHORT_INVALID,
		               "options->bootstrap is set, but ranks that join "
		               "find each other by id: leave it NULL");
	if (rc == COHORT_OK)
		rc = join_read_id(id, o.platform, "options->platform", &a.id,
		                  &a.platform);
	if (rc == COHORT_OK)
		rc = place_check(a.platform, nranks, rank, device);
	if (rc == COHORT_OK)
		rc = join_meet(&a, o.abort, comm);
	return rc == COHORT_OK && o.abort ? follow(*comm, o.abort) : rc;
}
