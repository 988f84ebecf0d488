#!/bin/sh
# Which commit made a request dearer? For `git bisect run`; docs/howto/bisect.md of perpacket explains it.
# BASE is an emulation of a good commit, LIMIT the ratio from which a commit is bad.
: "${SERVER:=server {port\}}" "${BUILD:=make server}" "${BASE:?}" "${LIMIT:=1.005}" "${OPTIONS:=}"
skip=125 # git tries another commit
now=$(mktemp)
trap 'rm -f "$now"' EXIT
$BUILD >/dev/null || exit $skip
# shellcheck disable=SC2086  # several options
perpacket emulate --server "./$SERVER" --connections 1 --requests 500 --quiet $OPTIONS --save "$now" >/dev/null || exit $skip
perpacket emulate compare "$BASE" "$now" --fail-if "instructions_per_request > $LIMIT" >/dev/null
status=$?
[ $status -le 1 ] || status=$skip
exit $status
