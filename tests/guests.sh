#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the third tier: all cases and objects on all kernels, in emulated guests, and the cheapest tests of the second.
# KERNEL limits it to kernels (a directory of build/kernels, or a pattern), RUN to cases and scripts (a pattern).
# tests/README.md has the tiers.
. "$(dirname "$0")/steps.sh"
export BTC_TIER=kernels
only=()
[ -z "${KERNEL:-}" ] || only=("-kernel=$KERNEL")
run=${RUN:-}

tests "kernels" ./tests/kernels -v "${only[@]}" ${run:+"-case=$run"}
tests "objects and verdicts" ./tests/load -v "-run=TestKernels$|ForecastMatrix" "${only[@]}" ${run:+"-script=$run"}
if [ -z "$run" ]; then
  tests "virtual machines" ./tests/kernels/vm
  tests "loaders" ./tests/loaders -v -run=TestGuests "${only[@]}"
  tests "tools" ./tests/tools -v -run=TestGuests "${only[@]}"
  tests "stacks by unwind tables" ./tests/unwind/bpfwalk -v -run=TestGuests "${only[@]}"
  tests "programs of others" ./tests/metrics ./tests/fan
fi
finish
