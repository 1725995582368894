#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the second tier: the programs of others, as far as this machine can get them (all is unpacked below build), a release
# installed in other distributions, longer fuzzing, and the cheapest guest. tests/README.md has the tiers.
. "$(dirname "$0")/steps.sh"
export BTC_TIER=real

for s in fleet loaders bcc oracle readers axe; do step "setup: $s" bash "tests/setup/$s.sh"; done
tests "programs of others" ./tests/metrics ./tests/fan ./tests/loaders ./tests/tools ./tests/programs ./tests/attach \
  ./tests/habits ./tests/modulepath ./tests/random ./tests/terminal ./tests/conformance ./tests/docs ./tests/unwind ./tests/stacks ./internal/unwind/ehframe ./loader/symbols ./report/flamegraph ./tests/readers ./tests/report
tests "reloads" ./btrace -run=TestReloadLong
step "release" make -s dist-twice
tests "distributions" ./tests/release "-dist=$PWD/build/release/1" "-again=$PWD/build/release/2" "-roots=$PWD/build/roots"
fuzzing() {
  bash tests/fuzz.sh 5s . 2 || echo "FOUND: an input that fails is above; commit it in testdata/fuzz with its fix"
}
step "fuzzing, 5 seconds for each target" fuzzing
tests "a guest" ./tests/kernels '-run=TestKernels$' -kernel=6.12 '-case=^begin-end$'
finish
