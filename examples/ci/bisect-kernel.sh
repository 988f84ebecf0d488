#!/bin/sh
# Which commit of Linux made a packet dearer? For `git bisect run` in a tree of Linux with a .config.
# BASE is an emulation on a good commit, RULE what makes a commit bad, EMULATE the options of the emulations.
: "${BASE:?}" "${RULE:=instructions_per_request > 1.01}" "${EMULATE:=--server nginx --connections 1 --requests 500}"
skip=125 # git tries another commit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make -s olddefconfig && make -s -j"$(nproc)" bzImage modules || exit $skip
make -s modules_install INSTALL_MOD_PATH="$work" INSTALL_MOD_STRIP=1 || exit $skip
# shellcheck disable=SC2086  # several options
perpacket emulate --kernel arch/x86/boot/bzImage --modules "$work/lib/modules" $EMULATE --quiet \
    --save "$work/now.json" >/dev/null || exit $skip
perpacket emulate compare "$BASE" "$work/now.json" --fail-if "$RULE" >/dev/null
status=$?
[ $status -le 1 ] || status=$skip
exit $status
