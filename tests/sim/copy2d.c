/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of two-dimensional copies and memset, and of copies between devices, on
 * the host platform
 */

#include <criterion/criterion.h>
#include <string.h>

#include "sim/host.h"
#include "support/native.h"

static const struct platform *p;
static cudaStream_t stream;

/* Three rows of 4 bytes, with pitches of 5 bytes and of 6 bytes */
static const char from[15] = "abcd.efgh.ijkl.";
static char to[18];

static void open_two(void)
{
	p = native_open_host(2);
	stream = native_stream(p, 0);
	memset(to, '-', sizeof(to));
}

static void close_two(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TestSuite(copy2d, .init = open_two, .fini = close_two, .timeout = 10);

Test(copy2d, copy2d_moves_rows_and_nothing_between)
{
	cr_assert_eq(host_cudaMemcpy2D(to, 6, from, 5, 4, 3, cudaMemcpyDefault),
	             cudaSuccess);
	cr_assert_arr_eq(to, "abcd--efgh--ijkl--", 18);
}

Test(copy2d, copy2d_of_no_bytes_does_nothing)
{
	cr_assert_eq(host_cudaMemcpy2D(to, 6, from, 5, 0, 3, cudaMemcpyDefault),
	             cudaSuccess);
	cr_assert_eq(host_cudaMemcpy2D(to, 6, from, 5, 4, 0, cudaMemcpyDefault),
	             cudaSuccess);
	cr_assert_eq(host_cudaMemset2D(to, 6, 'x', 4, 0), cudaSuccess);
	cr_assert_eq(to[0], '-');
}

Test(copy2d, copy2d_checks_its_arguments)
{
	cr_assert_eq(host_cudaMemcpy2D(to, 3, from, 5, 4, 3, cudaMemcpyDefault),
	             cudaErrorInvalidPitchValue);
	cr_assert_eq(host_cudaMemcpy2D(to, 6, from, 3, 4, 3, cudaMemcpyDefault),
	             cudaErrorInvalidPitchValue);
	cr_assert_eq(host_cudaMemcpy2D(to, (size_t)1 << 31, from, 5, 4, 3,
	                               cudaMemcpyDefault),
	             cudaErrorInvalidPitchValue);
	cr_assert_eq(host_cudaMemcpy2D(to, 6, from, 5, 4, 3,
	                               (enum cudaMemcpyKind)5),
	             cudaErrorInvalidMemcpyDirection);
	cr_assert_eq(host_cudaMemcpy2D(NULL, 6, from, 5, 4, 3,
	                               cudaMemcpyDefault),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemset2D(to, 3, 'x', 4, 3),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaMemset2D(NULL, 6, 'x', 4, 3),
	             cudaErrorInvalidValue);
	cr_assert_eq(p->cudaMemcpy(to, from, 4, (enum cudaMemcpyKind)5),
	             cudaErrorInvalidMemcpyDirection);
}

Test(copy2d, memset2d_of_one_row_needs_no_pitch)
{
	cr_assert_eq(host_cudaMemset2D(to, 0, 'x', 4, 1), cudaSuccess);
	cr_assert_arr_eq(to, "xxxx--------------", 18);
	cr_assert_eq(host_cudaMemset2D(to, 6, 'y', 4, 3), cudaSuccess);
	cr_assert_arr_eq(to, "yyyy--yyyy--yyyy--", 18);
}

/* The memory is pinned, so no call waits. */
Test(copy2d, copy2d_and_memset2d_run_in_stream_order)
{
	struct native_gate gate;
	void *m;
	char *at;

	native_must(p->cudaMallocHost(&m, 18), "cudaMallocHost");
	at = m;
	memset(at, '-', 18);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(host_cudaMemset2DAsync(at, 6, 'x', 2, 2, stream),
	             cudaSuccess);
	cr_assert_eq(host_cudaMemcpy2DAsync(at + 12, 6, at, 6, 4, 1,
	                                    cudaMemcpyDefault, stream),
	             cudaSuccess);
	cr_assert_eq(at[0], '-');
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_arr_eq(at, "xx----xx----xx----", 18);
	p->cudaFreeHost(m);
}

Test(copy2d, large_copy2d_is_done_in_parts)
{
	const size_t row = 4096, rows = 1024;
	size_t pitch = 0;
	char *a, *b;
	void *m[2];

	cr_assert_eq(host_cudaMallocPitch(&m[0], &pitch, row - 100, rows),
	             cudaSuccess);
	cr_assert_eq(pitch, row);
	cr_assert_eq(host_cudaMallocPitch(&m[1], &pitch, row - 100, rows),
	             cudaSuccess);
	a = m[0];
	b = m[1];
	memset(b, 0, row * rows);
	cr_assert_eq(host_cudaMemset2DAsync(a, pitch, 3, row - 100, rows,
	                                    stream),
	             cudaSuccess);
	cr_assert_eq(host_cudaMemcpy2DAsync(b, pitch, a, pitch, row - 100, rows,
	                                    cudaMemcpyDeviceToDevice, stream),
	             cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(b[row * (rows - 1) + row - 101], 3);
	cr_assert_eq(b[row * (rows - 1) + row - 100], 0);
	p->cudaFree(a);
	p->cudaFree(b);
}

Test(copy2d, peer_copy_works_between_devices)
{
	cr_assert_eq(host_cudaMemcpyPeer(to, 1, from, 0, 15), cudaSuccess);
	cr_assert_arr_eq(to, from, 15);
	cr_assert_eq(host_cudaMemcpyPeerAsync(to, 0, from + 5, 1, 4, stream),
	             cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_arr_eq(to, "efgh", 4);
	cr_assert_eq(host_cudaMemcpyPeer(to, 2, from, 0, 15),
	             cudaErrorInvalidDevice);
	cr_assert_eq(host_cudaMemcpyPeerAsync(to, 0, from, -1, 4, stream),
	             cudaErrorInvalidDevice);
}
