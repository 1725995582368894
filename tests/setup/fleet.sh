#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fleet.sh [DIR]: fetches the programs that btc and btrun are used with on a fleet, for tests/fan,
# tests/metrics and the fleet benchmark: OpenSSH's server, Prometheus, node_exporter and kubectl of
# this Debian release, and an OpenTelemetry Collector built from its Go modules.
#
# They are unpacked to DIR (default build/fleet); nothing is installed or started. What cannot be
# fetched is reported in one line, and its tests are skipped. Downloads about 35 MB of packages, and,
# unless --no-collector is given, about 100 MB of modules, which take two minutes of CPU time to build.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
collector=yes
if [ "${1:-}" = --no-collector ]; then
	collector=no
	shift
fi
dir=$(realpath -m "${1:-$here/../../build/fleet}")
mkdir -p "$dir"

# unpack PROGRAM PACKAGE ...: unpacks packages unless DIR already has the program.
unpack() {
	local program=$1 tmp
	shift
	[ -x "$dir/root/$program" ] && return
	tmp=$(mktemp -d)
	chmod 755 "$tmp"
	(
		cd "$tmp" && apt-get download -qq "$@" >/dev/null &&
			for f in *.deb; do dpkg -x "$f" "$dir/root" || exit 1; done
	) 2>"$dir/apt.log"
	rm -rf "$tmp"
	[ -x "$dir/root/$program" ] || { echo "fleet: apt has no $1: its tests are skipped"; return 1; }
}

unpack usr/sbin/sshd openssh-server openssh-client libwrap0 && echo "fleet: sshd"
unpack usr/bin/prometheus prometheus && echo "fleet: $("$dir/root/usr/bin/prometheus" --version 2>&1 | head -n 1)"
unpack usr/bin/prometheus-node-exporter prometheus-node-exporter && echo "fleet: node_exporter"
unpack usr/bin/kubectl kubernetes-client && echo "fleet: kubectl"

# The collector has the receiver for OTLP/JSON files and an exporter that prints what it gets. Its
# module is created here, so that the project does not depend on it.
build_collector() {
	[ -x "$dir/otelcol" ] && return
	local work status
	work=$(mktemp -d)
	cp "$here/collector/main.go.in" "$work/main.go"
	cp "$here/collector/go.mod.in" "$work/go.mod"
	(cd "$work" && export CGO_ENABLED=0 GOFLAGS=-mod=mod && go build -trimpath -ldflags '-s -w' -o "$dir/otelcol" .) >"$dir/otelcol.log" 2>&1
	status=$?
	rm -rf "$work"
	[ $status = 0 ] || { echo "fleet: $(tail -n 1 "$dir/otelcol.log"): the collector's test is skipped"; return 1; }
}
[ $collector = no ] || { build_collector && echo "fleet: OpenTelemetry Collector"; }
exit 0
