/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_ACCEPT_H
#define SIM_NVIDIA_ACCEPT_H

/* Have @library, NVIDIA's NCCL, pause between two looks for a rank that connects.
 * Without an accept() of its own it is left as it is. */
void accept_with_pauses(void *library);

#endif
