#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads btc of release VERSION from RELEASES to DIR/btc, and checks the archive's checksum. Sets the output "found" to true;
# it remains unset if there is no such release for this system, and btc must be built. A wrong checksum is an error.
set -eu
case $VERSION in
  v[0-9]*) ;;
  *) echo "not a release: ${VERSION:-none}"; exit 0 ;;
esac
case $(uname -s) in Linux) os=linux ;; Darwin) os=darwin ;; *) exit 0 ;; esac
case $(uname -m) in x86_64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) exit 0 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=btc-${VERSION#v}-$os-$arch
get() { curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$work/$1" "$RELEASES/$VERSION/$1"; }
if ! get SHA256SUMS || ! get "$top.tar.gz"; then
  echo "release $VERSION cannot be downloaded: btc is built"
  exit 0
fi
sum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
want=$(awk -v name="$top.tar.gz" '$2 == name {print $1}' "$work/SHA256SUMS")
have=$(sum "$work/$top.tar.gz" | cut -d' ' -f1)
if [ -z "$want" ] || [ "$want" != "$have" ]; then
  echo "$top.tar.gz: the checksum is ${have}, not ${want:-listed}"
  exit 1
fi
tar -xzf "$work/$top.tar.gz" -C "$work" "$top/btc"
mv "$work/$top/btc" "$DIR/btc"
echo "found=true" >>"$GITHUB_OUTPUT"
