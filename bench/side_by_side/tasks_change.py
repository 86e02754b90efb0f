"""Tasks that change files."""

import json

from .project import CART, CRLF, LATIN1, PRICES, UTF16
from .task import Task, expect, expect_text

THREE = (
    ("config/app.toml", "timeout = 30\n", "timeout = 45\nretries = 3\n"),
    ("config/limits.json", '"items": 100', '"items": 250'),
    ("src/shop/mail.py", 'return f"Your order in {CURRENCY}"', 'return f"Order {order}, in {CURRENCY}"'),
)
TAKEN_BACK = (
    ("src/shop/prices.py", "TAX_RATE = 19", "TAX_RATE = 7"),
    ("src/shop/prices.py", '"plum": 30', '"plum": 35'),
    ("src/shop/cart.py", "count < 1", "count < 0"),
)
RENAME = "grep -rl legacy_round src | xargs sed -i 's/legacy_round/round_half/g' && grep -rc round_half src | grep -v ':0$' | wc -l"
MOVE = "mv src/shop/mail.py src/shop/messages.py && grep -rl 'shop\\.mail' src tests | xargs sed -i 's/shop\\.mail/shop.messages/' && grep -rn 'shop\\.messages' src tests"
DAILY = '"""The report of a day."""\n\n\ndef daily(orders):\n    return len(orders)\n'


def edits(changes):
    return [{"path": path, "old_string": old, "new_string": new} for path, old, new in changes]


def edit_block(s, path, old, new):
    return s.call("edit_block", file_path=s.path(path), old_string=old, new_string=new)


def edit_file(s, path, *pairs):
    """That of server-filesystem: several edits, of one file."""
    return s.call("edit_file", path=s.path(path), edits=[{"oldText": old, "newText": new} for old, new in pairs])


class ChangeOne(Task):
    """Read a file and change a line"""

    def lmcp(self, s):
        s.call("read_file", path="config/app.toml")
        s.call("edit_file", path="config/app.toml", old_string="timeout = 30", new_string="timeout = 60")

    def commander(self, s):
        s.call("read_file", path=s.path("config/app.toml"))
        edit_block(s, "config/app.toml", "timeout = 30", "timeout = 60")

    def filesystem(self, s):
        s.call("read_text_file", path=s.path("config/app.toml"))
        edit_file(s, "config/app.toml", ("timeout = 30", "timeout = 60"))

    def check(self, session):
        expect_text(session, "config/app.toml", "timeout = 60\n")


class ChangeThree(Task):
    """Read three files and change something different in each"""

    shows = ("timeout = 30", '"items": 100', "CURRENCY")

    def lmcp(self, s):
        s.call("read_file", paths=[path for path, _, _ in THREE])
        s.call("edit_file", edits=edits(THREE))

    def commander(self, s):
        s.call("read_multiple_files", paths=[s.path(path) for path, _, _ in THREE])
        for path, old, new in THREE:
            edit_block(s, path, old, new)

    def filesystem(self, s):
        s.call("read_multiple_files", paths=[s.path(path) for path, _, _ in THREE])
        for path, old, new in THREE:
            edit_file(s, path, (old, new))

    def check(self, session):
        for path, _, new in THREE:
            expect_text(session, path, new)


class RenameEverywhere(Task):
    """Rename a function in the twenty files that use it"""

    def lmcp(self, s):
        s.call("shell", command=RENAME)

    def commander(self, s):
        s.call("start_process", command=RENAME, timeout_ms=5000)

    def filesystem(self, s):
        listed = s.call("search_files", path=s.path("src"), pattern="**/part_*.py").text.split()
        s.call("read_multiple_files", paths=listed)
        for path in listed:
            s.call("edit_file", path=path, edits=[{"oldText": "legacy_round", "newText": "round_half"}])

    def check(self, session):
        for part in (session.folder / "src/shop/parts").iterdir():
            text = part.read_text()
            expect("round_half" in text and "legacy_round" not in text, f"{part.name} has the old name")


class NewFile(Task):
    """Write a new file in a new folder"""

    def lmcp(self, s):
        s.call("write_file", path="src/shop/reports/daily.py", content=DAILY, parents=True)

    def commander(self, s):
        s.call("create_directory", path=s.path("src/shop/reports"))
        s.call("write_file", path=s.path("src/shop/reports/daily.py"), content=DAILY)

    filesystem = commander

    def check(self, session):
        expect_text(session, "src/shop/reports/daily.py", DAILY)


class AppendLine(Task):
    """Add a line to the end of a file"""

    def lmcp(self, s):
        s.call("write_file", path="text/list.txt", content="plum\n", mode="append")

    def commander(self, s):
        s.call("write_file", path=s.path("text/list.txt"), content="plum\n", mode="append")

    def filesystem(self, s):
        s.call("read_text_file", path=s.path("text/list.txt"))
        edit_file(s, "text/list.txt", ("pear\n", "pear\nplum\n"))

    def check(self, session):
        expect_text(session, "text/list.txt", "apple\npear\nplum\n")


class WrongFirst(Task):
    """Change lines of which the model has the indentation wrong at first"""

    wrong, right = "    total = 0\n    for name, count in self.items:\n", "        total = 0\n        for name, count in self.items:\n"
    new = "        total = 0\n        for name, count in sorted(self.items):\n"

    def lmcp(self, s):
        s.call("edit_file", path="src/shop/cart.py", old_string=self.wrong, new_string=self.new)
        s.call("edit_file", path="src/shop/cart.py", old_string=self.right, new_string=self.new)

    def commander(self, s):
        edit_block(s, "src/shop/cart.py", self.wrong, self.new)
        edit_block(s, "src/shop/cart.py", self.right, self.new)

    def filesystem(self, s):
        if edit_file(s, "src/shop/cart.py", (self.wrong, self.new)).is_error:
            s.call("read_text_file", path=s.path("src/shop/cart.py"))
            edit_file(s, "src/shop/cart.py", (self.right, self.new))

    def check(self, session):
        text = (session.folder / "src/shop/cart.py").read_text()
        expect(text == CART.replace(self.right, self.new), "the file is not as it should be")


class Crlf(Task):
    """Change a line of a file with Windows line ends, which stay"""

    def lmcp(self, s):
        s.call("read_file", path="text/crlf.ini")
        s.call("edit_file", path="text/crlf.ini", old_string="second=2\nthird=3", new_string="second=22\nthird=33")

    def commander(self, s):
        s.call("read_file", path=s.path("text/crlf.ini"))
        edit_block(s, "text/crlf.ini", "second=2\nthird=3", "second=22\nthird=33")

    def filesystem(self, s):
        s.call("read_text_file", path=s.path("text/crlf.ini"))
        edit_file(s, "text/crlf.ini", ("second=2\nthird=3", "second=22\nthird=33"))

    def check(self, session):
        wanted = CRLF.replace("second=2", "second=22").replace("third=3", "third=33").encode()
        expect((session.folder / "text/crlf.ini").read_bytes() == wanted, "the line ends are not what they were")


class Encoded(Task):
    """The common part of files that are not UTF-8. With a command where the server itself cannot do it."""

    def lmcp(self, s):
        read = s.call("read_file", path=self.path)
        if self.old not in read.text:
            s.call("shell", command=f"iconv -f {self.encoding} -t utf-8 {self.path}")
        if s.call("edit_file", path=self.path, old_string=self.old, new_string=self.new).is_error:
            s.call("shell", command=self.by_command())

    def commander(self, s):
        read = s.call("read_file", path=s.path(self.path))
        if self.old not in read.text:
            s.call("start_process", command=f"iconv -f {self.encoding} -t utf-8 {self.path}", timeout_ms=5000)
        s.call("start_process", command=self.by_command(), timeout_ms=5000)

    def by_command(self):
        there, back = f"iconv -f {self.encoding} -t utf-8", f"iconv -f utf-8 -t {self.encoding}"
        return f"{there} {self.path} | sed 's/{self.old}/{self.new}/' | {back} > new.txt && mv new.txt {self.path}"

    def check(self, session):
        expect(self.old in session.seen, "the model could not read it")
        at = session.folder / self.path
        expect(at.read_bytes() == self.wanted(), "the file is not in its encoding, or not changed")


class Latin1(Encoded):
    """Read and change a Latin-1 file, which stays Latin-1"""

    path, encoding, old, new = "text/latin1.txt", "latin1", "5 £ für", "6 £ für"

    def wanted(self):
        return LATIN1.replace(self.old, self.new).encode("latin-1")


class Utf16(Encoded):
    """Read and change a UTF-16 file, which stays UTF-16"""

    path, encoding, old, new = "text/utf16.txt", "utf-16", "закрыт", "открыт"

    def wanted(self):
        return b"\xff\xfe" + UTF16.replace(self.old, self.new).encode("utf-16-le")


class Undo(Task):
    """Take back three changes in two files"""

    def lmcp(self, s):
        s.call("edit_file", edits=edits(TAKEN_BACK))
        s.call("edit_file", edits=edits([(path, new, old) for path, old, new in TAKEN_BACK]))

    def commander(self, s):
        for path, old, new in TAKEN_BACK:
            edit_block(s, path, old, new)
        for path, old, new in TAKEN_BACK:
            edit_block(s, path, new, old)

    def filesystem(self, s):
        (prices, *one), (_, *two), (cart, *three) = TAKEN_BACK
        edit_file(s, prices, one, two)
        edit_file(s, cart, three)
        edit_file(s, prices, one[::-1], two[::-1])
        edit_file(s, cart, three[::-1])

    def check(self, session):
        expect_text(session, "src/shop/prices.py", PRICES)
        expect_text(session, "src/shop/cart.py", CART)


class MoveModule(Task):
    """Rename a module and everything that imports it"""

    def lmcp(self, s):
        s.call("shell", command=MOVE)

    def commander(self, s):
        s.call("start_process", command=MOVE, timeout_ms=5000)

    def filesystem(self, s):
        s.call("move_file", source=s.path("src/shop/mail.py"), destination=s.path("src/shop/messages.py"))
        s.call("read_multiple_files", paths=[s.path(f"src/shop/{name}.py") for name in ("cart", "orders", "notify")])
        edit_file(s, "src/shop/notify.py", ("shop.mail", "shop.messages"))

    def check(self, session):
        expect((session.folder / "src/shop/messages.py").exists(), "the module was not renamed")
        expect_text(session, "src/shop/notify.py", "from shop.messages import subject")


class Notebook(Task):
    """Read a notebook and change a line of a cell"""

    shows = ("Sales of the year", "plot(year)")

    def lmcp(self, s):
        s.call("read_file", path="notebooks/report.ipynb")
        s.call("edit_file", path="notebooks/report.ipynb", old_string="year = 2025", new_string="year = 2026")

    def commander(self, s):
        s.call("read_file", path=s.path("notebooks/report.ipynb"))
        edit_block(s, "notebooks/report.ipynb", "year = 2025", "year = 2026")

    def filesystem(self, s):
        s.call("read_text_file", path=s.path("notebooks/report.ipynb"))
        edit_file(s, "notebooks/report.ipynb", ("year = 2025", "year = 2026"))

    def check(self, session):
        cells = json.loads((session.folder / "notebooks/report.ipynb").read_text())["cells"]
        expect(cells[1]["source"][0] == "year = 2026\n" and cells[1]["outputs"], "the cell is not as it should be")


TASKS = (ChangeOne, ChangeThree, RenameEverywhere, NewFile, AppendLine, WrongFirst, Crlf, Latin1, Utf16, Undo, MoveModule, Notebook)
