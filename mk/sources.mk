# SPDX-License-Identifier: Apache-2.0
#
# Source lists: all sources of each directory

sorted = $(sort $(wildcard $1))

library_sources := $(call sorted,$(patsubst %,src/%/*.c,api base core dump processes \
                     platform platform/gpu reducer sim sim/cuda sim/driver \
                     sim/exec sim/nccl sim/strict watch))
command_sources := $(call sorted,src/cli/*.c src/cli/*/*.[cS])
# Sources of the drop-in libraries, which forward to the simulator.
drop_in_sources := $(call sorted,src/sim/dropin/*.c)
# Sources that replace a runtime that is linked into a program; that load NVIDIA's NCCL;
# and of its kernels.
static_sources  := $(patsubst %,src/sim/nvidia/%.c,nccl_image patch static_runtime)
nvidia_sources  := $(call sorted,$(filter-out %/static_runtime.c,$(wildcard src/sim/nvidia/*.c)))
kernel_sources  := $(call sorted,src/sim/nvidia/kernel/*.c)
shim_sources    := $(call sorted,src/shim/*.c)
public_headers  := $(notdir $(call sorted,include/cohort/*.h))
cpp_headers     := $(notdir $(call sorted,include/cohort/*.hpp))

unit_sources     := $(call sorted,tests/unit/*.c)
api_sources      := $(call sorted,tests/api/*.c)
sim_sources      := $(call sorted,tests/sim/*.c)
# Helpers that need Criterion, linked only into suites; the others of that directory do not.
suite_support    := $(patsubst %,tests/support/%.c,certificates doomed skip spread)
support_sources  := $(filter-out $(suite_support),$(call sorted,tests/support/*.c))
replay_sources   := tests/system/fuzz/replay.c
mutate_sources   := tests/system/fuzz/mutate.c
fuzz_sources     := $(filter-out $(replay_sources) $(mutate_sources),\
                      $(call sorted,tests/system/fuzz/*.c))

# Directories in which each source is a program.
programs = $(patsubst %.c,%,$(notdir $(call sorted,$1)))
fault_tests  := $(call programs,tests/system/fault/*.c)
gpu_tests    := $(call programs,tests/gpu/*.c)
stress_tests := $(call programs,tests/system/stress/*.c)
bench_support  := empty walk_report ways
bench_programs := $(filter-out $(bench_support) peer average_peer,\
                    $(call programs,bench/*.c))

objects = $(patsubst %,$(dir)/%.o,$(basename $1))

library_objects := $(call objects,$(library_sources))
kernel_objects  := $(call objects,$(kernel_sources))
command_objects := $(call objects,$(command_sources))
suite_objects   := $(call objects,$(unit_sources) $(api_sources) \
                     $(sim_sources) $(suite_support))
support_objects := $(call objects,$(support_sources))
fuzz_objects    := $(call objects,$(fuzz_sources))
replay_objects  := $(call objects,$(replay_sources))
mutate_objects  := $(call objects,$(mutate_sources))
