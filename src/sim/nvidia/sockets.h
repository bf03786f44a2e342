/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_SOCKETS_H
#define SIM_NVIDIA_SOCKETS_H

/* Have @library, NVIDIA's NCCL, pause between two looks at a socket.  What it
 * does not import from libc is left as it is. */
void sockets_with_pauses(void *library);

#endif
