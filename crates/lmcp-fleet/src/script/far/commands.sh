# Commands and jobs. A job is a folder in $far_jobs:
#
#   run      starts the command                        about     what it is, for the hub alone
#   guard    the process that watches over it          pid       its first process, which leads its group
#   in       the input of a job, a FIFO                out, err  what it wrote; of a job all of it is in out
#   alive    a FIFO that the guard holds               order     how far out and err had come when somebody looked
#   how      what `jobs` says of it                    exited    its exit code is its own, and does not stand for a signal
#   feeder   the process that types into `in`
#   started, ended, exit, timed_out, stopped, left, eof, kept, not_run    what their names say

# far_start ID KIND LIMIT GRACE: starts what was taken as `run` and `about`, a call with the input that was taken. Says its number.
far_start() {
    far_dir=$far_jobs/$1
    far_mask=$(umask)
    umask 077
    mkdir "$far_dir" || return 1
    if [ "$2" = job ]; then exec 5</dev/null; else [ "$far_has_input" = yes ] || return 1; fi
    mv "$far_tmp/run" "$far_tmp/about" "$far_dir" || return 1
    if [ "$2" = job ]; then mkfifo "$far_dir/in" "$far_dir/alive"; else mkfifo "$far_dir/alive"; fi || return 1
    : >"$far_dir/out"
    if [ "$2" = call ]; then : >"$far_dir/err"; fi
    date +%s >"$far_dir/started"
    exec 7<>"$far_dir/alive"
    far_how=$far_session
    if [ "$far_control" = yes ]; then
        far_how=control
        set -m
    fi
    {
        # It is no part of this connection, and known by its own name.
        unset LMCP_SCRIPT_LINK
        far_become_own env "LMCP_SCRIPT_GUARD=$1" "$far_guard_shell" ${far_guard_option:+"$far_guard_option"} -c "$far_guard" lmcp-guard \
            "$far_dir" "$2" "$3" "$4" "$far_how" "$far_zeros" "$far_mask"
    } <&5 >/dev/null 2>&1 5<&- 7>&- &
    exec 5<&-
    # The guard writes it when the command runs.
    IFS= read -r far_pid <&7
    far_part pid "$far_pid"
}

# far_await DIR: waits until the guard of a job is gone, however it went.
far_await() {
    # A FIFO without a writer cannot be opened to read; for a moment we are one.
    exec 7<>"$1/alive" 6<"$1/alive" 7>&-
    far_until_end
}

# Reads descriptor 6 to its end. The shell itself does, so nothing is left of it when it is killed.
far_until_end() { while IFS= read -r far_line <&6; do :; done; }

# far_run ID LIMIT GRACE HEAD TAIL ALL: a command that the hub waits for.
far_run() {
    far_start "$1" call "$2" "$3" || return
    exec 6<"$far_dir/alive" 7>&-
    far_until_end
    far_facts "$1"
    far_ends out "$far_out" "$4" "$5" "$6"
    far_ends err "$far_err" "$4" "$5" "$6"
}

# far_keep ID HEAD TAIL ALL: the command becomes a job. What it wrote so far.
far_keep() {
    far_dir=$far_jobs/$1
    : >"$far_dir/kept"
    far_facts "$1"
    far_ends out "$far_out" "$2" "$3" "$4"
    far_ends err "$far_err" "$2" "$3" "$4"
}

# far_ends NAME SIZE HEAD TAIL ALL: all of an output of the job at hand, or its beginning and its end.
far_ends() {
    if [ "$2" = 0 ]; then return; fi
    far_part "$1" 0
    if [ "$2" -le "$5" ]; then
        head -c "$2" "$far_dir/$1"
    else
        head -c "$3" "$far_dir/$1"
        far_part "$1" $(($2 - $4))
        far_bytes "$far_dir/$1" $(($2 - $4)) "$4"
    fi
}

# far_value FILE: sets far_said to its only line; to nothing if there is none. No process is started for it.
far_value() {
    far_said=
    if [ -e "$1" ]; then IFS= read -r far_said <"$1"; fi
}

# far_bytes FILE OFFSET LENGTH
far_bytes() { tail -c "+$(($2 + 1))" "$1" | head -c "$3"; }

# far_is_guarded DIR ID: is its guard there? A number alone may be another's by now.
far_is_guarded() {
    far_value "$1/guard"
    far_guard_pid=$far_said
    [ -n "$far_guard_pid" ] && kill -0 "$far_guard_pid" 2>/dev/null || return 1
    if [ -r /proc/self/environ ]; then
        far_has_variable "LMCP_SCRIPT_GUARD=$2" "/proc/$far_guard_pid/environ"
    fi
}

# far_facts ID: what is known of a job. Nothing, if there is none.
far_facts() {
    far_dir=$far_jobs/$1
    [ -e "$far_dir/started" ] || return 0
    far_guarded=no
    # How it ended is read before what it wrote: what comes of a command that has ended is all there is. One that ends between
    # these two lines has an end.
    far_value "$far_dir/exit"
    far_exit=$far_said
    if [ -z "$far_exit" ] && far_is_guarded "$far_dir" "$1"; then
        far_guarded=yes
    elif [ -z "$far_exit" ]; then
        far_value "$far_dir/exit"
        far_exit=$far_said
    fi
    far_count out
    far_out=$far_size
    far_err=-
    if [ -e "$far_dir/err" ]; then
        far_count err
        far_err=$far_size
        if [ -e "$far_dir/kept" ]; then printf '%s %s\n' "$far_out" "$far_err" >>"$far_dir/order"; fi
    fi
    far_left=
    if [ -s "$far_dir/left" ]; then
        while IFS= read -r far_pid; do
            if far_has_variable "LMCP_SCRIPT_JOB=$1" "/proc/$far_pid/environ"; then far_left="$far_left,$far_pid"; fi
        done <"$far_dir/left"
    fi
    far_line="job id=$1 exit=$far_exit guarded=$far_guarded out=$far_out err=$far_err left=$far_left"
    for far_name in pid started ended; do
        far_value "$far_dir/$far_name"
        far_line="$far_line $far_name=$far_said"
    done
    for far_name in exited timed_out stopped kept eof; do
        if [ -e "$far_dir/$far_name" ]; then far_line="$far_line $far_name=yes"; fi
    done
    far_part "$far_line"
    if [ -e "$far_dir/not_run" ]; then far_part not-run; fi
    far_part about
    far_value "$far_dir/about"
    printf '%s' "$far_said"
    if [ -e "$far_dir/order" ]; then
        far_part order
        cat "$far_dir/order"
    fi
}

# far_count NAME: sets far_size to the length of an output of the job at hand.
far_count() {
    far_size=0
    if [ -s "$far_dir/$1" ]; then far_size=$(($(wc -c <"$far_dir/$1"))); fi
}

# far_list_jobs: all of them.
far_list_jobs() {
    for far_each in "$far_jobs"/*/about; do
        [ -e "$far_each" ] || continue
        far_each=${far_each%/about}
        far_facts "${far_each##*/}"
    done
}

# far_read ID [STREAM OFFSET LENGTH]...: parts of what a job wrote.
far_read() {
    far_dir=$far_jobs/$1
    shift
    while [ "$#" -ge 3 ]; do
        far_part bytes "$1" "$2"
        far_bytes "$far_dir/$1" "$2" "$3"
        shift 3
    done
}

# far_wait ID: until it has ended.
far_wait() { if ! [ -s "$far_jobs/$1/exit" ]; then far_await "$far_jobs/$1"; fi; }

# far_end DIR SECONDS: ends a job with all that it started, at first politely.
far_end() {
    : >"$1/stopped"
    far_signal=TERM
    if [ "$2" = 0 ]; then far_signal=KILL; fi
    far_signal_job "$1" "$far_signal"
    far_left_ticks=$(($2 * 10))
    while [ "$far_left_ticks" -gt 0 ] && [ -n "$(far_rest "$1")" ]; do
        sleep 0.1 2>/dev/null || { sleep 1; far_left_ticks=$((far_left_ticks - 9)); }
        far_left_ticks=$((far_left_ticks - 1))
    done
    far_signal_job "$1" KILL
    if far_is_guarded "$1" "${1##*/}"; then far_await "$1"; fi
}

# far_rest DIR: says something if a process of a job is there.
far_rest() {
    far_value "$1/pid"
    far_pid=$far_said
    if [ -n "$far_pid" ] && ! [ -s "$1/exit" ] && kill -0 -- "-$far_pid" 2>/dev/null; then echo group; fi
    far_find "LMCP_SCRIPT_JOB=${1##*/}"
}

# far_signal_job DIR SIGNAL: to its group, while that is its own, and to what has left the group.
far_signal_job() {
    far_value "$1/pid"
    far_pid=$far_said
    if [ -n "$far_pid" ] && ! [ -s "$1/exit" ]; then kill -s "$2" -- "-$far_pid" 2>/dev/null; fi
    if [ "$2" = KILL ] || [ "$2" = TERM ]; then far_sweep "LMCP_SCRIPT_JOB=${1##*/}" "$2"; fi
}

# far_stop ID SIGNAL SECONDS: SECONDS is - for a signal that is only sent.
far_stop() {
    if [ "$3" = - ]; then
        far_pid=$(cat "$far_jobs/$1/pid")
        kill -s "$2" -- "-$far_pid"
    else
        far_end "$far_jobs/$1" "$3"
    fi
    far_facts "$1"
}

# far_again ID NEW LIMIT GRACE: what a job ran, once more. `about` was taken.
far_again() {
    # Its first line says whose processes these are.
    sed "1s/^export LMCP_SCRIPT_JOB=.*/export LMCP_SCRIPT_JOB=$2/" "$far_jobs/$1/run" >"$far_tmp/run" || return 1
    far_start "$2" job "$3" "$4"
}

# far_type ID: sends the input that was taken. A process of its own does, and goes on when this call is cut: it waits for a job
# that does not read. Fails with 3 while it does.
far_type() {
    far_dir=$far_jobs/$1
    [ "$far_has_input" = yes ] || return 1
    if far_is_feeding "$1"; then return 3; fi
    # A FIFO that nobody reads cannot be opened to write; for a moment we read it.
    exec 6<>"$far_dir/in" 4>"$far_dir/in" 6<&-
    (
        unset LMCP_SCRIPT_LINK
        LMCP_SCRIPT_FEEDER=$1
        export LMCP_SCRIPT_FEEDER
        far_become_own cat
    ) <&5 >&4 4>&- 5<&- &
    exec 4>&- 5<&-
    printf '%s\n' "$!" >"$far_dir/feeder"
    wait "$!"
}

# far_is_feeding ID: does a process type into it? A number alone may be another's by now.
far_is_feeding() {
    far_value "$far_jobs/$1/feeder"
    far_pid=$far_said
    [ -n "$far_pid" ] && kill -0 "$far_pid" 2>/dev/null || return 1
    if [ -r /proc/self/environ ]; then
        far_has_variable "LMCP_SCRIPT_FEEDER=$1" "/proc/$far_pid/environ"
    fi
}

# far_eof ID: ends its input.
far_eof() {
    : >"$far_jobs/$1/eof"
    kill -s USR1 "$(cat "$far_jobs/$1/guard")"
}

# far_forget ID: removes what is left of a command that has ended.
far_forget() { rm -rf "$far_jobs/$1"; }

# far_prune KEPT DAYS: forgets ended jobs that are too many or too old. Names of jobs are letters and digits.
far_prune() {
    # shellcheck disable=SC2012
    ls -1t "$far_jobs" | while IFS= read -r far_each; do
        [ -s "$far_jobs/$far_each/exit" ] || continue
        far_kept=$((${far_kept:-0} + 1))
        if [ "$far_kept" -gt "$1" ] || [ -n "$(find "$far_jobs/$far_each" -prune -mtime "+$2")" ]; then
            rm -rf "${far_jobs:?}/$far_each"
        fi
    done
}
