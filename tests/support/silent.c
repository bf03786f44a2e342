/* SPDX-License-Identifier: Apache-2.0 */

#include "support/silent.h"

#include <stdbool.h>
#include <unistd.h>

/*
 * The system lets no thread answer a signal while its child has its memory
 * (vfork).  The child does not outlive a test that failed.
 */
void silent_until(atomic_bool *is_there, const atomic_bool *may_go)
{
	pid_t parent = getpid();

	if (vfork() == 0) {
		atomic_store(is_there, true);
		while (!atomic_load(may_go) && getppid() == parent)
			usleep(1000);
		_exit(0);
	}
}
