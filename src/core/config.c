/* SPDX-License-Identifier: Apache-2.0 */

#include "core/config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

bool config_is_default(const struct comm_config *c)
{
	return !c->min_ctas && !c->max_ctas && !c->cga_cluster_size &&
	       !c->traffic_class && !*c->net_name;
}

struct kept {
	struct kept *next;
	char text[];
};

/* @text in memory that is never freed, once; NULL without memory: a
 * communicator can do without. */
static const char *keep(const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct kept *all; /* guarded by lock */
	struct kept *k;

	pthread_mutex_lock(&lock);
	for (k = all; k && strcmp(k->text, text) != 0; k = k->next)
		;
	if (!k) {
		k = malloc(sizeof(*k) + strlen(text) + 1);
		if (k) {
			strcpy(k->text, text);
			k->next = all;
			all = k;
		}
	}
	pthread_mutex_unlock(&lock);
	return k ? k->text : NULL;
}

static int or_undefined(int value)
{
	return value ? value : NCCL_CONFIG_UNDEF_INT;
}

ncclConfig_t config_native(const struct comm_config *c, const char *name)
{
	ncclConfig_t native = NCCL_CONFIG_INITIALIZER;

	native.blocking = 1;
	/* A child that shared its parent's memory would share its abort
	 * flag. */
	native.splitShare = 0;
	native.minCTAs = or_undefined(c->min_ctas);
	native.maxCTAs = or_undefined(c->max_ctas);
	native.cgaClusterSize = or_undefined(c->cga_cluster_size);
	native.trafficClass = or_undefined(c->traffic_class);
	native.netName =
		*c->net_name ? keep(c->net_name) : NCCL_CONFIG_UNDEF_PTR;
	native.commName = keep(name);
	return native;
}

/* What would change the meaning of NCCL's calls behind our back. */
static const struct {
	const char *name, *value, *why;
} refused[] = {
	{ "NCCL_COMM_BLOCKING", "0",
	  "calls would return before they are done" },
	{ "NCCL_LAUNCH_MODE", "GROUP",
	  "ranks would wait for each other where no abort reaches" },
	{ "NCCL_COMM_SPLIT_SHARE_RESOURCES", "1",
	  "what is split from a communicator would be aborted with it" },
};

#define N_REFUSED (sizeof(refused) / sizeof(refused[0]))

const char *environment_refuses(const char *name, const char *value)
{
	size_t i;

	for (i = 0; i < N_REFUSED; i++)
		if (strcmp(name, refused[i].name) == 0 &&
		    strcmp(value, refused[i].value) == 0)
			return refused[i].why;
	return NULL;
}

int environment_check(void)
{
	const char *value, *why;
	size_t i;

	for (i = 0; i < N_REFUSED; i++) {
		value = getenv(refused[i].name);
		why = value ? environment_refuses(refused[i].name, value)
		            : NULL;
		if (why)
			return error_set(
				COHORT_INVALID,
				"%s is \"%s\" in the environment, or in a "
				"file of NCCL's settings: %s",
				refused[i].name, value, why);
	}
	return COHORT_OK;
}
