#!/bin/sh
# Makes sure that the browser which the tests drive is there. As root on Debian it is installed, else said how.
set -eu

chromium=${1:-/usr/bin/chromium}
test -x "$chromium" && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "chromium: installing Debian's package"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
    exit 0
fi

cat >&2 <<EOF
chromium: $chromium does not exist; the browser tests need it, everything else works without.
  Debian, Ubuntu: sudo apt-get update && sudo apt-get install chromium
EOF
