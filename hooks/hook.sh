#!/bin/sh
# Runs hooks/$1.py with the rest of the arguments, and starts Python only where podium may have something to say: Stop fires at
# the end of every turn of every session on the machine, and most of them are strangers'.
here=${0%/*}

podium_is_here() {
    [ -z "${PODIUM_DB-}" ] || return 0
    dir=${CLAUDE_PROJECT_DIR:-$PWD}
    while :; do
        [ -e "$dir/comms.db" ] || [ -e "$dir/podium.json" ] && return 0
        if [ -f "$dir/.git" ] && { read -r git <"$dir/.git"; } 2>/dev/null; then
            case $git in *"/.git/worktrees/"*) return 0 ;; esac
        fi
        case $dir in
        /*/*) dir=${dir%/*} ;;
        /?*) dir=/ ;;
        *) return 1 ;;
        esac
    done
}

[ "$1" = session_start ] || podium_is_here || exit 0
if command -v python3 >/dev/null 2>&1; then
    name=$1 && shift
    exec python3 -I -S "$here/$name.py" "$@"
fi
podium_is_here || exit 0
echo '{"systemMessage": "podium needs python3 (3.9 or newer) on PATH for its hooks: install it, then run: podium doctor"}'
