# Files. Paths are absolute, so none begins with a dash.

# far_stat_as WORDS FILE...: the mode in hexadecimal, the size and the time of each, as a part of that name, and its name.
far_stat_as() {
    far_words=$1
    shift
    far_format="
$LMCP_MARK- $far_words"
    if [ "$far_stat" = gnu ]; then
        stat $far_follow -c "$far_format %f %s %Y
%n" "$@"
    else
        stat $far_follow -f "$far_format %Xp %z %m
%N" "$@"
    fi
}

# far_look FILE: what it is, and what can be done to it. Of what is not there, the nearest that is.
far_look() {
    if [ -e "$1" ]; then
        far_kind=other
        if [ -f "$1" ]; then far_kind=file; fi
        if [ -d "$1" ]; then far_kind=dir; fi
        if [ -p "$1" ]; then far_kind=fifo; fi
        if [ -S "$1" ]; then far_kind=socket; fi
        if [ -b "$1" ] || [ -c "$1" ]; then far_kind=device; fi
        far_rights=
        if [ -r "$1" ]; then far_rights=r; fi
        if [ -w "$1" ]; then far_rights=${far_rights}w; fi
        far_follow=-L far_stat_as "file $far_kind =$far_rights" "$1"
        return
    fi
    if [ -L "$1" ]; then
        far_part link
        return
    fi
    far_above=$1
    while far_above=${far_above%/*} && [ -n "$far_above" ] && ! [ -e "$far_above" ]; do :; done
    far_above=${far_above:-/}
    far_kind=other
    if [ -d "$far_above" ]; then far_kind=dir; fi
    if [ -d "$far_above" ] && ! [ -x "$far_above" ]; then far_kind=closed; fi
    far_part missing "$far_kind" "$(if [ -w "$far_above" ]; then echo w; fi)"
    printf '%s' "$far_above"
}

# far_fetch MOST FILE...: looks at files, and brings those that are no larger.
far_fetch() {
    far_most=$1
    shift
    for far_file; do
        far_part path
        far_look "$far_file"
        if [ -f "$far_file" ] && [ -r "$far_file" ]; then
            far_part data
            head -c "$((far_most + 1))" <"$far_file"
        fi
    done
}

# far_piece FILE OFFSET LENGTH HEAD: looks at a file, and brings the beginning and a piece of it.
far_piece() {
    far_part path
    far_look "$1"
    if [ -f "$1" ] && [ -r "$1" ]; then
        far_part data
        head -c "$4" <"$1"
        far_part piece
        far_bytes "$1" "$2" "$3"
    fi
}

# far_is_as FILE EXPECTED: has it the checksum, or the content that was taken under the name behind the sign?
far_is_as() {
    case $far_sum-$2 in
    none-=*) cmp -s "$1" "$far_tmp/${2#=}" ;;
    sha256sum-*) [ "$(sha256sum <"$1" 2>/dev/null | cut -d ' ' -f 1)" = "$2" ] ;;
    *) [ "$(shasum -a 256 <"$1" 2>/dev/null | cut -d ' ' -f 1)" = "$2" ] ;;
    esac
}

# far_real FILE: sets far_file to what links lead to.
far_real() {
    far_file=$1
    far_links=0
    while [ -L "$far_file" ] && [ "$far_links" -lt 40 ]; do
        # The dot keeps line ends at the end of a name.
        far_to=$(readlink "$far_file" && echo .)
        far_to=${far_to%
.}
        case $far_to in
        /*) far_file=$far_to ;;
        *) far_file=${far_file%/*}/$far_to ;;
        esac
        far_links=$((far_links + 1))
    done
}

# far_draft FILE: sets far_new to a name beside a file that nothing has.
far_draft() { far_new=${1%/*}/.${far_count:-0}.lmcp-$LMCP_MARK; }

# far_write [FILE EXPECTED TAKEN]...: replaces files, all or none. EXPECTED is what a file must be like (far_is_as), `any`, or
# `none` for one that must not be there. Says what stood in the way.
far_write() {
    far_drafts=
    far_count=0
    far_check far_stage "$@" && far_check far_verify "$@" && far_check far_settle "$@"
    far_code=$?
    if [ "$far_code" != 0 ]; then
        while [ "$far_count" -ge 0 ]; do
            far_each "$far_count" far_discard "$@"
            far_count=$((far_count - 1))
        done
    fi
    return "$far_code"
}

# far_check FUNCTION [FILE EXPECTED TAKEN]...: does it for each, as long as it can be done.
far_check() {
    far_do=$1
    shift
    far_count=0
    while [ "$#" -ge 3 ]; do
        far_real "$1"
        far_draft "$far_file"
        if ! "$far_do" "$far_file" "$2" "$3"; then return 1; fi
        far_count=$((far_count + 1))
        shift 3
    done
}

# far_each NUMBER FUNCTION [FILE EXPECTED TAKEN]...: does it for one of them.
far_each() {
    far_at=$1 far_do=$2
    shift 2
    while [ "$far_at" -gt 0 ] && [ "$#" -ge 3 ]; do
        far_at=$((far_at - 1))
        shift 3
    done
    if [ "$#" -lt 3 ]; then return; fi
    far_real "$1"
    far_draft "$far_file"
    "$far_do"
}

far_discard() { rm -f "$far_new"; }

# Writes a draft, with the mode of what it replaces, and its owner where that may be given.
far_stage() {
    # With noclobber, the shell makes a file only where nothing is: nobody can have put a link of this name there.
    if [ -e "$1" ]; then
        if ! [ -w "$1" ]; then far_part denied && return 1; fi
        far_problem=$( (umask 077; set -C; : >"$far_new") 2>&1) || far_refuse "$far_problem" || return 1
        far_problem=$(cp -p "$1" "$far_new" 2>&1) || far_refuse "$far_problem" || return 1
    else
        far_problem=$( (set -C; : >"$far_new") 2>&1) || far_refuse "$far_problem" || return 1
    fi
    far_problem=$(cat "$far_tmp/$3" 2>&1 >"$far_new") || far_refuse "$far_problem"
}

far_refuse() {
    far_part failed
    printf '%s' "$1"
    return 1
}

# Does what the hub has seen still stand there?
far_verify() {
    case $2 in
    any | none) ;;
    *) if ! far_is_as "$1" "$2"; then far_part changed && return 1; fi ;;
    esac
}

# The draft takes the name.
far_settle() {
    case $2 in
    none)
        # A link fails where a name is taken. A file system without links makes it with a check before it.
        if ln "$far_new" "$1" 2>/dev/null; then rm -f "$far_new" && return; fi
        if [ -e "$1" ] || [ -L "$1" ]; then far_part changed && return 1; fi
        ;;
    *) ;;
    esac
    far_problem=$(mv -f "$far_new" "$1" 2>&1) || far_refuse "$far_problem"
}

# far_append FILE TAKEN
far_append() {
    if ! [ -w "$1" ]; then far_part denied && return 1; fi
    far_problem=$(cat "$far_tmp/$2" 2>&1 >>"$1") || far_refuse "$far_problem"
}

# far_folders FILE: makes the folders above it.
far_folders() {
    far_problem=$(mkdir -p "${1%/*}/" 2>&1) || far_refuse "$far_problem"
}

# far_rules DIR: the ignore files of a folder and of those above it, up to the top of a repository.
far_rules() {
    far_above=$1
    while :; do
        for far_name in .gitignore .ignore; do
            if [ -f "$far_above/$far_name" ] && [ -r "$far_above/$far_name" ]; then
                far_part rules-of
                printf '%s' "$far_above/$far_name"
                far_part rules
                head -c 65536 <"$far_above/$far_name"
            fi
        done
        if [ -e "$far_above/.git" ]; then
            far_part repository
            printf '%s' "$far_above/.git"
        fi
        [ -n "$far_above" ] || break
        far_above=${far_above%/*}
    done
}

# far_list DIR DEPTH MOST: what is below a folder, at most so many bytes of it. Links with where they lead.
far_list() {
    far_part path
    far_look "$1"
    cd "$1/" 2>/dev/null || return 0
    export LC_ALL=C
    far_rules "${1%/}"
    {
        if [ "$far_stat" = gnu ]; then
            find . -mindepth 1 -maxdepth "$2" -exec stat -c "
$LMCP_MARK- entry %f %s %Y
%n" {} +
        else
            find . -mindepth 1 -maxdepth "$2" -exec stat -f "
$LMCP_MARK- entry %Xp %z %m
%N" {} +
        fi
        find . -mindepth 1 -maxdepth "$2" -type l -exec sh -c 'mark=$1; shift
            for link; do printf "\n%s- symlink\n%s" "$mark" "$link"; printf "\n%s- target\n" "$mark"; readlink "$link"; done' sh "$LMCP_MARK" {} +
        find . -mindepth 2 -maxdepth "$2" -type f '(' -name .gitignore -o -name .ignore ')' -exec sh -c 'mark=$1; shift
            for file; do printf "\n%s- rules-of\n%s" "$mark" "${PWD%/}/$file"; printf "\n%s- rules\n" "$mark"; head -c 65536 "$file"; done' sh "$LMCP_MARK" {} +
    } 2>/dev/null | head -c "$3"
}

# far_search DIR HIDDEN FOLD LARGEST BYTES [TEXTS]: the files below a folder in which one of the texts occurs that were taken
# under that name, one in each line; or all of them. At most so many bytes, and no file that is larger. FOLD is -i or
# nothing. Ignore files come in any case: the hub heeds them.
far_search() {
    far_part path
    far_look "$1"
    if [ -f "$1" ] && [ -r "$1" ]; then
        far_part data
        head -c "$5" <"$1"
        return
    fi
    cd "$1/" 2>/dev/null || return 0
    export LC_ALL=C
    far_rules "${1%/}"
    far_texts=${6:+$far_tmp/$6}
    if [ "$2" = yes ]; then
        find . -name .git -prune -o -type f -size "-${4}c" -print0
    else
        find . -name '.?*' ! -name .gitignore ! -name .ignore -prune -o -type f -size "-${4}c" -print0
    fi 2>/dev/null | xargs -0 -n 64 sh -c "$far_sieve" sh "$LMCP_MARK" "$3" "$far_stat" "$far_texts" 2>/dev/null | head -c "$5"
}
