# SPDX-License-Identifier: Apache-2.0
# The front door: every target installs what it needs and builds what is missing. CMakePresets.json knows how.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
LONG ?= 0
export JOBS LONG

.PHONY: help demo build test test-arm64 bench format lint install clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo     build EStream, then label sample messages with the model that comes with it'
	@echo 'make build    the program: build/release/estream'
	@echo 'make test     all tests under sanitizers, those of numbers optimised too; LONG=1 also fuzzes each target for 30 s'
	@echo 'make test-arm64  tests of kernels, devices and streaming compiled for 64-bit Arm, run by QEMU'
	@echo 'make bench    all benchmarks'
	@echo 'make format   clang-format over all sources'
	@echo 'make lint     clang-format and clang-tidy; neither may complain'
	@echo 'make install  the program into PREFIX ($(PREFIX)), below DESTDIR if set'
	@echo 'make clean    remove build/'

build:
	@scripts/setup.sh
	@scripts/build.sh release estream

demo: build
	@scripts/demo.sh build/release/estream

test:
	@scripts/test.sh

test-arm64:
	@scripts/test-arm64.sh

bench:
	@scripts/setup.sh
	@scripts/build.sh release bench

format:
	@scripts/setup.sh dev
	@git ls-files '*.cc' '*.h' | xargs clang-format-14 -i

lint:
	@scripts/lint.sh

install: build
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)' --component estream

clean:
	@rm -rf build
