"""Command lines that several topics use. All of them are for a plain POSIX shell."""

# A process that leaves its group and its parent: only what follows it by other means can end it.
ESCAPE = "( setsid sh -c '( sleep 300 & ) ; sleep 300' & )"

# Three levels, a process at each.
TREE = "sh -c 'sh -c \"sleep 300 & sleep 300\" & sleep 300' & sleep 300"

# A tree that does not mind any polite signal.
STUBBORN = "trap '' TERM HUP INT QUIT; sh -c 'sleep 300' & while :; do sleep 300; done"


def letters(count, letter):
    """Writes `letter` `count` times, without a line end."""
    return f"head -c {count} /dev/zero | tr '\\0' {letter}"


def numbered(count):
    """The output of `seq`, as the shell writes it."""
    return "".join(f"{n}\n" for n in range(1, count + 1))
