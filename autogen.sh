#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes ./configure from configure.ac and Makefile.am; for a clone, a release tarball has it.
set -eu
cd "$(dirname "$0")"

missing=
for tool in autoconf automake pkg-config; do
	command -v "$tool" >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "autogen.sh: missing: apt-get install$missing" >&2
	exit 1
fi
exec autoreconf --install
