# The README's commands. Everything else is CMake: `cmake --list-presets`.
MODEL ?=
ARGS ?=

.PHONY: build serve chat bench test test-asan test-cuda fuzz bundle format clean

build: packages-build
	cmake --preset release -DROSE_TESTS=OFF >/dev/null
	cmake --build build --target rose

serve: build
	build/rose serve $(MODEL) $(ARGS)

chat: build
	build/rose chat $(MODEL) $(ARGS)

bench: build
	build/rose bench latency $(MODEL) $(ARGS)
	build/rose bench throughput $(MODEL) $(ARGS)

# Everything CI checks: warnings are errors, the whole suite once plain and once under ASan + UBSan, the
# official client against a running server, the pages in a browser, the include directions, the names that
# files share, the table of faults, the CUDA build.
test: packages-test
	python3 tools/check_layers.py
	python3 tools/check_names.py
	python3 tools/check_faults.py
	cmake --preset release -DROSE_TESTS=ON -DROSE_BENCHES=ON -DROSE_WERROR=ON >/dev/null
	cmake --build build
	ctest --test-dir build --output-on-failure -j2
	@grep ': not run: ' build/Testing/Temporary/LastTest.log || true
	tests/client/run.sh build
	tests/web/run.sh build
	$(MAKE) test-asan
	$(MAKE) test-cuda

test-asan: packages-test
	cmake --preset release -DROSE_TESTS=ON -DROSE_WERROR=ON >/dev/null
	cmake --build build --target rose_tests_asan
	ctest --test-dir build -C asan -R asan --output-on-failure -j2

NVCC ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
test-cuda: packages-build
ifeq ($(NVCC),)
	@echo "test-cuda: not run: no nvcc on this computer (looked in PATH and /usr/local/cuda/bin)"
else
	cmake --preset cuda -DCMAKE_CUDA_COMPILER=$(NVCC) >/dev/null
	cmake --build build-cuda --target rose
endif

# libFuzzer over what reads input from outside (needs clang): SECONDS for each target, from the corpora of
# the tests; what it finds new stays in build-fuzz/corpus.
SECONDS ?= 60
FUZZ ?= http requests harmony tokenizer vocabulary safetensors schema
fuzz: packages-build
	cmake --preset fuzz >/dev/null
	cmake --build build-fuzz
	set -e; for target in $(FUZZ); do mkdir -p build-fuzz/corpus/$$target; \
	  build-fuzz/rose_fuzz --target=$$target -max_total_time=$(SECONDS) -max_len=2048 -timeout=60 \
	    -artifact_prefix=build-fuzz/$$target- build-fuzz/corpus/$$target tests/fuzz/corpus/$$target; done

# The program, the test program and the libraries they need, side by side: runs on any x86-64 Linux whose C
# library is as new as this one's, with or without an NVIDIA driver.
bundle: packages-test
	cmake --preset cuda $(if $(NVCC),-DCMAKE_CUDA_COMPILER=$(NVCC),-DROSE_CUDA=OFF) >/dev/null
	cmake --build build-cuda
	tools/bundle.sh build/bundle build-cuda/rose build-cuda/rose_tests

format:
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	rm -rf build build-asan build-cuda build-fuzz build-tsan

packages-%:
	@tools/install_packages.sh $*
