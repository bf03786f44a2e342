/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REFERENCE_H
#define REFERENCE_H

/*
 * What every collective must compute, the slow and obvious way
 *
 * This is the arithmetic that cohort/types.h states for the host platform, one
 * element at a time.  All functions are pure except for tables that are made on
 * first use; call reference_begin() before several threads use them.  Types and
 * operations are enum cohort_type and enum cohort_op; buffers need no
 * alignment.
 */

#include <stdbool.h>
#include <stddef.h>

/* Make the tables, once, before other threads start. */
void reference_begin(void);

/* Bytes of an element, taken from the public list alone. */
size_t reference_size(int type);

/* True for the types that have NaN and signed zeros. */
bool reference_is_float(int type);

/*
 * The value of a 16- or 8-bit float, and the float nearest to @value: ties go
 * to even; beyond the range to infinity (16 bits) or the largest finite one (8
 * bits).
 */
double reference_decode(int type, unsigned bits);
unsigned reference_encode(int type, double value);

/* The fold of in[0] ... in[n - 1] in this order, @count elements. */
void reference_reduce(void *out, const void *const in[], int n, size_t count,
                      int type, int op);

/* in[0] ... in[n - 1], @count elements each, one behind the other. */
void reference_all_gather(void *out, const void *const in[], int n,
                          size_t count, int type);

/* Block number @rank, of @count elements, of the fold. */
void reference_reduce_scatter(void *out, const void *const in[], int n,
                              size_t count, int type, int op, int rank);

/* A copy of in[root]. */
void reference_broadcast(void *out, const void *const in[], size_t count,
                         int type, int root);

/*
 * Block number @rank, of @count elements, of each input, one behind the other.
 */
void reference_all_to_all(void *out, const void *const in[], int n,
                          size_t count, int type, int rank);

/* Block number @rank, of @count elements, of in[root]. */
void reference_scatter(void *out, const void *const in[], size_t count,
                       int type, int root, int rank);

/* Every element of @in times one scalar, each product rounded to the type. */
void reference_scale(void *out, const void *in, const void *scalar,
                     size_t count, int type);

/*
 * The index of the first element at which @a and @b differ, @count if none
 * does.  Bytes must be equal, except that any NaN equals any other NaN of its
 * type: nothing states which NaN a collective gives.
 */
size_t reference_compare(const void *a, const void *b, size_t count, int type);

#endif
