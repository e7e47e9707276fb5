# Tests: unit tests (Criterion), the same under sanitizers, fuzzers, and end-to-end tests on real jobs.

UNIT_SOURCES := $(wildcard tests/unit/*_test.c)
UNIT_PROGRAMS := $(UNIT_SOURCES:%.c=$(BUILD)/%)

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/libhdtrace.a
	@mkdir -p $(@D)
	$(call say,TEST)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(BUILD)/libhdtrace.a -lcriterion $(LIBS) $(LDFLAGS)

unit: $(UNIT_PROGRAMS)
	@set -e; for program in $(UNIT_PROGRAMS); do $$program; done

.PHONY: unit
