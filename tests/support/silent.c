/* SPDX-License-Identifier: Apache-2.0 */

#include "support/silent.h"

#include <stdbool.h>
#include <unistd.h>

/*
 * Block in vfork(). Until the child exits, the kernel suspends the calling
 * thread and delivers no signals to it. The child polls for its parent, so that
 * it does not outlive a failed test.
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
