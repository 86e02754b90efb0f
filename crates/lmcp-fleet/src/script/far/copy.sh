# Files that are copied from host to host: read in parts, or put together from parts. Blocks are counted, because `dd` does.
# Names and links come from another host: every path here begins with `/` or `./`, and where a link leads stands behind `--`.

# far_stamp FILE: the mode in hexadecimal, the size, and what changes with the content: inode, size and time.
far_stamp() {
    if [ "$far_stat" = gnu ]; then stat -L -c '%f %s %i-%s-%Y' "$1"; else stat -L -f '%Xp %z %i-%z-%m' "$1"; fi 2>/dev/null
}

# far_copy_look FILE: what it is.
far_copy_look() {
    far_part path
    far_look "$1"
    if [ -e "$1" ]; then far_part stamp "$(far_stamp "$1")"; fi
}

# far_copy_list DIR MOST: all that is below a folder, at most so many bytes of it. Links with where they lead.
far_copy_list() {
    cd "$1/" 2>/dev/null || return 1
    export LC_ALL=C
    {
        if [ "$far_stat" = gnu ]; then
            find . -mindepth 1 -exec stat -c "
$LMCP_MARK- entry %f %s %i-%s-%Y
%n" {} +
        else
            find . -mindepth 1 -exec stat -f "
$LMCP_MARK- entry %Xp %z %i-%z-%m
%N" {} +
        fi
        find . -mindepth 1 -type l -exec sh -c 'mark=$1; shift
            for link; do printf "\n%s- symlink\n%s" "$mark" "$link"; printf "\n%s- target\n" "$mark"; readlink "$link"; done' sh "$LMCP_MARK" {} +
    } 2>"$far_tmp/complaints" | head -c "$2"
    if [ -s "$far_tmp/complaints" ]; then
        far_part failed
        head -n 1 <"$far_tmp/complaints"
    fi
}

# far_copy_read FILE SIZE BLOCK: one block of a file, and its stamp afterwards.
far_copy_read() {
    far_part data
    dd if="$1" bs="$2" skip="$3" count=1 2>/dev/null
    far_part stamp "$(far_stamp "$1")"
}

# far_copy_hash FILE: its checksum, and its stamp afterwards.
far_copy_hash() {
    far_part sum "$(far_sum_of "$1")"
    far_part stamp "$(far_stamp "$1")"
}

# far_sum_of FILE: its checksum, where there is a program for it.
far_sum_of() {
    case $far_sum in
    none) ;;
    sha256sum) sha256sum <"$1" 2>/dev/null | cut -d ' ' -f 1 ;;
    *) shasum -a 256 <"$1" 2>/dev/null | cut -d ' ' -f 1 ;;
    esac
}

# far_below TOP FUNCTION FILE WORDS: does something to a file below a folder, if no link is on the way to it. The shell goes into
# the folder of the file and looks where it is, so that nobody can put a link on the way afterwards.
far_below() {
    far_top=$1 far_do=$2 far_path=${3#"$1"}
    shift 3
    cd -P "$far_top/" 2>/dev/null || far_refuse "$far_top is no folder" || return 1
    # The dot keeps line ends at the end of a name.
    far_at=$(pwd -P && echo .)
    far_at=${far_at%
.}
    far_within=.${far_path%/*}
    cd -P "$far_within/" 2>/dev/null || far_refuse "its folder is gone" || return 1
    if [ "$(pwd -P && echo .)" != "${far_at%/}${far_within#.}
." ]; then far_refuse "a link is on the way to it" || return 1; fi
    far_within_shown=$far_top${far_within#.}
    "$far_do" "./${far_path##*/}" "$@"
}

# far_grow FILE KEY: sets far_file to what links lead to, unless it is below a copy, and far_new to what it is called until it is
# complete.
far_grow() {
    if [ -n "${far_within:-}" ]; then far_file=$1; else far_real "$1"; fi
    far_name=${far_file##*/}
    if [ "${#far_name}" -gt 200 ]; then far_name=$(printf %s "$far_name" | cut -c 1-50); fi
    far_new=${far_file%/*}/.$far_name.lmcp-$2
}

# far_copy_begin FILE KEY ANEW: what stands there, how far an earlier copy came, and where that is.
far_copy_begin() {
    far_grow "$1" "$2"
    # It would lead elsewhere.
    if [ -L "$far_new" ]; then rm -f "$far_new"; fi
    if [ "$3" = yes ] && [ -f "$far_new" ]; then rm -f "$far_new"; fi
    far_sweep_copies
    far_part path
    # Below a copy the folder is there, and a link is replaced: as if nothing stood there.
    if [ -n "${far_within:-}" ] && { [ -L "$1" ] || ! [ -e "$1" ]; }; then far_part link; else far_look "$1"; fi
    far_part path
    far_look "$far_new"
    far_part draft
    printf '%s' "${far_within_shown:-${far_file%/*}}/${far_new##*/}"
}

# Removes what was left of this file days ago.
far_sweep_copies() {
    for far_each in "${far_file%/*}/.$far_name.lmcp-"????????????; do
        if [ -f "$far_each" ] && [ -n "$(find "$far_each" -prune -mtime +2 2>/dev/null)" ]; then rm -f "$far_each"; fi
    done
}

# far_copy_draft FILE KEY: makes the folder in which a folder is put together.
far_copy_draft() {
    far_grow "$1" "$2"
    if [ -d "$far_new" ] && ! [ -L "$far_new" ]; then return; fi
    far_problem=$( (umask 077 && mkdir "$far_new") 2>&1) || far_refuse "$far_problem"
}

# far_copy_write FILE KEY SIZE BLOCK: puts what was taken as `part` into its place.
far_copy_write() {
    far_grow "$1" "$2"
    if [ -L "$far_new" ]; then rm -f "$far_new"; fi
    if ! [ -e "$far_new" ]; then
        far_problem=$( (umask 077; set -C; : >"$far_new") 2>&1) || far_refuse "$far_problem" || return 1
    fi
    # Without zeros, so that nothing but bytes of the file is ever in it.
    far_problem=$(umask 077 && dd if="$far_tmp/part" of="$far_new" bs="$3" seek="$4" conv=notrunc 2>&1) || far_refuse "$far_problem"
}

# far_copy_finish FILE KEY BYTES SUM MODE EXPECTED: a file that is complete takes its name. SUM is `any` where the hub has
# looked itself; EXPECTED is `none` for a name that nothing may have.
far_copy_finish() {
    far_grow "$1" "$2"
    if [ -L "$far_new" ]; then rm -f "$far_new"; fi
    far_done=$far_new
    # The call comes a second time, because its first answer was lost on the way.
    if ! [ -f "$far_new" ]; then far_done=$far_file; fi
    if ! [ -f "$far_done" ]; then far_part gone && return 1; fi
    if [ "$(($(wc -c <"$far_done")))" != "$3" ] || { [ "$4" != any ] && [ "$(far_sum_of "$far_done")" != "$4" ]; }; then
        if [ "$far_done" = "$far_new" ]; then rm -f "$far_new"; fi
        far_part differs && return 1
    fi
    if [ "$far_done" = "$far_file" ]; then return 0; fi
    if [ "$6" = none ] && [ -f "$far_file" ] && cmp -s "$far_new" "$far_file"; then rm -f "$far_new" && return 0; fi
    if [ -L "$far_file" ]; then far_unlink "$far_file" "$6" || return 1; fi
    if [ -d "$far_file" ]; then far_refuse "it is a folder" || return 1; fi
    far_problem=$(chmod "0$(far_mode "$5")" "$far_new" 2>&1) || far_refuse "$far_problem" || return 1
    far_settle "$far_file" "$6"
}

# far_unlink LINK EXPECTED: removes a link that stands where something of the copy belongs, if that may be replaced.
far_unlink() {
    if [ "$2" = none ]; then far_part changed && return 1; fi
    far_problem=$(rm -f "$1" 2>&1) || far_refuse "$far_problem"
}

# far_mode MODE: what a new folder gets of it. Nobody but its owner may write in it.
far_mode() { printf '0%o' "$((0$1 & ~0$(umask) & 0755))"; }

# far_has_mode DIR MODE
far_has_mode() {
    far_now=$(far_stamp "$1")
    [ -n "$far_now" ] && [ "$((0x${far_now%% *}))" = "$((040000 | $2))" ]
}

# The mode of a folder into which more is to be put than its mode will allow. It tells that a copy has made the folder.
far_growing=01700

# far_copy_folder DIR MODE EXPECTED: makes a folder, or finds it there.
far_copy_folder() {
    if [ -L "$1" ]; then far_unlink "$1" "$3" || return 1; fi
    if ! [ -d "$1" ]; then
        far_wanted=$(far_mode "$2")
        if [ "$(($far_wanted & 0700))" != "$((0700))" ]; then far_wanted=$far_growing; fi
        far_problem=$(mkdir "$1" 2>&1 && chmod "0$far_wanted" "$1" 2>&1) || far_refuse "$far_problem" || return 1
    fi
    if far_has_mode "$1" "$far_growing"; then far_part growing; fi
}

# far_copy_mode DIR MODE: a folder that a copy has made gets its mode.
far_copy_mode() {
    far_wanted=$(far_mode "$2")
    # The call comes a second time, because its first answer was lost on the way.
    if ! [ -L "$1" ] && far_has_mode "$1" "$far_wanted"; then return 0; fi
    if [ -L "$1" ] || ! far_has_mode "$1" "$far_growing"; then far_refuse "this copy has not made it" || return 1; fi
    far_problem=$(chmod "0$far_wanted" "$1" 2>&1) || far_refuse "$far_problem"
}

# far_copy_link FILE TARGET EXPECTED
far_copy_link() {
    if [ -L "$1" ] && [ "$(readlink "$1")" = "$2" ]; then return 0; fi
    if [ -L "$1" ]; then far_unlink "$1" "$3" || return 1; fi
    if [ -e "$1" ]; then
        if [ "$3" = none ]; then far_part changed && return 1; fi
        if [ -d "$1" ]; then far_refuse "it is a folder" || return 1; fi
        far_problem=$(rm -f "$1" 2>&1) || far_refuse "$far_problem" || return 1
    fi
    far_problem=$(ln -s -- "$2" "$1" 2>&1) || far_refuse "$far_problem"
}

# far_copy_settle DIR KEY MODE: a folder that is complete takes its name.
far_copy_settle() {
    far_grow "$1" "$2"
    if ! [ -d "$far_new" ] && [ -d "$1" ]; then return 0; fi
    if [ -e "$1" ] || [ -L "$1" ]; then far_part changed && return 1; fi
    far_problem=$(mv "$far_new" "$1" 2>&1 && chmod "0$(far_mode "$3")" "$1" 2>&1) || far_refuse "$far_problem"
}
