# SPDX-License-Identifier: Apache-2.0
# Functions shared by the setup scripts (sourced by bash). Packages are fetched from the sources of
# this machine's apt.

# apt_mirror prints the base address of the Debian archive that apt uses for
# the running release. MIRROR in the environment overrides it.
apt_mirror() {
	if [ -n "${MIRROR:-}" ]; then
		echo "$MIRROR"
		return
	fi
	local codename
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 2>/dev/null |
		awk -v c="$codename" '$1 == c { print $2; found = 1; exit } first == "" { first = $2 } END { if (!found && first != "") print first }'
}

# apt_proxy exports apt's own HTTP proxy, if it has one, for tools that are not apt.
apt_proxy() {
	local p
	eval "p=$(apt-config shell x Acquire::http::Proxy | sed 's/^x=//')"
	if [ -n "$p" ] && [ "$p" != DIRECT ]; then export http_proxy="$p"; fi
}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# unpack_packages SUITE ARCH DIR PACKAGE...: unpacks packages into DIR, by a package state of its own.
unpack_packages() {
	local suite=$1 arch=$2 to=$3 mirror apt status
	shift 3
	mirror=$(apt_mirror || true)
	[ -n "$mirror" ] || { echo "apt has no package source"; return 1; }
	apt=$(mktemp -d)
	mkdir -p "$apt"/lists/partial "$apt"/archives/partial "$to"
	: >"$apt/status"
	echo "deb [arch=$arch signed-by=$keyring] $mirror $suite main" >"$apt/sources.list"
	local options="-qq -o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::Lists=$apt/lists
		-o Dir::State::status=$apt/status -o Dir::Cache=$apt -o Acquire::Languages=none -o APT::Architecture=$arch
		-o APT::Architectures=$arch -o APT::Sandbox::User=root -o APT::Default-Release="
	(
		cd "$apt" && apt-get $options update && apt-get $options download "$@" >/dev/null &&
			for f in *.deb; do dpkg -x "$f" "$to" || exit 1; done
	)
	status=$?
	rm -rf "$apt"
	return $status
}
