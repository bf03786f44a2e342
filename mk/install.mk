# SPDX-License-Identifier: Apache-2.0
#
# Installation

prefix     ?= /usr/local
bindir     ?= $(prefix)/bin
includedir ?= $(prefix)/include
libdir     ?= $(prefix)/lib

install: all
	install -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(includedir)/cohort' \
	  '$(DESTDIR)$(libdir)/pkgconfig'
	install -m 755 $(out)/cohort '$(DESTDIR)$(bindir)'
	install -m 644 $(public_headers:%=include/cohort/%) \
	  '$(DESTDIR)$(includedir)/cohort'
	install -m 755 $(shared) '$(DESTDIR)$(libdir)'
	cp -P $(lib)/libcohort.so.$(major) $(lib)/libcohort.so \
	  '$(DESTDIR)$(libdir)'
	install -m 644 $(lib)/libcohort.a '$(DESTDIR)$(libdir)'
	install -d '$(DESTDIR)$(libdir)/cohort/drop-in'
	install -m 755 $(host_library) $(nccl_library) $(cudart) \
	  '$(DESTDIR)$(libdir)/cohort/drop-in'
	cp -P $(drop_in_links) '$(DESTDIR)$(libdir)/cohort/drop-in'
	install -m 644 $(lib)/cohort.pc '$(DESTDIR)$(libdir)/pkgconfig'

uninstall:
	rm -f '$(DESTDIR)$(bindir)/cohort' \
	  '$(DESTDIR)$(libdir)/pkgconfig/cohort.pc' \
	  $(patsubst %,'$(DESTDIR)$(libdir)/%',$(filter libcohort.%,$(notdir $(library))))
	rm -f $(public_headers:%='$(DESTDIR)$(includedir)/cohort/%')
	rm -f $(patsubst $(lib)/%,'$(DESTDIR)$(libdir)/cohort/%',$(drop_ins))
	-rmdir '$(DESTDIR)$(includedir)/cohort' \
	  '$(DESTDIR)$(libdir)/cohort/drop-in' '$(DESTDIR)$(libdir)/cohort'
