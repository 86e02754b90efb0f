# Brings those of some files in which one of the texts in a file occurs, or all of them without such a file.
#
# Arguments: the mark of the connection, -i or nothing, the kind of `stat`, the file with the texts, the files.

mark=$1 fold=$2 stat=$3 texts=$4
shift 4

tell() {
    printf '\n%s- entry ' "$mark"
    if [ "$stat" = gnu ]; then stat -c '%f %s %Y' "$1"; else stat -f '%Xp %z %m' "$1"; fi
    printf '%s\n' "$1"
    printf '\n%s- data\n' "$mark"
    cat "$1"
}

for file; do
    case $file in
    */.gitignore | */.ignore) tell "$file" ;;
    esac
done
if [ -z "$texts" ]; then
    for file; do tell "$file"; done
    exit
fi
newline='
'
case "$*" in
*"$newline"*)
    # Names with line ends cannot be told apart in a list.
    for file; do
        # shellcheck disable=SC2086
        if grep -qF $fold -f "$texts" "$file"; then tell "$file"; fi
    done
    ;;
*)
    # shellcheck disable=SC2086
    grep -lF $fold -f "$texts" "$@" | while IFS= read -r file; do tell "$file"; done
    ;;
esac
