/* SPDX-License-Identifier: Apache-2.0 */

/* The program of cohort.c for MPI, which returns errors to the caller. */

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 1000

static int reduce(float *values)
{
	return MPI_Allreduce(MPI_IN_PLACE, values, COUNT, MPI_FLOAT, MPI_SUM,
	                     MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	static float values[COUNT];
	char text[MPI_MAX_ERROR_STRING];
	int rank, ranks, length, rc;
	double began;

	setvbuf(stdout, NULL, _IOLBF, 0);
	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	reduce(values);
	if (rank == ranks - 1)
		for (;;)
			pause(); /* this rank does not call */
	if (rank == 0)
		printf("waits\n");
	began = MPI_Wtime();
	rc = reduce(values);
	MPI_Error_string(rc, text, &length);
	if (rank == 0)
		printf("said %.3f %s\n", MPI_Wtime() - began, text);
	if (rank == 0)
		printf("lives an error code\n");
	MPI_Abort(MPI_COMM_WORLD, 0);
}
