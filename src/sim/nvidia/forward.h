/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_FORWARD_H
#define SIM_NVIDIA_FORWARD_H

/* Let the functions of this library jump to those of @library, or fail because of @why,
 * which is kept. */
void forward_to(void *library);
void forward_nowhere(const char *why);

#endif
