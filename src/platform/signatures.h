/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_SIGNATURES_H
#define PLATFORM_SIGNATURES_H

/*
 * Macros for the entries of lists of functions, which name each parameter once
 */

/* clang-format off */
/* List a function.  @pairs are the types and names of its parameters, such as
 * (int *, count, int, device), from which X gets (int *count, int device) and
 * (count, device). */
#define FN(X, since, result, name, pairs) \
	X(since, result, name, FN_PARAMETERS pairs, FN_ARGUMENTS pairs)
#define NCCL_FN(X, since, name, pairs) FN(X, since, ncclResult_t, name, pairs)
#define CUDA_FN(X, since, name, pairs) FN(X, since, cudaError_t, name, pairs)

#define FN_PARAMETERS(...) (FN_EACH(FN_PARAMETER, __VA_ARGS__))
#define FN_PARAMETER(type, name) type name
#define FN_PARAMETER_NONE void
#define FN_ARGUMENTS(...) (FN_EACH(FN_ARGUMENT, __VA_ARGS__))
#define FN_ARGUMENT(type, name) name
#define FN_ARGUMENT_NONE

/* Expand @part for each of up to 11 pairs, or @part_NONE if there is none. */
#define FN_EACH(part, ...) \
	FN_PICK(__VA_ARGS__, FN_11, , FN_10, , FN_9, , FN_8, , FN_7, , FN_6, , \
	        FN_5, , FN_4, , FN_3, , FN_2, , FN_1, FN_0, )(part, __VA_ARGS__)
#define FN_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, \
                u, v, picked, ...) picked
#define FN_0(part, none) part##_NONE
#define FN_1(part, t, n) part(t, n)
#define FN_2(part, t, n, ...) part(t, n), FN_1(part, __VA_ARGS__)
#define FN_3(part, t, n, ...) part(t, n), FN_2(part, __VA_ARGS__)
#define FN_4(part, t, n, ...) part(t, n), FN_3(part, __VA_ARGS__)
#define FN_5(part, t, n, ...) part(t, n), FN_4(part, __VA_ARGS__)
#define FN_6(part, t, n, ...) part(t, n), FN_5(part, __VA_ARGS__)
#define FN_7(part, t, n, ...) part(t, n), FN_6(part, __VA_ARGS__)
#define FN_8(part, t, n, ...) part(t, n), FN_7(part, __VA_ARGS__)
#define FN_9(part, t, n, ...) part(t, n), FN_8(part, __VA_ARGS__)
#define FN_10(part, t, n, ...) part(t, n), FN_9(part, __VA_ARGS__)
#define FN_11(part, t, n, ...) part(t, n), FN_10(part, __VA_ARGS__)
/* clang-format on */

#endif
