/* SPDX-License-Identifier: Apache-2.0 */

/* Check the versions of NCCL and CUDA, recognize libraries that only look like
 * NCCL, and compile notes on usable versions (known.c) */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "platform/gpu/gpu.h"
#include "platform/gpu/known.h"

const char *nccl_version_text(int version, char text[VERSION_TEXT_SIZE])
{
	/* Up to NCCL 2.8 the minor number had one digit. */
	int unit = version < 10000 ? 1000 : 10000;

	snprintf(text, VERSION_TEXT_SIZE, "%d.%d.%d", version / unit,
	         version % unit / 100, version % 100);
	return text;
}

const char *cuda_version_text(int version, char text[VERSION_TEXT_SIZE])
{
	snprintf(text, VERSION_TEXT_SIZE, "%d.%d", version / 1000,
	         version % 1000 / 10);
	return text;
}

static bool has(void *library, const char *symbol)
{
	return dlsym(library, symbol);
}

/* Return a description of a library that imitates NCCL, or NULL for NCCL. */
static const char *imitation_of_nccl(const struct gpu_libraries *l)
{
	/* dlsym() also searches the dependencies of the library. */
	if (has(l->nccl, "hipGetDeviceCount"))
		return "RCCL, for AMD's devices";
	/* NCCL's version numbers have been above 1000 since 2015. */
	if (l->nccl_version > 0 && l->nccl_version < 1000)
		return "not NCCL, but probably MSCCL++";
	return NULL;
}

int gpu_check_cuda(const struct gpu_libraries *l)
{
	char is[VERSION_TEXT_SIZE], oldest[VERSION_TEXT_SIZE];

	if (!l->cudart_version)
		return error_set(COHORT_NO_SYMBOL,
		                 "libcudart (%s) does not report its version",
		                 l->cudart_file);
	if (l->cudart_version >= OLDEST_CUDA)
		return COHORT_OK;
	return error_set(COHORT_UNSUPPORTED,
	                 "%s is CUDA %s; %s or newer is needed", l->cudart_file,
	                 cuda_version_text(l->cudart_version, is),
	                 cuda_version_text(OLDEST_CUDA, oldest));
}

int gpu_check_nccl(const struct gpu_libraries *l)
{
	char is[VERSION_TEXT_SIZE], oldest[VERSION_TEXT_SIZE];
	const char *truth = imitation_of_nccl(l);

	if (truth)
		return error_set(COHORT_UNSUPPORTED,
		                 "%s is %s (version %d); NCCL is needed",
		                 l->nccl_file, truth, l->nccl_version);
	if (!l->nccl_version)
		return error_set(COHORT_NO_SYMBOL,
		                 "libnccl (%s) does not report its version",
		                 l->nccl_file);
	if (l->nccl_version >= OLDEST_NCCL)
		return COHORT_OK;
	return error_set(COHORT_UNSUPPORTED,
	                 "%s is NCCL %s; %s or newer is needed", l->nccl_file,
	                 nccl_version_text(l->nccl_version, is),
	                 nccl_version_text(OLDEST_NCCL, oldest));
}

static void add_note(struct text *t, const char *notes, const char *note)
{
	text_add(t, "%s%s", *notes ? " " : "", note);
}

static void add_lacks(struct text *t, const struct platform *table)
{
	const char *before = "NCCL has no";

#define ADD_LACKS(since, result, name, parameters, arguments)                  \
	if (!platform_has(table, FUNCTION_##name)) {                           \
		text_add(t, "%s %s", before, #name);                           \
		before = ",";                                                  \
	}
	NCCL_FUNCTIONS(ADD_LACKS)
#undef ADD_LACKS
	if (*before == ',')
		text_add(t, ".");
}

const char *gpu_notes(const struct gpu_libraries *l,
                      const struct platform *table)
{
	static char notes[2048]; /* guarded by the caller's lock */
	struct text t = { notes, sizeof(notes) };
	size_t i;

	if (notes[0])
		return notes;
	add_lacks(&t, table);
	if (l->are_ours)
		return notes;
	add_note(&t, notes,
	         "With several GPUs in one process, memory operations and the "
	         "first use of a kernel may wait for kernels on all of them; "
	         "set CUDA_MODULE_LOADING=EAGER, and allocate before the "
	         "collectives begin.");
	if (has(l->nccl, "mscclLoadAlgo"))
		add_note(&t, notes,
		         "The NCCL library is MSCCL, a variant of NCCL.");
	for (i = 0; i < known_version_count; i++)
		if (known_versions[i].of == KNOWN_NCCL &&
		    known_versions[i].is_noted &&
		    l->nccl_version >= known_versions[i].first &&
		    l->nccl_version <= known_versions[i].last)
			add_note(&t, notes, known_versions[i].what);
	return notes;
}
