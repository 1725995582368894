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
