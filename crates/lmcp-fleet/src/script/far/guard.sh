# Watches over one command: starts it, ends it when its time is over, writes down how it ended. It has a session of its own,
# so it goes on when the connection does not. Whoever waits for its end waits for the end of `alive`.
#
# Arguments: the folder of the job, its kind (call: two outputs, job: one), seconds until it is killed (0: never), seconds
# between TERM and KILL, how to start a process group (control, perl, python3, setsid), whether grep knows zeros, the umask of
# the command. Its standard input is that of a call, a file without a name.

dir=$1 kind=$2 limit=$3 grace=$4 control=$5 far_zeros=$6 mask=$7
# In the background, a command has no standard input of its own.
exec 5<&0 </dev/null
cd / || exit 1
exec 9<>"$dir/alive"
printf '%s\n' "$$" >"$dir/guard"

# Becomes a program at the head of its own process group.
own() {
    umask "$mask"
    case $control in
    control) exec "$@" ;;
    perl) exec perl -e 'use POSIX (); POSIX::setsid(); $SIG{INT} = $SIG{QUIT} = $SIG{PIPE} = $SIG{HUP} = "DEFAULT"; exec { $ARGV[0] } @ARGV; exit 127' -- "$@" ;;
    python3) exec python3 -c 'import os, signal, sys
os.setsid()
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@" ;;
    *) exec setsid "$@" ;;
    esac
}
# With job control every command in the background has a group of its own, and ears for all signals.
if [ "$control" = control ]; then set -m; fi

# Somebody asks for the end of its input. Before the command is there for anybody, because it would end the guard.
woken=no
trap 'exec 8>&-; woken=yes' USR1
# `wait` says the same of an exit code above 128 and of a signal. `jobs` tells them apart: in bash before `wait` has returned, in
# other shells afterwards.
if [ -n "${BASH_VERSION-}" ]; then trap 'woken=yes; LC_ALL=C jobs >>"$dir/how"' CHLD; fi

if [ "$kind" = job ]; then
    # Held open, so that the input does not end between two who type.
    exec 8<>"$dir/in"
    own sh "$dir/run" <"$dir/in" >>"$dir/out" 2>&1 5<&- 8>&- 9>&- &
else
    own sh "$dir/run" <&5 >>"$dir/out" 2>>"$dir/err" 5<&- 9>&- &
fi
pid=$!
exec 5<&-
# Only now: what it does not hear, the command would not hear either.
trap '' HUP PIPE
printf '%s\n' "$pid" >"$dir/pid"
printf '%s\n' "$pid" >&9

timer=
if [ "$limit" != 0 ]; then
    own sh -c 'sleep "$1"; : >"$3/timed_out"; kill -s TERM -- "-$2"; sleep "$4"; kill -s KILL -- "-$2"' \
        lmcp-timer "$limit" "$pid" "$dir" "$grace" </dev/null >/dev/null 2>&1 9>&- 8>&- &
    timer=$!
fi

while :; do
    woken=no
    wait "$pid"
    code=$?
    [ "$woken" = yes ] || break
done
if [ -n "${BASH_VERSION-}" ]; then trap - CHLD; else LC_ALL=C jobs >"$dir/how"; fi
exited=
# The command is the first job: `[1]+  Exit 137 …`, `[1] + Done(137)` or, of a signal, `[1]+  Killed`.
while IFS= read -r line; do
    case $line in
    '[1]'*'Done('[0-9]*')'*) line=${line#*'Done('} exited=${line%%')'*} ;;
    '[1]'*' Exit '[0-9]*) line=${line#*' Exit '} exited=${line%%' '*} ;;
    '[1]'*' Done'*) exited=0 ;;
    esac
done <"$dir/how"
rm -f "$dir/how"
if [ -n "$exited" ]; then
    code=$exited
    : >"$dir/exited"
fi
if [ -n "$timer" ]; then
    kill -s KILL -- "-$timer" 2>/dev/null
    wait "$timer" 2>/dev/null
fi

find_rest() { far_find "LMCP_SCRIPT_JOB=${dir##*/}"; }
if [ -e "$dir/timed_out" ] || [ -e "$dir/stopped" ]; then
    # Whatever of it does not listen to TERM.
    kill -s KILL -- "-$pid" 2>/dev/null
    for rest in $(find_rest); do kill -s KILL "$rest" 2>/dev/null; done
else
    find_rest >"$dir/left"
fi
date +%s >"$dir/ended"
# Whoever sees it empty takes it for not written.
printf '%s\n' "$code" >"$dir/exit"
