/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REFERENCE_H
#define REFERENCE_H

/*
 * What every collective must compute, the slow and obvious way
 *
 * The arithmetic that cohort/types.h states for the host platform, one element at a
 * time.  All functions are pure but for tables made on first use; call
 * reference_begin() before several threads use them.  Types and operations are
 * enum cohort_type and enum cohort_op; buffers need no alignment.
 */

#include <stdbool.h>
#include <stddef.h>

/* Make the tables.  Once, before other threads start. */
void reference_begin(void);

/* Bytes of an element, from the public list and nowhere else. */
size_t reference_size(int type);

/* True for the types that have NaN and signed zeros. */
bool reference_is_float(int type);

/* Value of a 16- or 8-bit float, and the one nearest to @value: nearest even;
 * beyond the range infinity (16 bits) or the largest finite (8 bits). */
double reference_decode(int type, unsigned bits);
unsigned reference_encode(int type, double value);

/* Fold of in[0] ... in[n - 1] in this order, @count elements. */
void reference_reduce(void *out, const void *const in[], int n, size_t count,
                      int type, int op);

/* in[0] ... in[n - 1], @count elements each, behind each other. */
void reference_all_gather(void *out, const void *const in[], int n,
                          size_t count, int type);

/* Block number @rank, of @count elements, of the fold. */
void reference_reduce_scatter(void *out, const void *const in[], int n,
                              size_t count, int type, int op, int rank);

/* A copy of in[root]. */
void reference_broadcast(void *out, const void *const in[], size_t count,
                         int type, int root);

/* Block number @rank, of @count elements, of each input, behind each other. */
void reference_all_to_all(void *out, const void *const in[], int n,
                          size_t count, int type, int rank);

/* Block number @rank, of @count elements, of in[root]. */
void reference_scatter(void *out, const void *const in[], size_t count,
                       int type, int root, int rank);

/* @in times one element, each product rounded to the type. */
void reference_scale(void *out, const void *in, const void *scalar,
                     size_t count, int type);

/*
 * The first element at which @a and @b differ, @count if none does.  Bytes
 * must be equal; but any NaN equals any other NaN of its type, as which one it
 * is is not stated.
 */
size_t reference_compare(const void *a, const void *b, size_t count, int type);

#endif
