# The few commands of Quire. Everything is done by the scripts in scripts/, which install what is
# missing from the system's packages and build with CMake's presets into build/.

.PHONY: help demo test install bench asan tsan fuzz soak format clean

help:
	@echo "make demo    build, and assemble a genome from real reads on 4 ranks"
	@echo "make test    build, and run all tests (some of them: scripts/test -R NAME)"
	@echo "make install PREFIX=/usr/local [SHARED=yes]    build and install the library and its tools"
	@echo "make bench   build, and run every benchmark: an hour or so"
	@echo "make asan    the tests with AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make tsan    the tests with ThreadSanitizer, over the simulated transport"
	@echo "make fuzz    every fuzzer for a minute (clang)"
	@echo "make soak    the long runs, with new seeds: HOURS=6"
	@echo "make format  clang-format on all sources"
	@echo "make clean   remove build/"
	@echo "QUIRE_MPI_FLAVOR=openmpi|mpich picks the MPI; openmpi by default."

demo:
	@scripts/demo

test:
	@scripts/test

install:
	@PREFIX='$(PREFIX)' SHARED='$(SHARED)' scripts/install

bench:
	@scripts/bench

asan tsan:
	@scripts/sanitize $@

fuzz:
	@QUIRE_FUZZ_SECONDS=$${QUIRE_FUZZ_SECONDS:-60} scripts/fuzz

soak:
	@scripts/soak --hours $${HOURS:-6}

format:
	@git ls-files '*.h' '*.cpp' '*.c' | xargs clang-format -i

clean:
	@rm -rf build
