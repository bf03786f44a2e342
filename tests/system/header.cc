// SPDX-License-Identifier: Apache-2.0

// The public headers in strict C++17: the same program as in C.

#include "header.c"
