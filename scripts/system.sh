#!/usr/bin/env bash
# Install the system packages that a task needs and this machine lacks. usage: system.sh PACKAGE…
# Inductor compiles C++ (g++ and Python's headers); the editor tests need Chromium. Where apt is not the package
# manager, or the user may not install, say what is missing and go on: what needs it will fail with its own message.
set -eu
missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "missing here (install with your package manager): ${missing[*]}" >&2
  exit 0
fi
root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "missing here, and no right to install: ${missing[*]}" >&2; exit 0; }
  root=(sudo)
fi
echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get update -qq
"${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
