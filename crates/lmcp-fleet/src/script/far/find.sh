# Finding processes by what is in their environment: what a command started has it, wherever it went. Before open.sh and
# guard.sh, which both need it.

# far_has_variable VARIABLE FILE: is it in an environment? Some greps read no further than the first zero.
far_has_variable() { tr '\0' '\n' <"$2" 2>/dev/null | grep -qxF -e "$1"; }

# far_probe_grep: sets far_zeros to yes if grep knows texts that end in zeros.
far_probe_grep() {
    far_zeros=no
    if [ "$(printf 'a\0b\0' | grep -czxF b 2>/dev/null)" = 1 ]; then far_zeros=yes; fi
}

# far_find VARIABLE: the numbers of the processes that were started with it. Where there is no /proc there are none.
far_find() {
    if [ "$far_zeros" = yes ]; then
        grep -lzxF -e "$1" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ far_found _; do
            printf '%s\n' "$far_found"
        done
    # Mostly there is none, and then one look at all of them is enough.
    elif cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -qxF -e "$1"; then
        for far_environment in /proc/[0-9]*/environ; do
            if far_has_variable "$1" "$far_environment" 2>/dev/null; then
                far_found=${far_environment#/proc/}
                printf '%s\n' "${far_found%/environ}"
            fi
        done
    fi
}
