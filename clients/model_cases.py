"""What a model may meet: one tool call each, and what must be in the request that carries its result.

A check returns what is wrong, in words; nothing, if all is there.
"""

import random
import re
import struct
import zlib

PLAIN = 'alpha\nbeta "quoted"\n\tgamma \\ delta\n'
UNICODE = "Ünïcödé 😀 漢字\nעברית العربية\ne\u0301 𝔘 “quoted” \\n <tag> &amp; % \u00a0|\n"
LONG_LINES, LONG_ROWS = 20_000, 100_000
JOB = "step 1\nstep 2\nstep 3\nnaïve — done"


def make_files(folder):
    (folder / "plain.txt").write_text(PLAIN)
    (folder / "unicode.txt").write_text(UNICODE)
    lines = (f"line {number:05} of the long file: all that stands here fills it\n" for number in counted(LONG_LINES))
    (folder / "long.txt").write_text("".join(lines))
    (folder / "picture.png").write_bytes(png(64, 48))
    (folder / "photo.png").write_bytes(png(1600, 1200, noise=random.Random(1)))
    (folder / "program").write_bytes(b"\x7fELF\x02\x01\x01\0" + random.Random(2).randbytes(4088))


def next_call(step, seen):
    """The steps of the conversation: a tool and its arguments; None behind the last."""
    if step >= len(STEPS):
        return None
    name, arguments = STEPS[step]
    return name, {key: job_id(seen) if value is JOB_ID else value for key, value in arguments.items()}


def job_id(seen):
    """As a model would find it."""
    found = re.search(r'job\W+(?:id\W+)?([a-z0-9]{8,})|"id"\s*:\s*"([^"]+)"', seen.text)
    return (found[1] or found[2]) if found else "unknown"


def check_plain(seen):
    return is_there(PLAIN, seen) + no_images(seen)


def check_unicode(seen):
    return is_there(UNICODE, seen)


def check_job(seen):
    return is_there(JOB, seen)


def is_there(text, seen):
    if text.rstrip("\n") in seen.text:
        return []
    escaped = text.rstrip("\n").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return ["as escaped JSON"] if escaped in seen.text else ["the text is missing"]


def no_images(seen):
    return ["an image that nobody asked for"] if seen.images else []


def check_long(seen):
    """Whole lines from the first on, and then where to go on."""
    wrong = one_line_each(seen, "line")
    numbers = [int(number) for number in re.findall(r"line (\d{5}) of the long file", seen.text)]
    if not numbers:
        return ["the text is missing"]
    if numbers != list(counted(len(numbers))) or len(numbers) < 50:
        return [*wrong, "cut in the middle: by the client"]
    behind = seen.text[seen.text.rindex(f"line {len(numbers):05} of") :] + seen.text[: seen.text.index("line 00001 of")]
    is_told = re.search(rf"\b{len(numbers) + 1}\b", behind)
    return wrong + ([] if is_told else ["the way to the rest is missing"])


def check_long_output(seen):
    """The first rows, the last rows, and between them or around them how to get those left out."""
    wrong = one_line_each(seen, "row")
    numbers = [int(number) for number in re.findall(r"row (\d{6}) of the output", seen.text)]
    gaps = [at for at, (one, two) in enumerate(zip(numbers, numbers[1:])) if two != one + 1]
    if not numbers:
        return ["the text is missing"]
    if numbers[0] != 1 or len(gaps) != 1 or numbers[-1] != LONG_ROWS:
        return [*wrong, "not one beginning and one end: cut by the client"]
    is_told = "job_output" in seen.text or "job://" in seen.text
    return wrong + ([] if is_told else ["the way to the rest is missing"])


def one_line_each(seen, word):
    return [] if re.search(rf"\n{word} \d+", seen.text) else ["as escaped JSON"]


def check_error(seen):
    wrong = [] if "missing.txt" in seen.text and "does not exist" in seen.text else ["the reason is missing"]
    return wrong + (["not marked as an error"] if seen.is_error is False else [])


def check_failed_command(seen):
    """It ran, so it is an answer: both streams and the code, and no mark of an error."""
    wrong = [f"{word} is missing" for word in ("said on stdout", "said on stderr") if word not in seen.text]
    code = re.search(r'exit(?: |_|")*code"?:? ?3\b|exit(?:ed)?(?: with)? 3\b', seen.text)
    wrong += [] if code else ["the exit code is missing"]
    return wrong + (["marked as an error"] if seen.is_error else [])


def check_image(seen):
    return [] if [size(image) for image in seen.images] == [(64, 48)] else no_picture(seen)


def check_photo(seen):
    return [] if [True for image in seen.images if size(image)] == [True] else no_picture(seen)


def no_picture(seen):
    if seen.images:
        return [f"{len(seen.images)} images of {', '.join(str(size(image)) for image in seen.images)}"]
    return ["no image: " + ("refused" if re.search(r"too large|at most|cannot be shown", seen.text) else "text alone")]


def check_binary(seen):
    """Its type or its first bytes, and never the bytes themselves as if they were text."""
    if "\ufffd" in seen.text or "\0" in seen.text:
        return ["bytes shown as text"]
    return [] if re.search(r"ELF|7f ?45 ?4c ?46", seen.text) else ["what it is is missing"]


def size(image):
    """Width and height of a PNG, JPEG or WebP; None if it is none."""
    if image[:8] == b"\x89PNG\r\n\x1a\n":
        return struct.unpack(">II", image[16:24])
    if image[:2] == b"\xff\xd8":
        at = 2
        while at + 9 < len(image):
            marker, length = image[at + 1], int.from_bytes(image[at + 2 : at + 4], "big")
            if 0xC0 <= marker <= 0xC3:
                height, width = struct.unpack(">HH", image[at + 5 : at + 9])
                return width, height
            at += 2 + length
    if image[:4] == b"RIFF" and image[8:12] == b"WEBP":
        return "WebP"
    return None


def png(width, height, noise=None):
    """A picture: a plain field or, as an example of what does not shrink, noise."""
    rows = (b"\0" + (noise.randbytes(width * 3) if noise else bytes((row % 256, 128, 64)) * width) for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(rows), 1)), (b"IEND", b""))
    whole = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(whole)


def counted(count):
    return range(1, count + 1)


JOB_ID = object()
LOOP = "for i in 1 2 3; do echo step $i; done; echo naïve — done"
FAILS = "echo said on stdout; echo said on stderr >&2; exit 3"
# What is asked for, the tool and its arguments, the check; a step without a check prepares the next.
CASES = (
    ("short text", "read_file", {"path": "plain.txt"}, check_plain),
    ("long text", "read_file", {"path": "long.txt"}, check_long),
    ("long output", "shell", {"command": f"seq -f 'row %06.0f of the output' {LONG_ROWS}"}, check_long_output),
    ("error", "read_file", {"path": "missing.txt"}, check_error),
    ("command that fails", "shell", {"command": FAILS}, check_failed_command),
    ("image", "read_file", {"path": "picture.png"}, check_image),
    ("large image", "read_file", {"path": "photo.png"}, check_photo),
    ("binary", "read_file", {"path": "program"}, check_binary),
    ("unicode", "read_file", {"path": "unicode.txt"}, check_unicode),
    (None, "shell_bg", {"command": LOOP}, None),
    ("job output", "job_output", {"id": JOB_ID, "wait_exit": True}, check_job),
)
STEPS = [(tool, arguments) for _, tool, arguments, _ in CASES]
